//! An owning pointer that is set once.

use std::marker::PhantomData;
use std::ptr;

use crate::primitive::atomic::{AtomicPtr, Ordering};
use crate::primitive::const_unless_loom;

/// An owning pointer of eight bytes, null until it is set and then constant until it is dropped. So
/// readers need no guard.
pub struct OnceSlot<T> {
    /// Null, then from `Box::into_raw` for good.
    pointer: AtomicPtr<T>,
    _owned: PhantomData<T>,
}

impl<T> OnceSlot<T> {
    const_unless_loom! {
        /// A slot with nothing in it.
        pub fn empty() -> OnceSlot<T> {
            OnceSlot { pointer: AtomicPtr::new(ptr::null_mut()), _owned: PhantomData }
        }
    }
}

impl<T: Send + Sync> OnceSlot<T> {
    /// The value, if it is set. Writes nothing.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // Acquire: pairs with the Release in `get_or_set`; the value is complete.
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: a pointer that is not null is a box that lives as long as the slot.
        unsafe { pointer.as_ref() }
    }

    /// The value, created now unless another thread was faster.
    pub fn get_or_set(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let new = Box::into_raw(Box::new(make()));
        let (set, other) = (Ordering::Release, Ordering::Acquire);
        // Release: pairs with the Acquire in `get`. Acquire on failure: as there.
        let found = self
            .pointer
            .compare_exchange(ptr::null_mut(), new, set, other);
        match found {
            // SAFETY: the slot owns the box now and keeps it as long as it lives.
            Ok(_) => unsafe { &*new },
            Err(theirs) => {
                // SAFETY: the exchange failed, so nobody else has seen our box; the other one is
                // the slot's and stays.
                unsafe {
                    drop(Box::from_raw(new));
                    &*theirs
                }
            }
        }
    }
}

impl<T> Default for OnceSlot<T> {
    fn default() -> OnceSlot<T> {
        OnceSlot::empty()
    }
}

impl<T> Drop for OnceSlot<T> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` has synchronised with the thread that set it.
        let pointer = self.pointer.load(Ordering::Relaxed);
        if !pointer.is_null() {
            // SAFETY: the slot owns the box, and every reference to it borrows the slot.
            drop(unsafe { Box::from_raw(pointer) });
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::OnceSlot;

    #[test]
    fn the_first_value_stays_and_is_dropped_once() {
        let counted = std::sync::Arc::new(());
        let slot = OnceSlot::empty();
        assert!(slot.get().is_none());
        let first = slot.get_or_set(|| (1, counted.clone())).0;
        let again = slot.get_or_set(|| unreachable!("it is set")).0;
        assert_eq!((first, again), (1, 1));
        assert_eq!(std::sync::Arc::strong_count(&counted), 2);
        drop(slot);
        assert_eq!(std::sync::Arc::strong_count(&counted), 1);
    }
}
