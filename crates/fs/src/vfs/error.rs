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
    /// The call would block, and has changed nothing: [`crate::Vfs::fetch`] this, which may block,
    /// and call again.
    Miss(Miss),
}

/// Result of a call that may not block.
pub type VfsResult<T> = std::result::Result<T, VfsError>;

/// What a call needs that is not there: for the core, something that only its backend has.
#[derive(Debug)]
pub struct Miss(pub(super) MissKind);

#[derive(Debug)]
pub(super) enum MissKind {
    /// The core fetches it from its backend.
    Core(Fetch),
    /// Another implementation does this.
    Work(Arc<dyn BlockingWork>),
}

/// Work of an implementation of [`crate::Vfs`] that blocks, such as a system call. It knows where
/// its result goes, so that the call finds it when it runs again.
pub trait BlockingWork: fmt::Debug + Send + Sync {
    /// Does the work.
    ///
    /// # Errors
    /// The call fails with this error.
    fn run(&self) -> Result<()>;
}

impl Miss {
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
