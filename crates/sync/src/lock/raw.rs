//! A two-byte lock without a value.

use std::marker::PhantomData;
use std::panic::Location;

use super::class::Class;
use super::profiled;
use crate::primitive::{WordLock, const_unless_loom};

/// A two-byte lock of class `C` that guards what its owner documents.
///
/// For data structures in which a [`Lock`](super::Lock) does not fit, or where one lock guards
/// several values. The order is not checked: the user documents its rank.
pub struct RawLock<C> {
    word: WordLock,
    class: PhantomData<fn() -> C>,
}

/// Proof that a [`RawLock`] is held; unlocks on drop. Stays on its thread.
#[must_use = "the lock is given up when the guard is dropped"]
pub struct RawGuard<'a> {
    word: &'a WordLock,
    thread: PhantomData<*const ()>,
}

impl<C: Class> RawLock<C> {
    const_unless_loom! {
        /// An open lock.
        pub fn new() -> RawLock<C> {
            RawLock { word: WordLock::new(), class: PhantomData }
        }
    }

    /// Takes the lock until the guard is dropped.
    #[inline]
    #[track_caller]
    pub fn lock_guard(&self) -> RawGuard<'_> {
        self.lock_guard_noticing().0
    }

    /// Takes the lock until the guard is dropped. The flag is true if another thread held it.
    #[inline]
    #[track_caller]
    pub fn lock_guard_noticing(&self) -> (RawGuard<'_>, bool) {
        let site = Location::caller();
        let had_to_wait =
            !profiled::take_free(&self.word) && profiled::lock(&self.word, C::NAME, site);
        (RawGuard::of(&self.word), had_to_wait)
    }

    /// Takes the lock until the guard is dropped, if it is free.
    #[inline]
    #[track_caller]
    pub fn try_lock_guard(&self) -> Option<RawGuard<'_>> {
        let site = Location::caller();
        let locked =
            profiled::take_free(&self.word) || profiled::try_lock(&self.word, C::NAME, site);
        locked.then(|| RawGuard::of(&self.word))
    }

    /// True while the lock is held.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.word.is_locked()
    }
}

impl<'a> RawGuard<'a> {
    fn of(word: &'a WordLock) -> RawGuard<'a> {
        RawGuard {
            word,
            thread: PhantomData,
        }
    }
}

impl<C: Class> Default for RawLock<C> {
    fn default() -> RawLock<C> {
        RawLock::new()
    }
}

impl<C: Class> std::fmt::Debug for RawLock<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RawLock").field(&C::NAME).finish()
    }
}

impl std::fmt::Debug for RawGuard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RawGuard")
    }
}

impl Drop for RawGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        profiled::unlock(self.word);
    }
}
