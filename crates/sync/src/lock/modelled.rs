//! The replacement of `cell` under a model checker: the checker's own lock, which knows the
//! waiters.

use std::marker::PhantomData;
use std::time::Duration;

use super::class::Class;
use crate::primitive::{Condvar, Mutex, MutexGuard, const_unless_loom};

pub(super) struct LockCell<C, T> {
    value: Mutex<T>,
    class: PhantomData<fn() -> C>,
}

pub(super) struct CellGuard<'a, C: Class, T> {
    value: MutexGuard<'a, T>,
    class: PhantomData<fn() -> C>,
}

/// A condition variable for the holder of a [`Lock`](super::Lock).
#[derive(Debug, Default)]
pub struct Condition(Condvar);

impl<C: Class, T> LockCell<C, T> {
    const_unless_loom! {
        pub(super) fn new(value: T) -> LockCell<C, T> {
            LockCell { value: Mutex::new(value), class: PhantomData }
        }
    }

    pub(super) fn lock(&self) -> CellGuard<'_, C, T> {
        CellGuard {
            value: self.value.lock(),
            class: PhantomData,
        }
    }

    pub(super) fn try_lock(&self) -> Option<CellGuard<'_, C, T>> {
        Some(CellGuard {
            value: self.value.try_lock()?,
            class: PhantomData,
        })
    }

    pub(super) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    pub(super) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<C: Class, T> CellGuard<'_, C, T> {
    pub(super) fn wait(&mut self, condition: &Condition) {
        condition.0.wait(&mut self.value);
    }

    pub(super) fn wait_for(&mut self, condition: &Condition, limit: Duration) -> bool {
        condition.0.wait_for(&mut self.value, limit)
    }
}

impl Condition {
    const_unless_loom! {
        /// A condition variable without waiters.
        pub fn new() -> Condition {
            Condition(Condvar::new())
        }
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl<C: Class, T> std::ops::Deref for CellGuard<'_, C, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<C: Class, T> std::ops::DerefMut for CellGuard<'_, C, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
