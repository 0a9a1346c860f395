//! Parking: sleeping in a queue that is found by an address.

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub(super) use modelled::{SpinWait, unpark_one};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(super) use native::{SpinWait, unpark_one};

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod native {
    use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, ParkResult, UnparkToken};

    /// The woken thread owns the lock: it was handed over without becoming free.
    const HANDED_OVER: UnparkToken = UnparkToken(1);

    /// Yields before a thread parks. Holds are shorter than a wake-up takes. Once many threads
    /// sleep for one lock, each hold ends with a wake-up, and 16 threads on 16 cores wait for these
    /// (`docs/design/locks.md`, "Waiting").
    const YIELDS: u32 = 40;

    /// Adaptive spinning before parking.
    pub(in super::super) struct SpinWait {
        pauses: crossbeam_utils::Backoff,
        yields: u32,
    }

    impl SpinWait {
        pub(in super::super) fn new() -> SpinWait {
            SpinWait {
                pauses: crossbeam_utils::Backoff::new(),
                yields: 0,
            }
        }

        /// Waits a little; false when it has waited often enough.
        pub(in super::super) fn spin(&mut self) -> bool {
            if !self.pauses.is_completed() {
                self.pauses.snooze();
                return true;
            }
            let goes_on = self.yields < YIELDS;
            if goes_on {
                self.yields += 1;
                std::thread::yield_now();
            }
            goes_on
        }

        /// Parks in the queue `key` if `must_sleep`, called under the queue's lock, returns true.
        /// Returns true if the lock was handed over.
        pub(in super::super) fn park(
            &mut self,
            key: usize,
            must_sleep: impl FnOnce() -> bool,
        ) -> bool {
            let (asleep, timed_out) = (|| {}, |_, _| {});
            // SAFETY: the key is the address of a lock of this crate, which no other code uses as a
            // key; the callbacks neither panic nor park.
            let result = unsafe {
                parking_lot_core::park(key, must_sleep, asleep, timed_out, DEFAULT_PARK_TOKEN, None)
            };
            *self = SpinWait::new();
            matches!(result, ParkResult::Unparked(HANDED_OVER))
        }
    }

    /// Wakes the thread that has slept longest in the queue `key`. `change` is called under the
    /// queue's lock; its arguments are whether that thread gets the lock right away, and whether
    /// more sleep there.
    pub(in super::super) fn unpark_one(key: usize, change: impl FnOnce(bool, bool)) {
        // SAFETY: as in `park`.
        unsafe {
            parking_lot_core::unpark_one(key, |result| {
                let hand_over = result.unparked_threads != 0 && result.be_fair;
                change(hand_over, result.have_more_threads);
                match hand_over {
                    true => HANDED_OVER,
                    false => DEFAULT_UNPARK_TOKEN,
                }
            });
        }
    }
}

/// No task of a model may wait on the operating system: there is no queue, and waiters poll.
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod modelled {
    use crate::primitive::Backoff;

    pub(in super::super) struct SpinWait(Backoff);

    impl SpinWait {
        pub(in super::super) fn new() -> SpinWait {
            SpinWait(Backoff::new())
        }

        /// loom spins for ever: with the bit of the sleepers it has too many interleavings to
        /// explore. shuttle, which explores some of them, has that bit as well.
        pub(in super::super) fn spin(&mut self) -> bool {
            if cfg!(feature = "loom") {
                self.0.snooze();
            }
            cfg!(feature = "loom")
        }

        pub(in super::super) fn park(
            &mut self,
            _key: usize,
            must_sleep: impl FnOnce() -> bool,
        ) -> bool {
            if must_sleep() {
                self.0.snooze();
            }
            false
        }
    }

    pub(in super::super) fn unpark_one(_key: usize, change: impl FnOnce(bool, bool)) {
        change(false, false);
    }
}
