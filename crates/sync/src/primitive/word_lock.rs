//! A lock of two bytes, without a value and without a class.
//!
//! parking_lot's scheme with one more bit: whether the current hold is timed. An unlock exchanges
//! [`LOCKED`] for zero, which fails for any other bit, so testing that bit costs nothing where it
//! is clear. `docs/design/lock-profile.md`, section 6.
//!
//! | access | ordering | partner |
//! |---|---|---|
//! | lock | Acquire | the Release of the previous holder |
//! | set `PARKED`, set `TIMED` | Relaxed | none: the queue's lock; the holder's program order |
//! | unlock | Release | the next taker's Acquire |

use super::const_unless_loom;
use crate::primitive::atomic::{AtomicU8, Ordering};
use crate::primitive::{LastCore, parking};

/// The lock is held.
const LOCKED: u8 = 1;
/// A thread may sleep in the lock's queue. Set while `LOCKED`; cleared under the queue's lock.
const PARKED: u8 = 2;
/// The current hold is timed. Set and cleared by the holder.
const TIMED: u8 = 4;

/// A lock of two bytes that guards what its owner documents.
///
/// Waiters park. Under a model checker they yield instead, because no task may wait on the
/// operating system there.
#[repr(C)]
pub struct WordLock {
    word: AtomicU8,
    /// Written by holders while the lock profile is on.
    last: LastCore,
}

impl WordLock {
    const_unless_loom! {
        /// An open lock.
        pub fn new() -> WordLock {
            WordLock { word: AtomicU8::new(0), last: LastCore::new() }
        }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) {
        if !self.take_free() {
            self.lock_slow();
        }
    }

    /// Takes the lock if it is free and nobody waits for it; may fail spuriously.
    #[inline(always)]
    #[must_use = "the lock is held when this returns true"]
    pub fn take_free(&self) -> bool {
        // Acquire: see the table above. Relaxed on failure: nothing was taken.
        self.word
            .compare_exchange_weak(0, LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the lock if nobody has it.
    #[inline]
    #[must_use = "the lock is held when this returns true"]
    pub fn try_lock(&self) -> bool {
        // Relaxed: a first look; the exchange decides.
        let mut word = self.word.load(Ordering::Relaxed);
        while word & LOCKED == 0 {
            // Acquire: see the table above. Relaxed on failure: nothing was taken.
            match self.word.compare_exchange_weak(
                word,
                word | LOCKED,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Releases the lock; the caller holds it. Calls `timed` before that if the hold is timed.
    #[inline]
    pub fn unlock(&self, timed: impl FnOnce()) {
        // Release: see the table above. Relaxed on failure: nothing was given up.
        if self
            .word
            .compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            self.unlock_slow(timed);
        }
    }

    /// Marks the current hold as timed; the caller holds the lock.
    pub fn set_timed(&self) {
        // Relaxed: this thread releases the lock later, by an exchange of the same word.
        self.word.fetch_or(TIMED, Ordering::Relaxed);
    }

    /// The core that took the lock last.
    #[inline]
    pub fn last(&self) -> &LastCore {
        &self.last
    }

    /// True while the lock is held.
    #[inline]
    pub fn is_locked(&self) -> bool {
        // Relaxed: a hint for messages and checks; the holder itself wrote the word.
        self.word.load(Ordering::Relaxed) & LOCKED != 0
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self) {
        let mut wait = parking::SpinWait::new();
        loop {
            if wait.spin() {
                if self.try_lock() {
                    return;
                }
                continue;
            }
            // Relaxed: the exchange decides.
            let word = self.word.load(Ordering::Relaxed);
            if word & LOCKED == 0 {
                if self.try_lock() {
                    return;
                }
                continue;
            }
            if word & PARKED == 0 {
                let with = word | PARKED;
                // Relaxed: a thread that is about to park checks again under the queue's lock.
                let (ok, failed) = (Ordering::Relaxed, Ordering::Relaxed);
                let marked = self.word.compare_exchange_weak(word, with, ok, failed);
                if marked.is_err() {
                    continue;
                }
            }
            // Relaxed: holders change the word of a lock with sleepers under the queue's lock,
            // which is held here.
            let must_sleep = || {
                let word = self.word.load(Ordering::Relaxed);
                word & (LOCKED | PARKED) == LOCKED | PARKED
            };
            if wait.park(self.queue(), must_sleep) {
                return;
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self, timed: impl FnOnce()) {
        // Relaxed: the bit was set by this thread.
        let word = self.word.load(Ordering::Relaxed);
        assert_ne!(word & LOCKED, 0, "unlock of an open lock");
        if word & TIMED != 0 {
            timed();
            let (ok, failed) = (Ordering::Release, Ordering::Relaxed);
            // Release: see the table above. A word with sleepers is changed below.
            let given_up = self.word.compare_exchange(LOCKED | TIMED, 0, ok, failed);
            if given_up.is_ok() {
                return;
            }
        }
        parking::unpark_one(self.queue(), |hand_over, more| {
            let held = if hand_over { LOCKED } else { 0 };
            let queued = if more { PARKED } else { 0 };
            // Release: see the table above. No other thread changes the word meanwhile. Takers find
            // it locked. A thread that sets `PARKED` again loses that bit here if the queue is
            // otherwise empty, but it parks only after this and checks again.
            self.word.store(held | queued, Ordering::Release);
        });
    }

    /// The key of the lock's queue: its address.
    fn queue(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Default for WordLock {
    fn default() -> WordLock {
        WordLock::new()
    }
}

impl std::fmt::Debug for WordLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WordLock").field(&self.is_locked()).finish()
    }
}
