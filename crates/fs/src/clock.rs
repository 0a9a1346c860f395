//! The clock that stamps files.

use crate::attr::Time;
use rustix::time::{ClockId, clock_gettime};

/// Source of file times, handed to the volume.
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock time now.
    fn now(&self) -> Time;

    /// Milliseconds since an arbitrary moment, never going backwards; heat ages by it.
    fn monotonic(&self) -> u64 {
        let now = clock_gettime(ClockId::MonotonicCoarse);
        now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
    }
}

/// `CLOCK_REALTIME_COARSE`: the tick that Linux itself stamps files with; costs a few nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Time {
            sec: now.tv_sec,
            nsec: now.tv_nsec as u32,
        }
    }
}
