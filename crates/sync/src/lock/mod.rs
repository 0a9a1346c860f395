//! Locks with a class.
//!
//! A class names what a lock protects, and has a rank in the order in which locks are taken. In
//! debug builds every thread records the classes that it holds, and taking a lock whose rank is not
//! above all of them panics with both names. So the first thread that takes locks in an order that
//! could deadlock reveals it, without a second thread and a deadlock.
//!
//! A class is a type and costs nothing at run time. The profile shows a lock by its class too:
//! [`crate::profile`].

mod class;
mod order;
mod profiled;
mod raw;
mod waiting;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod cell;
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod modelled;

use std::time::Duration;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
use cell::{CellGuard, LockCell};
#[cfg(any(feature = "loom", feature = "shuttle"))]
use modelled::{CellGuard, LockCell};

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use cell::Condition;
pub use class::Class;
#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use modelled::Condition;
pub use raw::{RawGuard, RawLock};
pub use waiting::{Waited, Waiting, request};

use crate::primitive::const_unless_loom;

/// A lock of class `C` around a value.
pub struct Lock<C, T> {
    value: LockCell<C, T>,
}

/// Proof that a [`Lock`] is held; unlocks on drop.
#[must_use = "the lock is given up when the guard is dropped"]
pub struct LockGuard<'a, C: Class, T> {
    value: CellGuard<'a, C, T>,
    /// Dropped after `value` has released the lock.
    _held: order::HeldClass<C>,
}

impl<C: Class, T> Lock<C, T> {
    const_unless_loom! {
        /// An open lock.
        pub fn new(value: T) -> Lock<C, T> {
            Lock { value: LockCell::new(value) }
        }
    }

    /// Takes the lock.
    ///
    /// # Panics
    ///
    /// In debug builds, when this thread holds a lock of the same or a higher rank.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockGuard<'_, C, T> {
        let held = order::HeldClass::above();
        LockGuard {
            value: self.value.lock(),
            _held: held,
        }
    }

    /// Takes the lock if it is free. Out of order this is allowed, because it never waits.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<LockGuard<'_, C, T>> {
        let value = self.value.try_lock()?;
        Some(LockGuard {
            value,
            _held: order::HeldClass::anywhere(),
        })
    }

    /// Takes the lock although this thread may hold others of this class.
    ///
    /// The caller must order the locks of one class: by inode number, parent before child.
    ///
    /// # Panics
    ///
    /// In debug builds, when this thread holds a lock of a higher rank.
    #[inline]
    #[track_caller]
    pub fn lock_nested(&self) -> LockGuard<'_, C, T> {
        let held = order::HeldClass::beside();
        LockGuard {
            value: self.value.lock(),
            _held: held,
        }
    }

    /// The value, through exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// Takes two locks of one class, in the order of their addresses; the guards come in the order
/// of the arguments. The second is `None` when both are the same lock.
///
/// # Panics
///
/// In debug builds, when this thread holds a lock of the same or a higher rank.
#[track_caller]
pub fn lock_two<'a, C: Class, T>(
    a: &'a Lock<C, T>,
    b: &'a Lock<C, T>,
) -> (LockGuard<'a, C, T>, Option<LockGuard<'a, C, T>>) {
    if std::ptr::eq(a, b) {
        return (a.lock(), None);
    }
    if std::ptr::from_ref(a) < std::ptr::from_ref(b) {
        let first = a.lock();
        (first, Some(b.lock_nested()))
    } else {
        let second = b.lock();
        (a.lock_nested(), Some(second))
    }
}

impl<C: Class, T> LockGuard<'_, C, T> {
    /// Releases the lock, sleeps until `condition` is notified, takes the lock again.
    ///
    /// The class counts as held meanwhile: all locks that the thread took later rank above it.
    #[track_caller]
    pub fn wait(&mut self, condition: &Condition) {
        self.value.wait(condition);
    }

    /// Like [`LockGuard::wait`] for at most `limit`; true when the time ran out.
    #[track_caller]
    pub fn wait_for(&mut self, condition: &Condition, limit: Duration) -> bool {
        self.value.wait_for(condition, limit)
    }
}

impl<C: Class, T> std::ops::Deref for LockGuard<'_, C, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<C: Class, T> std::ops::DerefMut for LockGuard<'_, C, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<C: Class, T: Default> Default for Lock<C, T> {
    fn default() -> Lock<C, T> {
        Lock::new(T::default())
    }
}

impl<C: Class, T> std::fmt::Debug for Lock<C, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lock").field(&C::NAME).finish()
    }
}

impl<C: Class, T: std::fmt::Debug> std::fmt::Debug for LockGuard<'_, C, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple(C::NAME).field(&*self.value).finish()
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::lock_class;

    lock_class! {
        Low = "low", 10;
        High = "high", 20;
    }

    #[test]
    fn locks_of_rising_rank_may_be_taken() {
        let low: Lock<Low, u32> = Lock::new(1);
        let high: Lock<High, u32> = Lock::new(2);
        let first = low.lock();
        let second = high.lock();
        assert_eq!(*first + *second, 3);
        drop(first);
        drop(second);
        assert_eq!(*high.lock(), 2);
        assert_eq!(*low.lock(), 1);
    }

    #[test]
    #[should_panic(expected = "lock order: low (10) taken under high (20)")]
    fn locking_a_lower_rank_panics() {
        let (low, high) = (Lock::<Low, ()>::new(()), Lock::<High, ()>::new(()));
        let _high = high.lock();
        let _low = low.lock();
    }

    #[test]
    #[should_panic(expected = "lock order: low (10) taken under low (10)")]
    fn locking_two_of_a_class_panics_without_lock_nested() {
        let (a, b) = (Lock::<Low, ()>::new(()), Lock::<Low, ()>::new(()));
        let _a = a.lock();
        let _b = b.lock();
    }

    #[test]
    fn try_lock_is_allowed_out_of_order() {
        let (low, high) = (Lock::<Low, ()>::new(()), Lock::<High, ()>::new(()));
        let _high = high.lock();
        let held = low.try_lock().expect("nobody has it");
        assert!(low.try_lock().is_none());
        drop(held);
    }

    #[test]
    fn lock_two_returns_guards_in_argument_order() {
        let locks = [Lock::<Low, u32>::new(0), Lock::<Low, u32>::new(1)];
        for (a, b) in [(0, 1), (1, 0)] {
            let (first, second) = lock_two(&locks[a], &locks[b]);
            assert_eq!((*first as usize, *second.unwrap() as usize), (a, b));
        }
        let (_first, second) = lock_two(&locks[0], &locks[0]);
        assert!(second.is_none());
    }

    #[test]
    fn a_lock_is_two_bytes_and_its_class_none() {
        assert_eq!(size_of::<Lock<Low, ()>>(), 2);
    }
}
