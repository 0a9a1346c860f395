//! What few files are, a bit each.

use hearth_sync::primitive::atomic::{AtomicU8, Ordering::Relaxed};

/// One bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mark {
    /// Heat has records of this file, or will have; set by folds, one at a time, and never cleared.
    Tracked = 1,
    /// Some of them apart from that of the file; the same.
    TrackedApart = 2,
    /// It has charged writers: see `ops::promise`, which orders this and the next.
    Charged = 4,
    /// Some of its pages are promised.
    Promised = 8,
    /// It has file capabilities. Follows the extended attributes, under `change`.
    Capable = 16,
}

/// The bits of one inode. All accesses are Relaxed: each is a hint that its users order themselves.
#[derive(Default)]
pub(crate) struct Marks(AtomicU8);

impl Marks {
    pub fn has(&self, mark: Mark) -> bool {
        self.0.load(Relaxed) & mark as u8 != 0
    }

    pub fn set(&self, mark: Mark) {
        // Read before, so that a file in use is not written each time.
        if !self.has(mark) {
            self.0.fetch_or(mark as u8, Relaxed);
        }
    }

    pub fn clear(&self, mark: Mark) {
        self.0.fetch_and(!(mark as u8), Relaxed);
    }
}
