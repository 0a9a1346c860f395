//! The storage of a table's objects, and how their memory is freed.
//!
//! A dead object is dropped through the epoch, later and by any thread, so the tree may be freed
//! only after that. It counts pending drops per core. When the table was dropped, the tree goes
//! through the epoch itself, again and again until no drop is pending.

use std::ops::{Deref, Range};
use std::ptr::NonNull;

use super::entry::Entry;
use super::obj_ref::Object;
use super::radix::Radix;
use crate::epoch::{self, Guard};
use crate::percpu::Counter;

/// The entries of a table, on the heap. Freed by [`Storage::free`], or never.
///
/// Not a `Box`, which asserts unique access: pending drops have the address too, also while the box
/// would move.
pub(super) struct Storage<T: Send + Sync + 'static>(NonNull<StorageInner<T>>);

pub(super) struct StorageInner<T: Send + Sync + 'static> {
    pub(super) entries: Radix<T>,
    /// Dead inline objects that are not dropped yet: what each thread added and subtracted.
    pending_drops: Counter,
}

/// A pointer that may be sent to another thread.
struct SendPtr<T>(NonNull<T>);

// SAFETY: only [`Storage`] makes one, of objects and entries that may be used from any thread.
unsafe impl<T> Send for SendPtr<T> {}

// SAFETY: the entries and the counts may be used from any thread, and freed by any.
unsafe impl<T: Send + Sync + 'static> Send for Storage<T> {}
// SAFETY: as for Send.
unsafe impl<T: Send + Sync + 'static> Sync for Storage<T> {}

/// One pending drop; subtracted when this is dropped, also if the object's drop panicked.
struct PendingDrop<'a>(&'a Counter);

impl Drop for PendingDrop<'_> {
    fn drop(&mut self) {
        // What was done before is seen by `is_drained`: the memory is no longer used.
        self.0.add(-1);
    }
}

impl<T: Send + Sync + 'static> Storage<T> {
    pub(super) fn new(is_huge: bool) -> Storage<T> {
        let inner = Box::new(StorageInner {
            entries: Radix::new(is_huge),
            pending_drops: Counter::new(),
        });
        Storage(NonNull::from(Box::leak(inner)))
    }

    /// Drops an object once no guard that exists now is left.
    ///
    /// # Safety
    ///
    /// The object is dead, and the caller has cleared it from `entry`.
    pub(super) unsafe fn retire(&self, entry: Entry<'_, T>, object: NonNull<Object<T>>, g: &Guard) {
        if !entry.holds_inline(object) {
            // SAFETY: it is on the heap, and the caller has it alone but for readers under guards.
            return unsafe { epoch::retire_raw(object.as_ptr(), g) };
        }
        // Every addition happens before the table is dropped, and so before `free` looks.
        self.pending_drops.add(1);
        let (inner, object) = (SendPtr(self.0), SendPtr(object));
        let work = move || {
            let (SendPtr(inner), SendPtr(object)) = (inner, object);
            // SAFETY: the storage waits for the count, which falls when `_end` is dropped.
            let _end = PendingDrop(unsafe { &inner.as_ref().pending_drops });
            // SAFETY: no guard is left that could see the object.
            unsafe { Entry::new(object).drop_inline() };
        };
        // SAFETY: what is captured may go to any thread and stays valid, as said above.
        unsafe { g.defer(work) };
        epoch::account(size_of::<Object<T>>(), g);
    }

    /// Gives the memory of leaves without an object back, of numbers in `numbers`, once no guard
    /// that exists now is left.
    pub(super) fn trim(&self, numbers: Range<u64>, g: &Guard) {
        self.entries.trim(numbers, &mut |leaf| {
            self.pending_drops.add(1);
            let (inner, leaf) = (SendPtr(self.0), SendPtr(leaf));
            let work = move || {
                let (SendPtr(inner), SendPtr(leaf)) = (inner, leaf);
                // SAFETY: the storage waits for the count, which falls when `_end` is dropped.
                let inner = unsafe { inner.as_ref() };
                let _end = PendingDrop(&inner.pending_drops);
                // SAFETY: it has left the tree, and no guard is left that could see it.
                unsafe { inner.entries.free_leaf(leaf) };
            };
            // SAFETY: what is captured may go to any thread and stays valid, as said above.
            unsafe { g.defer(work) };
        });
    }

    /// Frees the memory once no guard that exists now is left and every dead object is dropped.
    ///
    /// # Safety
    ///
    /// It is not used again, except by readers whose guards exist now.
    pub(super) unsafe fn free(&self, g: &Guard) {
        let storage = Storage(self.0);
        let work = move || {
            let storage = storage;
            if !storage.is_drained() {
                // SAFETY: as the caller of the first call promised.
                return unsafe { storage.free(&epoch::pin()) };
            }
            // SAFETY: it comes from a box, and nobody has its address any more.
            drop(unsafe { Box::from_raw(storage.0.as_ptr()) });
        };
        // SAFETY: the storage may be freed by any thread and belongs to the closure.
        unsafe { g.defer(work) };
    }

    /// Whether every dead object is dropped. Only valid while no object is evicted, as when the
    /// table is gone: nothing is added any more, so the sum that is seen is never too small.
    pub(super) fn is_drained(&self) -> bool {
        self.pending_drops.sum() == 0
    }
}

impl<T: Send + Sync + 'static> Deref for Storage<T> {
    type Target = StorageInner<T>;

    #[inline]
    fn deref(&self) -> &StorageInner<T> {
        // SAFETY: it was allocated with the storage and lives until that is freed.
        unsafe { self.0.as_ref() }
    }
}
