//! Panics of a backend. Only this module catches them. The state of the inode is put right first.
//! Then the panic goes on to the caller of the volume.

use crate::errno::Result;
use crate::inode::{Inode, InodeRef};
use crate::superblock::Superblock;
use hearth_sync::epoch::pin;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The payload of a panic.
pub(super) type Panic = Box<dyn Any + Send>;

/// The result of a call of the backend, which may have panicked.
pub(super) type Caught<T> = std::result::Result<T, Panic>;

/// Runs `call`, which calls the backend. State behind locks is consistent after a panic: locks
/// release on unwinding, and nothing is changed before the backend has returned.
pub(super) fn caught<T>(call: impl FnOnce() -> T) -> Caught<T> {
    catch_unwind(AssertUnwindSafe(call))
}

impl Superblock {
    /// Runs `work` on an inode, then gives the reference back even if the backend panicked.
    pub(super) fn with_held<T>(
        &self,
        inode: InodeRef,
        work: impl FnOnce(&Inode) -> Result<T>,
    ) -> Result<T> {
        let result = caught(|| work(&inode));
        self.release(inode, &pin());
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}
