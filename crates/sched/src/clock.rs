//! The clock of the scheduler.

use crate::cpu_accounting::CpuAccounting;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use hearth_sync::primitive::{Arc, Stopwatch};
use std::time::Duration;

/// Nanoseconds since the clock began. It never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(u64);

impl Time {
    /// Returns the time `ns` nanoseconds after the clock began.
    pub fn from_ns(ns: u64) -> Time {
        Time(ns)
    }

    /// Returns the nanoseconds since the clock began.
    pub fn ns(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this one, zero if that is negative.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;
    fn add(self, by: Duration) -> Time {
        let ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(ns))
    }
}

/// A source of time.
#[derive(Clone, Debug)]
pub struct Clock(ClockKind);

#[derive(Clone, Debug)]
enum ClockKind {
    System(Stopwatch),
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// Returns the machine's monotonic clock, which begins now.
    pub fn system() -> Clock {
        Clock(ClockKind::System(Stopwatch::start()))
    }

    /// Returns a clock for tests: it stands still unless [`Clock::advance`] moves it.
    pub fn manual() -> Clock {
        Clock(ClockKind::Manual(Arc::new(AtomicU64::new(0))))
    }

    /// Returns the current time.
    #[inline]
    pub fn now(&self) -> Time {
        match &self.0 {
            ClockKind::System(watch) => Time(watch.ns()),
            // Relaxed: time orders nothing else.
            ClockKind::Manual(ns) => Time(ns.load(Ordering::Relaxed)),
        }
    }

    /// Returns the CPU accounting of the calling thread: by its processor time if this is the
    /// machine's clock, else by this clock.
    pub(crate) fn cpu_accounting(&self) -> CpuAccounting {
        match &self.0 {
            ClockKind::System(_) => CpuAccounting::of_thread(),
            ClockKind::Manual(_) => CpuAccounting::by_clock(),
        }
    }

    /// Moves a manual clock; has no effect on the machine's.
    pub fn advance(&self, by: Duration) {
        if let ClockKind::Manual(ns) = &self.0 {
            // Relaxed: time orders nothing else.
            ns.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}
