//! Epoch-based memory reclamation: values are dropped once nobody can see them any more.
//!
//! A reader pins the epoch and may then follow pointers that other threads retire meanwhile: what
//! is retired while a guard lives is dropped only after that guard. Pinning writes to a cache line
//! of the pinning thread only.
//!
//! The collector decides when retired values have expired, and threads free what they retired
//! themselves (`collector`, `native`). Under a model checker a small deterministic stand-in takes
//! its place, which drops every retired value at the first moment that the contract allows.

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod bag;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod collector;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod cpu_hog;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod deferred;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod local;
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod modelled;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod native;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod preempt;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod throttle;
#[cfg(any(feature = "loom", feature = "shuttle"))]
#[path = "unthrottled.rs"]
mod throttle;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod tick;

#[cfg(any(feature = "loom", feature = "shuttle"))]
use modelled as backend;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
use native as backend;

pub use throttle::{
    free_leftovers, pending, throttle, throttle_background, yield_between_operations,
};

use crate::rcu::Share;
use std::ptr::NonNull;

/// While a guard lives, nothing that was reachable when it was created is dropped.
///
/// Keep guards short: one long guard holds back everything that is retired meanwhile.
#[derive(Debug)]
#[must_use = "protection ends when the guard is dropped"]
pub struct Guard(backend::Pin);

/// Pins the epoch for this thread. Pinning again while pinned is cheap.
#[inline]
pub fn pin() -> Guard {
    Guard(backend::pin())
}

/// Drops `value` once no guard that exists now is left.
///
/// It is not specified which thread drops it, and when.
pub fn retire<T: Send + 'static>(value: Box<T>, g: &Guard) {
    let value = Box::into_raw(value);
    // SAFETY: the pointer comes from a box that was owned here, and nobody else frees it.
    unsafe { retire_raw(value, g) };
}

/// Accounts for `bytes` that a value retired under `g` owns besides its own size: they count
/// towards the bound of [`throttle()`].
#[inline]
pub fn account(bytes: usize, g: &Guard) {
    throttle::account(bytes, g);
}

/// Whether this thread has a guard. False under a model checker, whose tasks share a thread.
pub fn is_pinned() -> bool {
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    return backend::is_pinned();
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    false
}

/// Waits until every guard that exists now is gone. A thread that pins from then on sees what was
/// written before the call, with any ordering, as with Linux's `synchronize_rcu`.
///
/// # Panics
/// In debug builds, if the calling thread has a guard: it would wait for itself.
pub fn synchronize() {
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    debug_assert!(!backend::is_pinned(), "a guard waits for itself");
    backend::synchronize();
}

impl Guard {
    /// Seals the bag of this thread, tries to advance the epoch, and frees what has expired.
    pub fn flush(&self) {
        throttle::flush_batch(self);
        self.0.flush();
    }

    /// Unpins and pins again; no reference that the guard gave out survives this.
    pub fn repin(&mut self) {
        self.0.repin();
    }

    /// Runs `deferred` once no guard that exists now is left.
    ///
    /// # Safety
    ///
    /// `deferred` may run on any thread, and after everything it borrows is gone unless its owner
    /// prevents that: what it captures must be sendable and stay valid until it has run.
    pub(crate) unsafe fn defer(&self, deferred: impl FnOnce() + 'static) {
        // SAFETY: the caller promises what the backend asks for.
        unsafe { self.0.defer(deferred) };
    }
}

/// Frees the box behind `value` once no guard that exists now is left.
///
/// # Safety
///
/// `value` comes from [`Box::into_raw`], is freed by nobody else, and new readers can no longer
/// find it.
pub(crate) unsafe fn retire_raw<T: Send + 'static>(value: *mut T, g: &Guard) {
    // SAFETY: T is Send and 'static, so it may be dropped later on any thread. It becomes a box
    // again only then: readers may hold references until that moment.
    unsafe {
        g.defer(move || {
            let value = value;
            // SAFETY: the caller gave this pointer up to us alone, and no reader is left.
            drop(Box::from_raw(value));
        });
    }
    throttle::account(size_of::<T>(), g);
}

/// Drops one share once no guard that exists now is left. The value counts as retired: the share is
/// mostly its last one.
///
/// # Safety
///
/// `value` comes from [`Share::into_raw`], its share is dropped by nobody else, and new readers can
/// no longer find it.
pub(crate) unsafe fn retire_share<T: Send + Sync + 'static>(value: NonNull<T>, g: &Guard) {
    // SAFETY: T is Send, Sync and 'static, so a share may be dropped later on any thread.
    unsafe {
        g.defer(move || {
            let value = value;
            // SAFETY: the caller gave this share up to us alone, and no reader relies on it.
            drop(Share::from_raw(value));
        });
    }
    throttle::account(size_of::<T>(), g);
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::primitive::Arc;
    use crate::primitive::atomic::{AtomicBool, AtomicUsize, Ordering};

    struct DropCount(Arc<AtomicUsize>);

    impl Drop for DropCount {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn collect_until(dropped: &AtomicUsize, wanted: usize) {
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while dropped.load(Ordering::SeqCst) < wanted {
            pin().flush();
            std::thread::yield_now();
            assert!(
                std::time::Instant::now() < limit,
                "garbage is never dropped"
            );
        }
    }

    #[test]
    fn a_retired_value_outlives_every_guard_that_saw_it() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let reader = pin();
        let writer = Arc::clone(&dropped);
        std::thread::spawn(move || {
            retire(Box::new(DropCount(writer)), &pin());
            for _ in 0..1_000 {
                pin().flush();
            }
        })
        .join()
        .unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(reader);
        collect_until(&dropped, 1);
    }

    #[test]
    fn synchronize_waits_for_earlier_guards_only() {
        let (reader, ends) = (pin(), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&ends);
        let waits = std::thread::spawn(move || {
            synchronize();
            assert!(seen.load(Ordering::SeqCst), "a guard was still there");
        });
        for _ in 0..100 {
            pin().flush();
            std::thread::yield_now();
        }
        ends.store(true, Ordering::SeqCst);
        drop(reader);
        // There is a guard at every moment, but each one ends.
        let mut last = pin();
        while !waits.is_finished() {
            let next = std::thread::spawn(|| drop(pin()));
            last.repin();
            next.join().unwrap();
        }
        waits.join().unwrap();
    }

    #[test]
    fn every_retired_value_is_dropped_once() {
        let dropped = Arc::new(AtomicUsize::new(0));
        for _ in 0..1_000 {
            retire(Box::new(DropCount(Arc::clone(&dropped))), &pin());
        }
        collect_until(&dropped, 1_000);
        for _ in 0..100 {
            pin().flush();
        }
        assert_eq!(dropped.load(Ordering::SeqCst), 1_000);
    }
}
