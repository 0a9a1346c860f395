//! What an fsync that was begun waits for.

pub use crate::superblock::WhenDurable;

/// Where an fsync that was begun has to wait for the backend: [`crate::Vfs::begin_fsync`].
#[derive(Clone, Copy, Debug)]
pub struct SyncPoint(pub(super) u64);
