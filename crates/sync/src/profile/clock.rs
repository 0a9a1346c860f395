//! The clock of the profile, which a test may stop.

use std::time::Duration;

use crate::primitive::plain::{AtomicU64, Ordering};

/// The clock is not stopped.
const RUNS: u64 = u64::MAX;

/// The time while the clock is stopped. Relaxed: a test that moves it synchronises its threads by
/// other means.
static STOPPED_AT: AtomicU64 = AtomicU64::new(RUNS);
/// The number of reads of the stopped clock. Relaxed: a count.
static LOOKS: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds since some moment in the past.
#[cfg_attr(
    any(feature = "loom", feature = "shuttle", feature = "unprofiled"),
    expect(dead_code, reason = "nothing is timed in these builds")
)]
pub(crate) fn now() -> u64 {
    match STOPPED_AT.load(Ordering::Relaxed) {
        RUNS => monotonic(),
        stopped => {
            LOOKS.fetch_add(1, Ordering::Relaxed);
            stopped
        }
    }
}

/// Stops the clock of the profile until it is dropped: time passes when the test says so. It acts
/// on the whole process, so tests that use it must run one at a time.
#[derive(Debug)]
pub struct TestClock(());

impl TestClock {
    /// Stops the clock at zero.
    #[expect(clippy::new_without_default, reason = "making one changes the process")]
    pub fn new() -> TestClock {
        STOPPED_AT.store(0, Ordering::Relaxed);
        TestClock(())
    }

    /// The number of times that the profile has read this clock; a test sees by it that a thread
    /// waits.
    pub fn looks(&self) -> u64 {
        LOOKS.load(Ordering::Relaxed)
    }

    /// Advances the clock.
    pub fn advance(&self, time: Duration) {
        STOPPED_AT.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Drop for TestClock {
    fn drop(&mut self) {
        STOPPED_AT.store(RUNS, Ordering::Relaxed);
    }
}

fn monotonic() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to `now` only.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
