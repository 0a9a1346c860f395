//! Ghosts: inodes that have ended and that the backend has yet to forget. They are never loaded
//! again, and their numbers are free once the backend has forgotten them.

use crate::cache_padded::CachePadded;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use std::collections::HashMap;

lock_class! {
    GhostLock = "volume.ghosts", 985;
}

/// Parts by number. Numbers come from blocks of [`BLOCK`] that belong to a core, so cores that
/// remove what they have made seldom meet.
const PARTS: u64 = 64;
const BLOCK: u64 = 1024;

/// The ghosts of a volume.
pub(crate) struct Ghosts {
    parts: [CachePadded<Lock<GhostLock, HashMap<u64, u32>>>; PARTS as usize],
    /// Those whose records are with the backend. Used by the committer.
    sent: Lock<GhostLock, Vec<(u64, u32)>>,
}

impl Ghosts {
    pub fn new() -> Ghosts {
        Ghosts {
            parts: std::array::from_fn(|_| CachePadded(Lock::new(HashMap::new()))),
            sent: Lock::new(Vec::new()),
        }
    }

    /// The inode has ended.
    pub fn insert(&self, ino: u64, generation: u32) {
        self.part(ino).lock().insert(ino, generation);
    }

    /// Whether inode `ino` has ended and the backend may still have it.
    pub fn contains(&self, ino: u64) -> bool {
        self.part(ino).lock().contains_key(&ino)
    }

    /// The record of its end is about to go to the backend.
    pub fn note_sent(&self, ino: u64, generation: u32) {
        self.sent.lock().push((ino, generation));
    }

    /// The backend has everything that was sent: returns those that it has forgotten.
    pub fn take_sent(&self) -> Vec<(u64, u32)> {
        let sent = std::mem::take(&mut *self.sent.lock());
        for (ino, _) in &sent {
            self.part(*ino).lock().remove(ino);
        }
        sent
    }

    fn part(&self, ino: u64) -> &Lock<GhostLock, HashMap<u64, u32>> {
        &self.parts[(ino / BLOCK % PARTS) as usize].0
    }
}
