//! Mount options: immutable ones, and those that can change while the volume is in use.

use super::Superblock;
use super::build_options::{AtimeMode, BuildOptions, OnError, Protection};
use crate::errno::{Errno, Result};
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU8, Ordering};

/// The options of a volume in use.
pub(crate) struct Options {
    /// An [`AtimeMode`]. Relaxed: an option of its own.
    atime: AtomicU8,
    /// Relaxed: see [`Superblock::set_read_only`].
    read_only: AtomicBool,
    /// What a panic leads to. Immutable.
    pub errors: OnError,
    /// User and group of the root directory and of the control files. Immutable.
    pub owner: (u32, u32),
    /// The largest number of names of a file. Immutable.
    pub links_max: u32,
    /// Immutable.
    pub protection: Protection,
    /// Whether a front end serves inodes that the volume does not have. Immutable.
    pub serves_elsewhere: bool,
}

impl Options {
    pub fn new(options: &BuildOptions) -> Options {
        Options {
            atime: AtomicU8::new(options.atime as u8),
            read_only: AtomicBool::new(options.read_only),
            errors: options.errors,
            owner: options.owner,
            links_max: options.links_max,
            protection: options.protection,
            serves_elsewhere: options.serves_elsewhere,
        }
    }
}

impl Superblock {
    pub fn is_read_only(&self) -> bool {
        // Relaxed: see `set_read_only`.
        self.options.read_only.load(Ordering::Relaxed)
    }

    pub fn set_read_only(&self, read_only: bool) {
        // A backend that has failed for good takes no change.
        let read_only = read_only || self.cache.latched().is_some();
        // Relaxed: a flag of its own; an operation already past its check may still finish.
        self.options.read_only.store(read_only, Ordering::Relaxed);
        if let Some(log) = self.log() {
            log.keep_settings(!read_only);
        }
    }

    /// `EROFS` where changes are refused.
    pub fn check_writable(&self) -> Result<()> {
        if self.is_read_only() {
            Err(Errno::EROFS)
        } else {
            Ok(())
        }
    }

    /// When reads move the access time.
    pub fn atime(&self) -> AtimeMode {
        // Relaxed: an option of its own.
        match self.options.atime.load(Ordering::Relaxed) {
            a if a == AtimeMode::Strict as u8 => AtimeMode::Strict,
            a if a == AtimeMode::No as u8 => AtimeMode::No,
            _ => AtimeMode::Relatime,
        }
    }

    pub fn set_atime(&self, mode: AtimeMode) {
        // Relaxed: see `atime`.
        self.options.atime.store(mode as u8, Ordering::Relaxed);
    }
}
