//! What a volume is built with.

use super::Volume;
use crate::clock::{Clock, SystemClock};
use crate::errno::{Errno, Result};
use crate::home::{Home, MemoryHome};

/// When reads move the access time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtimeMode {
    /// If it is older than the last change, or than a day (Linux's default).
    #[default]
    Relatime,
    /// At every read.
    Strict,
    /// Never.
    No,
}

/// What a panic in an operation leads to, as `errors=` of ext4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The volume becomes read-only.
    #[default]
    RemountRo,
    /// The volume goes on.
    Continue,
    /// The program is aborted.
    Panic,
}

/// Builds a [`Volume`].
pub struct VolumeBuilder {
    pub(super) size: u64,
    pub(super) inodes: u64,
    pub(super) budget: u64,
    pub(super) atime: AtimeMode,
    pub(super) errors: OnError,
    pub(super) read_only: bool,
    pub(super) owner: (u32, u32),
    pub(super) mode: u16,
    pub(super) home: Box<dyn Home>,
    pub(super) clock: Box<dyn Clock>,
}

impl Default for VolumeBuilder {
    fn default() -> VolumeBuilder {
        VolumeBuilder {
            size: u64::MAX >> 12 << 12,
            inodes: u64::MAX >> 8,
            budget: 0,
            atime: AtimeMode::Relatime,
            errors: OnError::RemountRo,
            read_only: false,
            owner: (0, 0),
            mode: 0o755,
            home: Box::new(MemoryHome),
            clock: Box::new(SystemClock),
        }
    }
}

impl VolumeBuilder {
    /// Most bytes of file contents; by default unlimited.
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = bytes;
        self
    }

    /// Most inodes; by default unlimited.
    pub fn inodes(mut self, inodes: u64) -> Self {
        self.inodes = inodes;
        self
    }

    /// Memory for dentries, inodes and pages in bytes, where the home can give them back; 0 (the default): unlimited.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.budget = bytes;
        self
    }

    /// When reads move the access time.
    pub fn atime(mut self, mode: AtimeMode) -> Self {
        self.atime = mode;
        self
    }

    /// What a panic in an operation leads to.
    pub fn errors(mut self, errors: OnError) -> Self {
        self.errors = errors;
        self
    }

    /// Refuse every change with `EROFS`.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Owner and group of the root directory and of the control files.
    pub fn root_owner(mut self, uid: u32, gid: u32) -> Self {
        self.owner = (uid, gid);
        self
    }

    /// Permission bits of the root directory; 0755 by default.
    pub fn root_mode(mut self, mode: u16) -> Self {
        self.mode = mode & 0o7777;
        self
    }

    /// Where objects come from; memory by default.
    pub fn home(mut self, home: impl Home) -> Self {
        self.home = Box::new(home);
        self
    }

    /// The clock that stamps files.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// The volume.
    ///
    /// # Errors
    /// `EINVAL` for a size below one page or no inode at all; what the home answers when it is asked for the root.
    pub fn build(self) -> Result<Volume> {
        if self.size < 4096 || self.inodes == 0 {
            return Err(Errno::EINVAL);
        }
        Volume::from_settings(self)
    }
}

impl std::fmt::Debug for VolumeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VolumeBuilder")
            .field("size", &self.size)
            .field("inodes", &self.inodes)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
