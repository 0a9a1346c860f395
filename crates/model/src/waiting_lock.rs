//! A lock request that waits.

use crate::locks::{Owner, Wish};
use crate::node::NodeId;
use crate::op::Fd;
use crate::process::FileId;

/// A lock request that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingLock {
    pub ticket: u64,
    pub process: usize,
    /// The descriptor that it came through, and its file then.
    pub fd: Fd,
    pub file: FileId,
    pub node: NodeId,
    pub wish: Wish,
}

impl WaitingLock {
    /// The process that will own the lock, `None` for a lock of a description.
    pub fn deadlock_owner(&self) -> Option<Owner> {
        match self.wish {
            Wish::Record {
                owner: owner @ Owner::Process(_),
                ..
            } => Some(owner),
            _ => None,
        }
    }
}
