//! Blocks that a new file has before anything is written to it, beside its inode: labels of a
//! security module, or what it is encrypted by, where these do not fit in the inode. Nobody tells
//! of them before. So each directory is believed to give what it has given last, and one that has
//! made nothing yet the most that any has given.

use hearth_sync::primitive::atomic::{AtomicU32, Ordering::Relaxed};

/// Of a directory that has made nothing yet.
const UNKNOWN: u32 = u32::MAX;

/// What a directory, or any directory, has given a new file. Relaxed: it is what to expect.
#[derive(Debug)]
pub struct Labels(AtomicU32);

impl Default for Labels {
    fn default() -> Labels {
        Labels(AtomicU32::new(UNKNOWN))
    }
}

impl Labels {
    /// What the root gives.
    pub fn of(blocks: u32) -> Labels {
        Labels(AtomicU32::new(blocks))
    }

    /// Blocks, once they are known.
    pub fn get(&self) -> Option<u32> {
        Some(self.0.load(Relaxed)).filter(|&blocks| blocks != UNKNOWN)
    }

    /// From now on it gives this.
    pub fn set(&self, blocks: u32) {
        if self.get() != Some(blocks) {
            self.0.store(blocks, Relaxed);
        }
    }
}
