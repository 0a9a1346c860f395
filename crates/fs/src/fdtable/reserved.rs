//! Descriptors between free and open.

use hearth_sync::epoch::Guard;
use hearth_sync::rcu::Share;

use super::block::{BLOCK_SLOTS, slot};
use super::{Described, FdTable};
use crate::errno::Result;

/// A descriptor that was taken and names nothing yet. Dropping it frees the descriptor.
#[must_use = "dropping a reservation frees the descriptor"]
pub struct Reserved<'t, T: Described> {
    pub(super) table: &'t FdTable<T>,
    pub(super) fd: u32,
}

impl<T: Described> Reserved<'_, T> {
    /// The descriptor.
    pub fn fd(&self) -> i32 {
        self.fd as i32
    }

    /// Makes the descriptor name `file`, a description that has no descriptor yet.
    #[inline(always)]
    pub fn install(self, file: Share<T>) -> i32 {
        self.fill(file)
    }

    /// Makes the descriptor name the description of `old`.
    pub(super) fn install_dup(self, old: i32, guard: &Guard) -> Result<i32> {
        let file = self.table.retained(old, guard)?;
        Ok(self.fill(file))
    }

    // Always inlined, like `install`: it is a look at the block and a store.
    #[inline(always)]
    fn fill(self, file: Share<T>) -> i32 {
        let fd = self.fd();
        let (block, bit) = self
            .table
            .find(fd)
            .expect("a reserved descriptor is within the table");
        let filled = block.slot(bit).fill(file).is_ok();
        assert!(filled, "only the holder of a reservation fills its slot");
        std::mem::forget(self);
        fd
    }
}

impl<T: Described> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        let Ok((block, bit)) = self.table.find(self.fd()) else {
            return;
        };
        let slot = slot(self.fd);
        if self.table.cores.is_some() {
            self.table.change(block).remove(bit);
        } else if slot < BLOCK_SLOTS {
            if block.free(bit).is_err() {
                let _frozen = self.table.freeze();
                self.table.change(block).remove(bit);
            }
        } else {
            let mut alloc = self.table.alloc.0.lock();
            self.table.change(block).remove(bit);
            alloc.mark_free(slot);
        }
    }
}
