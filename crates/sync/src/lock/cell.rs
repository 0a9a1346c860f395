//! A value behind a lock of two bytes.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::Location;
use std::time::Duration;

use super::class::Class;
use super::watch;
use crate::primitive::{Condvar, Mutex, WordLock};

pub(super) struct Cell<C, T> {
    word: WordLock,
    class: PhantomData<fn() -> C>,
    value: UnsafeCell<T>,
}

/// The right to the value of a cell; gives the lock up when dropped. Stays on its thread.
pub(super) struct Holding<'a, C: Class, T> {
    cell: &'a Cell<C, T>,
    thread: PhantomData<*const ()>,
}

/// Something that the holder of a [`Lock`](super::Lock) may wait for.
///
/// Who waits gives the lock up after it has taken `gate`, and who says that something has changed
/// takes `gate` before it says so: that is before the look, or when the waiter sleeps already.
#[derive(Debug, Default)]
pub struct Condition {
    gate: Mutex<()>,
    changed: Condvar,
}

// SAFETY: the value is reached through `Holding` only, which exists at most once, or through
// exclusive access to the cell; so sharing the cell moves the value between threads at most.
unsafe impl<C, T: Send> Sync for Cell<C, T> {}

impl<C: Class, T> Cell<C, T> {
    pub(super) const fn new(value: T) -> Cell<C, T> {
        Cell {
            word: WordLock::new(),
            class: PhantomData,
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    #[track_caller]
    pub(super) fn lock(&self) -> Holding<'_, C, T> {
        self.take(Location::caller());
        self.held()
    }

    #[inline]
    #[track_caller]
    pub(super) fn try_lock(&self) -> Option<Holding<'_, C, T>> {
        let site = Location::caller();
        let locked = watch::take_free(&self.word) || watch::try_lock(&self.word, C::NAME, site);
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
        if !watch::take_free(&self.word) {
            watch::lock(&self.word, C::NAME, site);
        }
    }

    /// The caller has taken the lock.
    #[inline]
    fn held(&self) -> Holding<'_, C, T> {
        Holding {
            cell: self,
            thread: PhantomData,
        }
    }
}

impl<C: Class, T> Holding<'_, C, T> {
    /// Gives the lock up, sleeps until `condition` is notified, takes the lock again.
    #[track_caller]
    pub(super) fn wait(&mut self, condition: &Condition) {
        let mut gate = condition.gate.lock();
        watch::unlock(&self.cell.word);
        condition.changed.wait(&mut gate);
        drop(gate);
        self.cell.take(Location::caller());
    }

    /// As `wait`, for at most `limit`; true when the time ran out.
    #[track_caller]
    pub(super) fn wait_for(&mut self, condition: &Condition, limit: Duration) -> bool {
        let mut gate = condition.gate.lock();
        watch::unlock(&self.cell.word);
        let timed_out = condition.changed.wait_for(&mut gate, limit);
        drop(gate);
        self.cell.take(Location::caller());
        timed_out
    }
}

impl Condition {
    /// Nobody waits.
    pub const fn new() -> Condition {
        Condition {
            gate: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        drop(self.gate.lock());
        self.changed.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        drop(self.gate.lock());
        self.changed.notify_all();
    }
}

impl<C: Class, T> std::ops::Deref for Holding<'_, C, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock for as long as `self` is borrowed.
        unsafe { &*self.cell.value.get() }
    }
}

impl<C: Class, T> std::ops::DerefMut for Holding<'_, C, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the borrow is exclusive.
        unsafe { &mut *self.cell.value.get() }
    }
}

impl<C: Class, T> Drop for Holding<'_, C, T> {
    #[inline]
    fn drop(&mut self) {
        watch::unlock(&self.cell.word);
    }
}
