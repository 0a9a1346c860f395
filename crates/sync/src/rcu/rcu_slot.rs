//! A nullable owning RCU pointer.

use std::marker::PhantomData;
use std::ptr;

use crate::epoch::{Guard, retire_raw};
use crate::primitive::atomic::{AtomicPtr, Ordering};
use crate::primitive::const_unless_loom;

/// A nullable owning pointer of eight bytes. See [the module](super) for the rules.
pub struct RcuSlot<T> {
    /// Null or from `Box::into_raw`; swapped by writers, loaded by readers under a guard.
    pointer: AtomicPtr<T>,
    /// Owns a `T` that any thread may read and the last writer drops.
    _owned: PhantomData<T>,
}

impl<T> RcuSlot<T> {
    const_unless_loom! {
        /// A slot with nothing in it.
        pub fn empty() -> RcuSlot<T> {
            RcuSlot { pointer: AtomicPtr::new(ptr::null_mut()), _owned: PhantomData }
        }
    }
}

impl<T: Send + Sync + 'static> RcuSlot<T> {
    /// A slot with `value` in it.
    pub fn new(value: Box<T>) -> RcuSlot<T> {
        RcuSlot {
            pointer: AtomicPtr::new(Box::into_raw(value)),
            _owned: PhantomData,
        }
    }

    /// The value, if there is one. Writes nothing.
    #[inline]
    pub fn load<'g>(&'g self, _g: &'g Guard) -> Option<&'g T> {
        // Acquire: pairs with the AcqRel swap in `swap` and the Release in `install`; the value
        // behind the pointer is complete.
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: a non-null pointer is a live box: a thread that takes it out of the slot retires
        // it through the epoch, which waits for the guard, and the slot's owner, who would free it
        // at once, is excluded by the borrow of the slot.
        unsafe { pointer.as_ref() }
    }

    /// Stores `value` (or nothing) and retires the old value.
    pub fn store(&self, value: Option<Box<T>>, g: &Guard) {
        retire_if_some(self.swap(value.map_or(ptr::null_mut(), Box::into_raw)), g);
    }

    /// Stores `value` if the slot is empty; returns it otherwise.
    pub fn install<'g>(&'g self, value: Box<T>, _g: &'g Guard) -> Result<&'g T, Box<T>> {
        let new = Box::into_raw(value);
        // Release: pairs with the Acquire in `load`. Relaxed on failure: the other value is not
        // looked at.
        match self.pointer.compare_exchange(
            ptr::null_mut(),
            new,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            // SAFETY: the slot owns the box now; as in `load` it lives as long as both borrows.
            Ok(_) => Ok(unsafe { &*new }),
            // SAFETY: the exchange failed, so the pointer was never published.
            Err(_) => Err(unsafe { Box::from_raw(new) }),
        }
    }

    /// Empties the slot and retires the old value; false if it was empty.
    pub fn take(&self, g: &Guard) -> bool {
        retire_if_some(self.swap(ptr::null_mut()), g)
    }

    /// Moves the value to `dst`, never in both slots at once, and retires the old value of `dst`.
    ///
    /// A reader that misses it here after this call began finds it in `dst` once the call has
    /// returned. An empty slot empties `dst`.
    pub fn move_to(&self, dst: &RcuSlot<T>, g: &Guard) {
        let value = self.swap(ptr::null_mut());
        retire_if_some(dst.swap(value), g);
    }

    /// True if the slot is empty now.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: the pointer is not followed.
        self.pointer.load(Ordering::Relaxed).is_null()
    }

    /// The value, through exclusive access.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // Relaxed: `&mut self` has synchronised with every earlier writer.
        let pointer = self.pointer.load(Ordering::Relaxed);
        // SAFETY: the slot owns the box, and no reference from `load` is left: each borrows the
        // slot, which is borrowed exclusively here.
        unsafe { pointer.as_mut() }
    }

    fn swap(&self, new: *mut T) -> *mut T {
        // AcqRel: Release pairs with the Acquire in `load`; Acquire pairs with the Release of the
        // thread that stored the old value, which is about to be moved or dropped.
        self.pointer.swap(new, Ordering::AcqRel)
    }
}

impl<T> Default for RcuSlot<T> {
    fn default() -> RcuSlot<T> {
        RcuSlot::empty()
    }
}

impl<T> std::fmt::Debug for RcuSlot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: the pointer is printed, not followed.
        f.debug_tuple("RcuSlot")
            .field(&self.pointer.load(Ordering::Relaxed))
            .finish()
    }
}

impl<T> Drop for RcuSlot<T> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` has synchronised with every earlier writer.
        let pointer = self.pointer.load(Ordering::Relaxed);
        if !pointer.is_null() {
            // SAFETY: the slot owns the box, and every reference to it borrows the slot.
            drop(unsafe { Box::from_raw(pointer) });
        }
    }
}

/// Retires a pointer that was just swapped out of a slot; false if it was null.
fn retire_if_some<T: Send + 'static>(pointer: *mut T, g: &Guard) -> bool {
    if pointer.is_null() {
        return false;
    }
    // SAFETY: the pointer was swapped out of its only slot, so it is ours alone and no new
    // reader finds it.
    unsafe { retire_raw(pointer, g) };
    true
}
