//! Where the volume is mounted.

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use std::path::{Path, PathBuf};

lock_class!(FrontLock = "volume.front", 16);

/// The mount point of the kernel that uses the volume by number and caches it: at most one. Changes
/// that a kernel makes are announced to nobody, and the references that lookups take are not told
/// apart by who took them.
pub(crate) struct Front(Lock<FrontLock, Option<PathBuf>>);

impl Front {
    pub fn new() -> Front {
        Front(Lock::new(None))
    }

    /// Takes the place of the one kernel; where it is taken, returns the mount point.
    pub fn take(&self, mountpoint: &Path) -> Result<(), PathBuf> {
        let mut front = self.0.lock();
        if let Some(first) = &*front {
            return Err(first.clone());
        }
        *front = Some(mountpoint.to_owned());
        Ok(())
    }

    /// Gives it back.
    pub fn leave(&self) {
        *self.0.lock() = None;
    }
}
