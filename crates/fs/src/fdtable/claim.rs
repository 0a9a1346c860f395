//! Taking free descriptors.

use hearth_sync::primitive::atomic::{AtomicU32, Ordering};

use super::block::BLOCK_FDS;
use super::{Described, FdTable};

/// What a core allocates from.
pub(super) struct CoreBlock {
    /// `NO_BLOCK` at first. Changed under the allocation lock.
    number: AtomicU32,
    /// Whose it is. Immutable.
    core: u32,
}

const NO_BLOCK: u32 = u32::MAX;

impl CoreBlock {
    pub(super) fn new(core: usize) -> CoreBlock {
        CoreBlock {
            number: AtomicU32::new(NO_BLOCK),
            core: core as u32,
        }
    }
}

impl<T: Described> FdTable<T> {
    pub(super) fn claim_lowest(&self, min: u32, cloexec: bool) -> Option<u32> {
        let limit = self.limit();
        let mut alloc = self.alloc.0.lock();
        let mut from = alloc.start(min);
        while from < limit {
            let first = from - from % BLOCK_FDS;
            let block = self.blocks.grow_to(&mut alloc, first / BLOCK_FDS);
            let mut used = self.change(block);
            if let Some(bit) = used.first_free(from - first, limit - first) {
                used.take(bit, cloexec);
                if self.cores.is_none() {
                    alloc.note_used(first + bit, min, used.is_full());
                }
                return Some(first + bit);
            }
            from = alloc.start(first + BLOCK_FDS);
        }
        None
    }

    pub(super) fn claim_any(&self, core: &CoreBlock, cloexec: bool) -> Option<u32> {
        let limit = self.limit();
        loop {
            // Relaxed: a preference. Whichever block it is, its lock decides.
            let mine = core.number.load(Ordering::Relaxed);
            if let Some(fd) = self.claim_in(mine, limit, cloexec) {
                return Some(fd);
            }
            let mut alloc = self.alloc.0.lock();
            // Relaxed: written under the lock that is held.
            if core.number.load(Ordering::Relaxed) != mine {
                continue;
            }
            let old = (mine != NO_BLOCK).then_some(mine);
            let has_room = |number| self.room(number, limit);
            let Some(chosen) = alloc.own(core.core, old, limit, has_room) else {
                // Relaxed: as above.
                core.number.store(NO_BLOCK, Ordering::Relaxed);
                drop(alloc);
                return self.claim_lowest(0, cloexec);
            };
            self.blocks.grow_to(&mut alloc, chosen);
            core.number.store(chosen, Ordering::Relaxed);
        }
    }

    fn claim_in(&self, number: u32, limit: u32, cloexec: bool) -> Option<u32> {
        let block = self.blocks.get(number)?;
        let first = number * BLOCK_FDS;
        let mut used = self.change(block);
        let bit = used.first_free(0, limit.saturating_sub(first))?;
        used.take(bit, cloexec);
        Some(first + bit)
    }

    fn room(&self, number: u32, limit: u32) -> bool {
        let end = limit.saturating_sub(number * BLOCK_FDS);
        self.blocks
            .get(number)
            .is_none_or(|block| self.change(block).first_free(0, end).is_some())
    }
}
