//! A filesystem of its own, to be served as a host volume.

use super::{Private, program, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A filesystem that is mounted for a test. Dropped after what serves it.
pub struct Below {
    path: PathBuf,
    private: Private,
}

impl Below {
    /// One in memory.
    pub fn tmpfs() -> Below {
        Below::tmpfs_with("size=1G")
    }

    /// One in memory, with these mount options.
    pub fn tmpfs_with(options: &str) -> Below {
        let private = Private::new();
        let path = private.directory("below");
        let mut mount = program("mount");
        mount.args(["-t", "tmpfs", "-o", options, "hearth-suite"]);
        succeed(mount.arg(&path));
        Below { path, private }
    }

    /// ext4 on a loop device.
    pub fn ext4() -> Below {
        let private = Private::new();
        let (path, image) = (private.directory("below"), private.path().join("image"));
        let file = std::fs::File::create(&image).expect("an image is made");
        file.set_len(1 << 30).expect("an image is made");
        succeed(program("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        succeed(program("mount").args(["-o", "loop"]).arg(&image).arg(&path));
        let lost = path.join("lost+found");
        std::fs::remove_dir(lost).expect("a new filesystem has nothing else");
        Below { path, private }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path on it.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path.join(path)
    }

    /// A new directory beside.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.private.directory(name)
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        // A program that another test starts right now may hold what this test had open.
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let done = Command::new("umount").arg(&self.path).output();
            if done.is_ok_and(|done| done.status.success()) || std::thread::panicking() {
                return;
            }
            assert!(Instant::now() < end, "{} stays in use", self.path.display());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
