//! A private directory with a mount point in it.

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Removes itself, and whatever is mounted on its mount point, when dropped.
pub struct Place {
    root: PathBuf,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Place {
    /// A new directory that every user may pass, with an empty mount point.
    pub fn new() -> Place {
        // A counter of names: nothing else is ordered by it.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("hearth-test-{}-{number}", std::process::id());
        let temporary = std::env::temp_dir().canonicalize().unwrap();
        let place = Place {
            root: temporary.join(name),
        };
        fs::create_dir_all(place.mount()).unwrap();
        fs::set_permissions(&place.root, fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The mount point in it.
    pub fn mount(&self) -> PathBuf {
        self.root.join("mnt")
    }

    /// Where a daemon prints to.
    pub fn log(&self) -> PathBuf {
        self.root.join("daemon.log")
    }

    /// Mounts kernel tmpfs on the mount point: what the kernel's own answer would be.
    pub fn tmpfs(&self) {
        let flags = MountFlags::empty();
        mount("tmpfs", self.mount(), "tmpfs", flags, None).expect("mount tmpfs; are you root?");
    }

    /// Takes every mount off the mount point.
    pub fn detach(&self) {
        while unmount(self.mount(), UnmountFlags::DETACH).is_ok() {}
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.detach();
        if let Err(error) = fs::remove_dir_all(&self.root) {
            eprintln!("{}: {error}", self.root.display());
        }
    }
}
