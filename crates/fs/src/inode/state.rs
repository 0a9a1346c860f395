//! State bits of an inode that few inodes have set.

use hearth_sync::primitive::atomic::{AtomicU8, Ordering::Relaxed};

/// One state bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StateBit {
    /// Heat has records of this file, or will have. Set by folds, one at a time, and never cleared.
    Tracked = 1,
    /// Some records of this file lie in other shards than its own. Set and never cleared like
    /// `Tracked`.
    TrackedApart = 2,
    /// It has writers whose writes are charged first. `ops::reserve` orders this bit and the next.
    Charged = 4,
    /// Blocks are reserved for some of its pages.
    Reserved = 8,
    /// It has file capabilities. Follows the extended attributes, under `change`.
    Capable = 16,
    /// It has contents that the backend does not have, and is in a list of such files. Set by
    /// writers inside the gate after they have written; cleared by a write-back before it looks.
    Dirty = 32,
    /// A write-back is under way. Set and cleared under the lock of `cache::flush`.
    Flushing = 64,
    /// It was cut to nothing and nobody who may write it has closed it since. What is written
    /// meanwhile replaces its old contents.
    Emptied = 128,
}

/// The state bits of one inode. All accesses are Relaxed: each bit is a hint that its users order
/// themselves.
#[derive(Default)]
pub(crate) struct StateBits(AtomicU8);

impl StateBits {
    pub fn has(&self, mark: StateBit) -> bool {
        self.0.load(Relaxed) & mark as u8 != 0
    }

    /// Whether the file has contents that the backend has not been told of: of a write-back that is
    /// under way nothing may be recorded yet. One load: a write-back sets its bit before it clears
    /// the other.
    pub fn has_unrecorded(&self) -> bool {
        self.0.load(Relaxed) & (StateBit::Dirty as u8 | StateBit::Flushing as u8) != 0
    }

    pub fn set(&self, mark: StateBit) {
        // Read first, so that a file in use is not written each time.
        if !self.has(mark) {
            self.0.fetch_or(mark as u8, Relaxed);
        }
    }

    /// Sets the bit; true if it was clear.
    pub fn set_first(&self, mark: StateBit) -> bool {
        self.0.fetch_or(mark as u8, Relaxed) & mark as u8 == 0
    }

    pub fn clear(&self, mark: StateBit) {
        self.0.fetch_and(!(mark as u8), Relaxed);
    }
}
