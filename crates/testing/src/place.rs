//! A directory of its own for each test and benchmark.

use rustix::mount::{UnmountFlags, unmount};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory beside all others; dropping it takes away what is mounted in it and removes it.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
}

impl Place {
    /// Makes the directory.
    pub fn new(name: &str) -> io::Result<Place> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: a number by itself.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // `cargo xtask test` knows mounts of dead suites by this name and the process in it.
        let name = format!("hearth-test-{}-{name}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Place {
            path: path.canonicalize()?,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new directory in it.
    pub fn directory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir(&path)?;
        Ok(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for mount in mounts_below(&self.path).iter().rev() {
            // By force: whoever waits for a dead daemon gets an error.
            let _ = unmount(mount, UnmountFlags::FORCE | UnmountFlags::DETACH);
        }
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("{}: {error}", self.path.display());
        }
    }
}

/// What is mounted in or on `path`, in the order of mounting.
pub fn mounts_below(path: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = table.lines().filter_map(|line| line.split(' ').nth(1));
    let mounts = mounts.map(PathBuf::from);
    mounts.filter(|mount| mount.starts_with(path)).collect()
}
