//! Where a table keeps its objects, and how their memory comes free.
//!
//! An object that was ended is dropped through the epoch, later and by any thread, so the tree may
//! go only when that is over: it counts what is on its way, per core, and after the table was
//! dropped it goes through the epoch itself, again and again until nothing is on its way.

use std::ops::Deref;
use std::ptr::NonNull;

use super::entry::Entry;
use super::obj_ref::Object;
use super::radix::Radix;
use crate::epoch::{self, Guard};
use crate::percpu::PerCpu;
use crate::primitive::atomic::{AtomicI64, Ordering};

/// The places of a table, on the heap; goes by [`Storage::free`] or stays for ever.
///
/// Not in a box: a box says that nobody else uses what is in it, and what is on its way has the
/// address, also while the box would move.
pub(super) struct Storage<T: Send + Sync + 'static>(NonNull<StorageInner<T>>);

pub(super) struct StorageInner<T: Send + Sync + 'static> {
    pub(super) entries: Radix<T>,
    /// Objects in places that were ended and are not dropped yet: what each core added and took.
    pending_drops: PerCpu<AtomicI64>,
}

/// An address that may go to another thread.
struct SendPtr<T>(NonNull<T>);

// SAFETY: only [`Storage`] makes one, of objects and places that may be used from any thread.
unsafe impl<T> Send for SendPtr<T> {}

// SAFETY: the places and the counts may be used from any thread, and freed by any.
unsafe impl<T: Send + Sync + 'static> Send for Storage<T> {}
// SAFETY: as for Send.
unsafe impl<T: Send + Sync + 'static> Sync for Storage<T> {}

/// The end of one object: counted when it goes, also after a drop that panicked.
struct PendingDrop<'a>(&'a PerCpu<AtomicI64>);

impl Drop for PendingDrop<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `is_drained`: the room is used no more.
        self.0.get().fetch_sub(1, Ordering::Release);
    }
}

impl<T: Send + Sync + 'static> Storage<T> {
    pub(super) fn new() -> Storage<T> {
        let inner = Box::new(StorageInner {
            entries: Radix::new(),
            pending_drops: PerCpu::new(|_| AtomicI64::new(0)),
        });
        Storage(NonNull::from(Box::leak(inner)))
    }

    /// Drops an object once no guard that exists now is left.
    ///
    /// # Safety
    ///
    /// The object was ended and cleared from `entry`, by the caller.
    pub(super) unsafe fn retire(&self, entry: Entry<'_, T>, object: NonNull<Object<T>>, g: &Guard) {
        if !entry.holds_inline(object) {
            // SAFETY: it is on the heap, and the caller has it alone but for readers under guards.
            return unsafe { epoch::retire_raw(object.as_ptr(), g) };
        }
        // Relaxed: every addition happens before the table is dropped, and so before `free` looks.
        self.pending_drops.get().fetch_add(1, Ordering::Relaxed);
        let (inner, object) = (SendPtr(self.0), SendPtr(object));
        let work = move || {
            let (SendPtr(inner), SendPtr(object)) = (inner, object);
            // SAFETY: the storage waits for the count, which falls when `_end` goes.
            let _end = PendingDrop(unsafe { &inner.as_ref().pending_drops });
            // SAFETY: no guard is left that could see the object.
            unsafe { Entry::new(object).drop_inline() };
        };
        // SAFETY: what is captured may go to any thread and stays valid, as said above.
        unsafe { g.defer(work) };
        epoch::account(size_of::<Object<T>>(), g);
    }

    /// Frees the memory once no guard that exists now is left and every ended object is dropped.
    ///
    /// # Safety
    ///
    /// It is not used again, but by those whose guards exist now.
    pub(super) unsafe fn free(&self, g: &Guard) {
        let storage = Storage(self.0);
        let work = move || {
            let storage = storage;
            if !storage.is_drained() {
                // SAFETY: as the caller of the first one said.
                return unsafe { storage.free(&epoch::pin()) };
            }
            // SAFETY: it comes from a box, and nobody has its address any more.
            drop(unsafe { Box::from_raw(storage.0.as_ptr()) });
        };
        // SAFETY: the storage may be freed by any thread and belongs to the closure.
        unsafe { g.defer(work) };
    }

    /// Whether every ended object is dropped. Only while nobody ends one, as when the table is
    /// gone: nothing is added any more, so what is seen of the sum is never too little.
    pub(super) fn is_drained(&self) -> bool {
        // Acquire: pairs with the Release of `PendingDrop`.
        let of_core = |core: &AtomicI64| core.load(Ordering::Acquire);
        self.pending_drops.iter().map(of_core).sum::<i64>() == 0
    }
}

impl<T: Send + Sync + 'static> Deref for Storage<T> {
    type Target = StorageInner<T>;

    #[inline]
    fn deref(&self) -> &StorageInner<T> {
        // SAFETY: it was made with the storage and is there until that is freed.
        unsafe { self.0.as_ref() }
    }
}
