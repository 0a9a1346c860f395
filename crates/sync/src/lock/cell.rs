//! A value behind a two-byte lock, and the condition variable for it.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::Location;
use std::time::Duration;

use super::class::Class;
use super::profiled;
use crate::primitive::{Condvar, Mutex, WordLock};

pub(super) struct LockCell<C, T> {
    word: WordLock,
    class: PhantomData<fn() -> C>,
    value: UnsafeCell<T>,
}

/// Exclusive access to the value of a cell; unlocks on drop. Stays on its thread.
pub(super) struct CellGuard<'a, C: Class, T> {
    cell: &'a LockCell<C, T>,
    thread: PhantomData<*const ()>,
}

/// A condition variable for the holder of a [`Lock`](super::Lock).
///
/// A waiter releases the lock after it has taken `mutex`, and a notifier takes `mutex` before it
/// notifies. So a notification comes before the waiter checks its condition, or when the waiter
/// sleeps already.
#[derive(Debug, Default)]
pub struct Condition {
    mutex: Mutex<()>,
    changed: Condvar,
}

// SAFETY: the value is reached through `CellGuard` only, which exists at most once, or through
// exclusive access to the cell. So sharing the cell moves the value between threads at most.
unsafe impl<C, T: Send> Sync for LockCell<C, T> {}

impl<C: Class, T> LockCell<C, T> {
    pub(super) const fn new(value: T) -> LockCell<C, T> {
        LockCell {
            word: WordLock::new(),
            class: PhantomData,
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    #[track_caller]
    pub(super) fn lock(&self) -> CellGuard<'_, C, T> {
        self.take(Location::caller());
        self.held()
    }

    #[inline]
    #[track_caller]
    pub(super) fn try_lock(&self) -> Option<CellGuard<'_, C, T>> {
        let site = Location::caller();
        let locked =
            profiled::take_free(&self.word) || profiled::try_lock(&self.word, C::NAME, site);
        locked.then(|| self.held())
    }

    pub(super) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    pub(super) fn into_inner(self) -> T {
        self.value.into_inner()
    }

    #[inline]
    fn take(&self, site: &'static Location<'static>) {
        if !profiled::take_free(&self.word) {
            profiled::lock(&self.word, C::NAME, site);
        }
    }

    /// A guard for a lock that the caller has taken.
    #[inline]
    fn held(&self) -> CellGuard<'_, C, T> {
        CellGuard {
            cell: self,
            thread: PhantomData,
        }
    }
}

impl<C: Class, T> CellGuard<'_, C, T> {
    /// Releases the lock, sleeps until `condition` is notified, takes the lock again.
    #[track_caller]
    pub(super) fn wait(&mut self, condition: &Condition) {
        let mut mutex = condition.mutex.lock();
        profiled::unlock(&self.cell.word);
        condition.changed.wait(&mut mutex);
        drop(mutex);
        self.cell.take(Location::caller());
    }

    /// Like `wait`, for at most `limit`; true if the time ran out.
    #[track_caller]
    pub(super) fn wait_for(&mut self, condition: &Condition, limit: Duration) -> bool {
        let mut mutex = condition.mutex.lock();
        profiled::unlock(&self.cell.word);
        let timed_out = condition.changed.wait_for(&mut mutex, limit);
        drop(mutex);
        self.cell.take(Location::caller());
        timed_out
    }
}

impl Condition {
    /// A condition variable without waiters.
    pub const fn new() -> Condition {
        Condition {
            mutex: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        drop(self.mutex.lock());
        self.changed.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        drop(self.mutex.lock());
        self.changed.notify_all();
    }
}

impl<C: Class, T> std::ops::Deref for CellGuard<'_, C, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock for as long as `self` is borrowed.
        unsafe { &*self.cell.value.get() }
    }
}

impl<C: Class, T> std::ops::DerefMut for CellGuard<'_, C, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the borrow is exclusive.
        unsafe { &mut *self.cell.value.get() }
    }
}

impl<C: Class, T> Drop for CellGuard<'_, C, T> {
    #[inline]
    fn drop(&mut self) {
        profiled::unlock(&self.cell.word);
    }
}
