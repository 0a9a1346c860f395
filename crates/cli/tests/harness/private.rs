//! A directory of its own for each test.

use super::mounts_below;
use super::watchdog::detach;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory beside all others, removed with all it holds.
pub struct Private {
    path: PathBuf,
}

impl Private {
    /// Makes the directory; every user may look into it.
    pub fn new() -> Private {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters, nothing else is read together with the number.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // `cargo xtask test` knows mounts of dead suites by this name and the process in it.
        let name = format!("hearth-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a private directory is made");
        let path = path.canonicalize().expect("a private directory is found");
        open_to_all(&path);
        Private { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new directory inside.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        std::fs::create_dir(&path).expect("a directory is made");
        open_to_all(&path);
        path
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let left = mounts_below(&self.path);
        for mount in &left {
            detach(mount);
        }
        let removed = std::fs::remove_dir_all(&self.path);
        if !std::thread::panicking() {
            assert!(left.is_empty(), "still mounted: {left:?}");
            removed.expect("the private directory can be removed");
        }
    }
}

fn open_to_all(path: &Path) {
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("a private directory is opened to all");
}
