//! Where a table keeps its objects, and how their memory comes free.
//!
//! An object that was ended is dropped through the epoch, later and by any thread, so the tree may
//! go only when that is over: it counts what is on its way, per core, and after the table was
//! dropped it goes through the epoch itself, again and again until nothing is on its way.

use std::ptr::NonNull;

use super::held::Object;
use super::place::Place;
use super::radix::Radix;
use crate::epoch::{self, Guard};
use crate::primitive::atomic::{AtomicI64, Ordering};
use crate::spread::PerCore;

/// The places of a table.
pub(super) struct Storage<T: Send + Sync + 'static> {
    pub(super) places: Radix<T>,
    /// Objects in places that were ended and are not dropped yet: what each core added and took.
    ending: PerCore<AtomicI64>,
}

/// An address that may go to another thread.
struct Address<T>(NonNull<T>);

// SAFETY: only [`Storage`] makes one, of objects and places that may be used from any thread.
unsafe impl<T> Send for Address<T> {}

/// The end of one object: counted when it goes, also after a drop that panicked.
struct End<'a>(&'a PerCore<AtomicI64>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `is_quiet`: the room is used no more.
        self.0.get().fetch_sub(1, Ordering::Release);
    }
}

impl<T: Send + Sync + 'static> Storage<T> {
    pub(super) fn new() -> Storage<T> {
        Storage {
            places: Radix::new(),
            ending: PerCore::new(|_| AtomicI64::new(0)),
        }
    }

    /// Drops an object once no guard that exists now is left.
    ///
    /// # Safety
    ///
    /// The object was ended and cleared from `place`, by the caller. This storage is on the heap
    /// and goes by [`Storage::free`].
    pub(super) unsafe fn retire(&self, place: Place<'_, T>, object: NonNull<Object<T>>, g: &Guard) {
        if !place.is_room_of(object) {
            // SAFETY: it is on the heap, and the caller has it alone but for readers under guards.
            return unsafe { epoch::retire_raw(object.as_ptr(), g) };
        }
        // Relaxed: every addition happens before the table is dropped, and so before `free` looks.
        self.ending.get().fetch_add(1, Ordering::Relaxed);
        let (storage, object) = (Address(NonNull::from(self)), Address(object));
        let work = move || {
            let (Address(storage), Address(object)) = (storage, object);
            // SAFETY: the storage waits for the count, which falls when `_end` goes.
            let _end = End(unsafe { &storage.as_ref().ending });
            // SAFETY: no guard is left that could see the object.
            unsafe { Place::new(object).empty_room() };
        };
        // SAFETY: what is captured may go to any thread and stays valid, as said above.
        unsafe { g.defer(work) };
        epoch::weigh(size_of::<Object<T>>(), g);
    }

    /// Frees the memory once no guard that exists now is left and every ended object is dropped.
    pub(super) fn free(self: Box<Self>, g: &Guard) {
        let work = move || {
            if !self.is_quiet() {
                self.free(&epoch::pin());
            }
        };
        // SAFETY: the storage may be freed by any thread and belongs to the closure.
        unsafe { g.defer(work) };
    }

    /// Whether every ended object is dropped. Only while nobody ends one, as when the table is
    /// gone: nothing is added any more, so what is seen of the sum is never too little.
    pub(super) fn is_quiet(&self) -> bool {
        // Acquire: pairs with the Release of `End`.
        let of_core = |core: &AtomicI64| core.load(Ordering::Acquire);
        self.ending.iter().map(of_core).sum::<i64>() == 0
    }
}
