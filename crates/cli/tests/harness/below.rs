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
        let made = Below::made_by("mkfs.ext4", &["-q", "-F"]);
        let lost = made.path.join("lost+found");
        std::fs::remove_dir(lost).expect("a new filesystem has nothing else");
        made
    }

    /// xfs on a loop device.
    pub fn xfs() -> Below {
        Below::made_by("mkfs.xfs", &["-q", "-f"])
    }

    /// btrfs on a loop device.
    pub fn btrfs() -> Below {
        Below::made_by("mkfs.btrfs", &["-q", "-f"])
    }

    /// What this program makes, on a loop device.
    fn made_by(mkfs: &str, arguments: &[&str]) -> Below {
        let private = Private::new();
        let (path, image) = (private.directory("below"), private.path().join("image"));
        let file = std::fs::File::create(&image).expect("an image is made");
        file.set_len(1 << 30).expect("an image is made");
        succeed(program(mkfs).args(arguments).arg(&image));
        succeed(program("mount").args(["-o", "loop"]).arg(&image).arg(&path));
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
