//! The room of a durable backend. What is written is given to it later, so room is looked at first:
//! an operation that needs more is refused while removing still works.
//!
//! | state | an operation that needs room |
//! |---|---|
//! | room | goes on |
//! | doubt | waits until everything is written back and dead space has come back, and looks again |
//! | full | is refused, unless there is room by now |

use super::Superblock;
use super::attempt::{Attempt, Fetch, Stop};
use crate::errno::Errno;
use hearth_sync::primitive::atomic::Ordering::Relaxed;

/// See the table above.
const ROOM: u8 = 0;
const DOUBT: u8 = 1;
const FULL: u8 = 2;

/// What the backend needs beside the bytes themselves: a part of them, and a bit.
const OVERHEAD: u64 = 32;
const SPARE: u64 = 4 << 20;
/// Milliseconds for which a full backend is not asked again to make room.
const RETRY_MS: u64 = 200;

impl Superblock {
    /// Looks at the backend's room: after commits, and now and then after writes.
    pub fn look_at_room(&self) {
        match (self.has_room(), self.cache.room.load(Relaxed)) {
            (true, ROOM) | (false, DOUBT | FULL) => {}
            (true, _) => self.cache.room.store(ROOM, Relaxed),
            (false, _) => self.doubt_room(),
        }
    }

    /// Whether the backend has room for what is to be written back, and for more.
    pub fn has_room(&self) -> bool {
        self.has_room_for(0)
    }

    /// Whether it has room for so many bytes beside that.
    fn has_room_for(&self, bytes: u64) -> bool {
        let Some(log) = self.log() else { return true };
        // First: what is committed in between counts twice, and not never.
        let dirty = log.unwritten.bytes().saturating_add(bytes);
        let room = self.objects.backend.room();
        room.is_none_or(|(_, free)| free > dirty + dirty / OVERHEAD + SPARE)
    }

    /// There may be no room: the next operation that needs some finds out.
    pub fn doubt_room(&self) {
        self.cache.room.store(DOUBT, Relaxed);
    }

    /// Everything was done to make room.
    pub fn settle_room(&self) {
        let state = if self.has_room() { ROOM } else { FULL };
        let now = self.objects.clock.monotonic();
        self.cache.full_since.store(now, Relaxed);
        self.cache.room.store(state, Relaxed);
    }

    /// Whether it is time to try again to make room: something may have been removed since. Asked
    /// before the look at the room, which may take longer than that: else every look behind a try
    /// would ask for another one.
    pub(super) fn is_full_for_long(&self) -> bool {
        let since = self.cache.full_since.load(Relaxed);
        self.objects.clock.monotonic().saturating_sub(since) > RETRY_MS
    }

    /// Whether the backend has room for more; `ENOSPC` otherwise.
    #[inline]
    pub fn check_room(&self) -> Attempt<()> {
        match self.cache.room.load(Relaxed) {
            ROOM => Ok(()),
            state => self.check_doubted_room(state),
        }
    }

    /// Whether the backend has room for so many bytes that are allocated now and written later;
    /// `ENOSPC` otherwise. `may_try`: [`Superblock::is_full_for_long`], asked before.
    pub fn check_room_for(&self, bytes: u64, may_try: bool) -> Attempt<()> {
        match self.has_room_for(bytes) {
            true => Ok(()),
            false if may_try => Err(Stop::miss(Fetch::Space)),
            false => Err(Errno::ENOSPC.into()),
        }
    }

    #[cold]
    fn check_doubted_room(&self, state: u8) -> Attempt<()> {
        let may_try = self.is_full_for_long();
        match (self.has_room(), state) {
            (true, _) => {
                self.cache.room.store(ROOM, Relaxed);
                Ok(())
            }
            (false, FULL) if !may_try => Err(Errno::ENOSPC.into()),
            (false, _) => Err(Stop::miss(Fetch::Space)),
        }
    }

    /// Bytes that are free: what the volume's limits leave, or less if the backend has less.
    pub fn free_bytes(&self, left: u64) -> u64 {
        let Some(log) = self.log() else { return left };
        // First, as in `has_room_for`.
        let dirty = log.unwritten.bytes();
        match self.objects.backend.room() {
            Some((_, free)) => left.min(free.saturating_sub(dirty + dirty / OVERHEAD + SPARE)),
            None => left,
        }
    }
}
