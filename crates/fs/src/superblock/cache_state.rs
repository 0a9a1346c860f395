//! The state that loading, eviction and the end of inodes share. Only `cache` changes it.
//!
//! Lock order:
//! ```text
//! volume.inode_io      one inode goes to the backend, or comes back
//!   volume.orphans     inodes that the backend has yet to forget
//! volume.kept          references that stay for ever
//! ```

use super::Superblock;
use super::mem_usage::MemUsage;
use crate::cache_padded::CachePadded;
use crate::inode::InodeRef;
use hearth_sync::lock::{Lock, RawLock};
use hearth_sync::lock_class;
use hearth_sync::percpu::Counter;
use hearth_sync::primitive::atomic::AtomicU64;
use std::collections::HashMap;

lock_class! {
    pub(crate) InodeIoLock = "volume.inode_io", 20;
    PinnedLock = "volume.kept", 970;
    pub(crate) OrphansLock = "volume.orphans", 971;
}

/// The state of the inode and page cache.
pub(crate) struct CacheState {
    /// Bytes in memory, and the budget for them.
    pub mem_usage: MemUsage,
    /// The number of unlinked inodes that are still referred to. Their space will come back.
    pub unlinked: Counter,
    /// Locks by inode number, held while an inode goes to the backend or comes back.
    inode_io: [RawLock<InodeIoLock>; 16],
    /// Orphans: inodes that have ended but that the backend has yet to forget, with their
    /// generations. They are never loaded again. Written under `inode_io` of the number.
    pub orphans: Lock<OrphansLock, HashMap<u64, u32>>,
    /// The inode number where the next sweep of reclaim goes on. Relaxed: a hint. On a line of
    /// its own, because every operation reads the budget beside it.
    pub sweep: Box<CachePadded<AtomicU64>>,
    /// Keeps the root and the control files in memory for ever.
    pinned: Lock<PinnedLock, Vec<InodeRef>>,
}

impl CacheState {
    pub fn new(mem_usage: MemUsage) -> CacheState {
        CacheState {
            mem_usage,
            unlinked: Counter::new(),
            inode_io: [const { RawLock::new() }; 16],
            orphans: Lock::new(HashMap::new()),
            sweep: Box::new(CachePadded(AtomicU64::new(0))),
            pinned: Lock::new(Vec::new()),
        }
    }

    /// Gives back the references of [`Superblock::pin_forever`].
    pub fn unpin(&self) {
        self.pinned.lock().clear();
    }
}

impl Superblock {
    /// The lock under which inode `ino` goes to the backend or comes back.
    pub fn inode_io_lock(&self, ino: u64) -> &RawLock<InodeIoLock> {
        let locks = &self.cache.inode_io;
        &locks[ino as usize % locks.len()]
    }

    pub fn pin_forever(&self, inode: InodeRef) {
        self.cache.pinned.lock().push(inode);
    }
}
