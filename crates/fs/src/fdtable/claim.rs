//! Taking free descriptors.

use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::{AtomicU32, Ordering};

use super::block::{BLOCK_SLOTS, descriptor, slot};
use super::{Described, FdTable};

/// What a core allocates from.
pub(super) struct CoreBlock {
    /// `NO_BLOCK` at first. Changed under the allocation lock.
    number: AtomicU32,
    /// The core that it belongs to. Immutable.
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
    /// The lowest free descriptor from `min` on.
    // Always inlined: an open takes a descriptor, and a call would take as much as the claim.
    #[inline(always)]
    pub(super) fn claim_lowest(&self, min: u32, cloexec: bool) -> Option<u32> {
        let (from, end) = (slot(min), slot(self.limit()));
        if self.cores.is_none()
            && from < BLOCK_SLOTS
            && let Ok(Some(bit)) = self.blocks.first().claim(from, end)
        {
            self.blocks.first().set_cloexec(bit, cloexec);
            return Some(descriptor(bit));
        }
        self.claim_locked(from, end, cloexec)
    }

    /// The lowest free descriptor, for a block beyond the first or when the first block's lock is
    /// held for long. Under the allocation lock nothing beyond the first block changes,
    /// lowest-first: the observation that the first block is full orders this claim.
    #[cold]
    #[inline(never)]
    fn claim_locked(&self, from: u32, end: u32, cloexec: bool) -> Option<u32> {
        let mut alloc = self.alloc.0.lock();
        if from < BLOCK_SLOTS
            && let Some(bit) = self.claim_first(from, end, cloexec)
        {
            return Some(descriptor(bit));
        }
        let min = from.max(BLOCK_SLOTS);
        let mut from = alloc.start(min);
        while from < end {
            let first = from - from % BLOCK_SLOTS;
            let block = self.blocks.grow_to(&mut alloc, first / BLOCK_SLOTS);
            let mut used = self.change(block);
            if let Some(bit) = used.first_free(from - first, end - first) {
                used.take(bit, cloexec);
                if self.cores.is_none() {
                    alloc.mark_used(first + bit, min, used.is_full());
                }
                return Some(descriptor(first + bit));
            }
            from = alloc.start(first + BLOCK_SLOTS);
        }
        None
    }

    /// Takes a slot of the first block. The caller holds the allocation lock.
    fn claim_first(&self, from: u32, end: u32, cloexec: bool) -> Option<u32> {
        let block = self.blocks.first();
        if self.cores.is_some() {
            let mut used = self.change(block);
            let bit = used.first_free(from, end)?;
            used.take(bit, cloexec);
            return Some(bit);
        }
        let bit = loop {
            if let Ok(claimed) = block.claim(from, end) {
                break claimed?;
            }
        };
        block.set_cloexec(bit, cloexec);
        Some(bit)
    }

    #[inline(never)]
    pub(super) fn claim_any(&self, cores: &PerCpu<CoreBlock>, cloexec: bool) -> Option<u32> {
        let core = cores.get();
        let limit = self.limit();
        loop {
            // Relaxed: a preference. The block's own lock decides.
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
            let has_space = |number| self.space(number, limit);
            let Some(chosen) = alloc.own(core.core, old, limit, has_space) else {
                // Relaxed: see the load above.
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
        let first = number * BLOCK_SLOTS;
        let mut used = self.change(block);
        let bit = used.first_free(0, slot(limit).saturating_sub(first))?;
        used.take(bit, cloexec);
        Some(descriptor(first + bit))
    }

    fn space(&self, number: u32, limit: u32) -> bool {
        let end = slot(limit).saturating_sub(number * BLOCK_SLOTS);
        self.blocks
            .get(number)
            .is_none_or(|block| self.change(block).first_free(0, end).is_some())
    }
}
