//! A fresh directory for one run, in a place that stays.

use super::{Fresh, HostDir, Target};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// An empty directory of the host that goes away with what is in it.
pub struct Subdirectory {
    path: PathBuf,
    host: HostDir,
}

impl Subdirectory {
    /// Makes a directory in `place`, for clients that act as processes, or as threads of one.
    pub fn new(place: &Path, for_threads: bool) -> Result<Subdirectory, String> {
        if !place.is_dir() {
            return Err(format!("{}: not a directory", place.display()));
        }
        // Relaxed: a number by itself.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let path = place.join(format!("hearth-bench-{}-{number}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|error| format!("{}: {error}; name one to write to", place.display()))?;
        let host = HostDir::new(&path)?;
        let host = if for_threads {
            host.for_threads()
        } else {
            host
        };
        Ok(Subdirectory { path, host })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Fresh for Subdirectory {
    fn target(&self) -> &dyn Target {
        &self.host
    }
}

impl Drop for Subdirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
