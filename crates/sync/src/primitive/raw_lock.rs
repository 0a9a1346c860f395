//! A lock of one byte without a value.

use super::const_unless_loom;

/// A lock of one byte that guards what its owner says it guards.
///
/// Waiters park. Under a model checker they yield instead: no task may wait on the operating
/// system there.
pub struct RawLock(Raw);

/// Proof that a [`RawLock`] is held; gives it up when dropped.
#[must_use = "the lock is given up when the guard is dropped"]
pub struct RawGuard<'a>(&'a RawLock);

impl RawLock {
    const_unless_loom! {
        /// An open lock.
        pub fn new() -> RawLock {
            RawLock(Raw::new())
        }
    }

    /// Takes the lock; [`RawLock::unlock`] gives it up.
    #[inline]
    pub fn lock(&self) {
        self.0.lock();
    }

    /// Takes the lock if nobody has it.
    #[inline]
    #[must_use = "the lock is held when this returns true"]
    pub fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    /// Gives the lock up.
    ///
    /// # Panics
    ///
    /// When nobody holds the lock.
    #[inline]
    pub fn unlock(&self) {
        assert!(self.0.is_locked(), "unlock of an open lock");
        self.0.unlock();
    }

    /// True while somebody holds the lock.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    /// Takes the lock until the guard is dropped.
    #[inline]
    pub fn lock_guard(&self) -> RawGuard<'_> {
        self.0.lock();
        RawGuard(self)
    }

    /// Takes the lock until the guard is dropped, if nobody has it.
    #[inline]
    pub fn try_lock_guard(&self) -> Option<RawGuard<'_>> {
        self.0.try_lock().then(|| RawGuard(self))
    }
}

impl Default for RawLock {
    fn default() -> RawLock {
        RawLock::new()
    }
}

impl std::fmt::Debug for RawLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RawLock").field(&self.is_locked()).finish()
    }
}

impl Drop for RawGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.unlock();
    }
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
use parking::Raw;
#[cfg(any(feature = "loom", feature = "shuttle"))]
use yielding::Raw;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod parking {
    use parking_lot::lock_api::RawMutex as _;

    pub(super) struct Raw(parking_lot::RawMutex);

    impl Raw {
        pub(super) const fn new() -> Raw {
            Raw(parking_lot::RawMutex::INIT)
        }

        #[inline]
        pub(super) fn lock(&self) {
            self.0.lock();
        }

        #[inline]
        pub(super) fn try_lock(&self) -> bool {
            self.0.try_lock()
        }

        #[inline]
        pub(super) fn unlock(&self) {
            // SAFETY: the callers hold the lock: a guard by construction, `RawLock::unlock` by
            // its check. Giving up a lock that another thread holds, which that check cannot
            // see, breaks exclusion but no memory: nothing unsafe relies on a lock whose
            // `unlock` strangers can reach.
            unsafe { self.0.unlock() }
        }

        #[inline]
        pub(super) fn is_locked(&self) -> bool {
            self.0.is_locked()
        }
    }
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod yielding {
    use crate::primitive::atomic::{AtomicBool, Ordering};
    use crate::primitive::{Backoff, const_unless_loom};

    pub(super) struct Raw(AtomicBool);

    impl Raw {
        const_unless_loom! {
            pub(super) fn new() -> Raw {
                Raw(AtomicBool::new(false))
            }
        }

        pub(super) fn lock(&self) {
            let backoff = Backoff::new();
            while !self.try_lock() {
                backoff.snooze();
            }
        }

        pub(super) fn try_lock(&self) -> bool {
            // Acquire: pairs with the Release in `unlock`. Relaxed on failure: nothing was taken.
            self.0
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        }

        pub(super) fn unlock(&self) {
            // Release: pairs with the Acquire in `try_lock`.
            self.0.store(false, Ordering::Release);
        }

        pub(super) fn is_locked(&self) -> bool {
            // Relaxed: only a hint for messages and for the check in `RawLock::unlock`, whose
            // caller wrote the value itself.
            self.0.load(Ordering::Relaxed)
        }
    }
}
