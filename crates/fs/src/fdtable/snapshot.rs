//! Freezing a table, and copying it.

use hearth_sync::epoch;
use hearth_sync::primitive::atomic::Ordering;
use hearth_sync::rcu::Share;

use super::block::{BLOCK_SLOTS, descriptor, slot};
use super::first_word::WordLock;
use super::{AllocGuard, Described, FdTable};

/// Proof that nothing of a table changes, lowest-first, except reserved descriptors that open.
pub(super) struct Frozen<'t, T: Send + Sync + 'static> {
    _gate: WordLock<'t, T>,
    pub(super) alloc: AllocGuard<'t>,
}

impl<T: Described> FdTable<T> {
    /// Freezes the table, where the policy requires one order of all its changes.
    pub(super) fn freeze(&self) -> Option<Frozen<'_, T>> {
        self.cores.is_none().then(|| {
            let alloc = self.alloc.0.lock();
            let _gate = self.blocks.first().lock_word();
            Frozen { _gate, alloc }
        })
    }

    /// A copy for a child process: the same descriptors for the same descriptions. A descriptor
    /// that is only reserved is free in the copy.
    ///
    /// Lowest-first, the copy is the table at one moment, except for opens under way. Per-core,
    /// each block of 64 is.
    pub fn fork(&self) -> FdTable<T> {
        let copy = FdTable::new(self.policy());
        copy.limit.store(self.limit(), Ordering::Relaxed);
        let guard = epoch::pin();
        let mut open = Vec::new();
        {
            let _frozen = self.freeze();
            for (number, block) in self.blocks.iter() {
                let _still = self.change(block);
                for bit in 0..BLOCK_SLOTS {
                    if let Some(file) = block.get(bit, &guard)
                        && file.handles().retain()
                    {
                        let fd = descriptor(number * BLOCK_SLOTS + bit);
                        open.push((fd, file.to_share(), block.is_cloexec(bit)));
                    }
                }
            }
        }
        for (fd, file, cloexec) in open {
            copy.put(fd, file, cloexec);
        }
        copy
    }

    /// Opens a descriptor of a table that no other thread knows yet.
    fn put(&self, fd: u32, file: Share<T>, cloexec: bool) {
        let (number, bit) = (slot(fd) / BLOCK_SLOTS, slot(fd) % BLOCK_SLOTS);
        let mut alloc = self.alloc.0.lock();
        let block = self.blocks.grow_to(&mut alloc, number);
        let mut used = self.change(block);
        used.take(bit, cloexec);
        let placed = block.slot(bit).fill(file).is_ok();
        assert!(placed, "a descriptor is copied once");
        if self.cores.is_none() && number > 0 {
            alloc.mark_taken(slot(fd), used.is_full());
        }
    }
}
