//! The room of a durable backend. What is written is given to it later, so room is looked at before:
//! an operation that needs more is refused while removing still works.

use super::Superblock;
use crate::errno::{Errno, Result};
use hearth_sync::primitive::atomic::Ordering::Relaxed;

impl Superblock {
    /// Asks the backend for its room, now and then: after commits and written bytes.
    pub fn look_at_room(&self) {
        let Some(log) = self.log() else { return };
        // A backend that does not tell its room may have some again: the next commit finds out.
        let room = self.objects.backend.room();
        let is_full = room.is_some_and(|(_, free)| free <= log.dirty_bytes());
        if self.cache.is_full.load(Relaxed) != is_full {
            self.cache.is_full.store(is_full, Relaxed);
        }
    }

    /// Whether the backend has room for more; `ENOSPC` otherwise.
    #[inline]
    pub fn check_room(&self) -> Result<()> {
        match self.cache.is_full.load(Relaxed) {
            false => Ok(()),
            true => self.check_room_again(),
        }
    }

    #[cold]
    fn check_room_again(&self) -> Result<()> {
        self.look_at_room();
        match self.cache.is_full.load(Relaxed) {
            false => Ok(()),
            true => Err(Errno::ENOSPC),
        }
    }

    /// Bytes that are free: what the volume's limits leave, or less if the backend has less.
    pub fn free_bytes(&self, left: u64) -> u64 {
        match (self.log(), self.objects.backend.room()) {
            (Some(log), Some((_, free))) => left.min(free.saturating_sub(log.dirty_bytes())),
            _ => left,
        }
    }
}
