//! A value that one thread at a time has, and for which no thread waits.
//!
//! | who | does | ordering | partner |
//! |---|---|---|---|
//! | a thread takes it | exchange of false by true | Acquire | the last holder's release |
//! | the holder gives it up | store of false | Release | the next thread that takes it |
//!
//! Giving it up is a plain store: a lock that threads sleep for needs an exchange there, to find
//! out whether one does.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use crate::primitive::atomic::{AtomicBool, Ordering};

/// See the module.
pub(super) struct TryCell<T> {
    is_held: AtomicBool,
    value: UnsafeCell<T>,
}

/// Exclusive access to the value; gives it up on drop.
pub(super) struct Held<'a, T>(&'a TryCell<T>);

// SAFETY: the value is reached through `Held` only, which exists at most once. So sharing the cell
// moves the value between threads at most.
unsafe impl<T: Send> Sync for TryCell<T> {}

impl<T> TryCell<T> {
    pub(super) fn new(value: T) -> TryCell<T> {
        TryCell {
            is_held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, unless another thread has it.
    #[inline]
    pub(super) fn try_take(&self) -> Option<Held<'_, T>> {
        // Acquire: see the table above. Relaxed on failure: nothing was taken.
        let taken =
            self.is_held
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Held(self))
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the value for as long as `self` exists.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the borrow is exclusive.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: see the table above.
        self.0.is_held.store(false, Ordering::Release);
    }
}
