//! Errors of calls that may not block, among them the miss.

use crate::errno::{Errno, Result};
use crate::superblock::Fetch;
use hearth_sync::primitive::Arc;
use std::fmt;

/// Why a call of [`crate::Vfs`] did not finish.
#[derive(Debug)]
pub enum VfsError {
    /// The call failed as the Linux call of that name does.
    Errno(Errno),
    /// The call would block, and has changed nothing. Pass this to [`crate::Vfs::fetch`], which may
    /// block, and call again.
    Miss(Miss),
}

/// Result of a call that may not block.
pub type VfsResult<T> = std::result::Result<T, VfsError>;

/// What a call needs and is not there. For the core, it is something that only the backend has.
#[derive(Debug)]
pub struct Miss(pub(super) MissKind);

#[derive(Debug)]
pub(super) enum MissKind {
    /// The core fetches it from its backend.
    Core(Fetch),
    /// Work of another implementation.
    Work(Arc<dyn BlockingWork>),
}

/// Blocking work of an implementation of [`crate::Vfs`], such as a system call. It stores its
/// result where the call finds it when it runs again.
pub trait BlockingWork: fmt::Debug + Send + Sync {
    /// Does the work.
    ///
    /// # Errors
    /// The call fails with this error.
    fn run(&self) -> Result<()>;
}

impl Miss {
    /// Whether it waits until changes are written back, or until memory or space is there, and not
    /// for something that was asked for.
    pub fn waits_for_room(&self) -> bool {
        matches!(
            self.0,
            MissKind::Core(Fetch::Sync | Fetch::Space | Fetch::Room(_))
        )
    }

    /// Whether it is a page of a file.
    pub fn is_page(&self) -> bool {
        matches!(self.0, MissKind::Core(Fetch::Page { .. }))
    }

    /// A miss that `work` resolves.
    pub fn of(work: Arc<dyn BlockingWork>) -> Miss {
        Miss(MissKind::Work(work))
    }
}

impl From<Errno> for VfsError {
    fn from(errno: Errno) -> VfsError {
        VfsError::Errno(errno)
    }
}
