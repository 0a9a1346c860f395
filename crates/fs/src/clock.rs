//! The clock that stamps files.

use crate::attr::Time;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
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

/// The longest tick of a coarse clock (`CONFIG_HZ=100`), in nanoseconds.
const TICK: u64 = 10_000_000;

/// How far the latest time that is known of a clock may lag behind it, in nanoseconds.
const LAG: u64 = 3_600_000_000_000;

/// The clock of a volume, which a kernel in front may have overtaken within a tick.
///
/// Linux stamps files (`ktime_get_coarse_real_ts64_mg`, 6.13) with the coarse clock or, if that is
/// later, with the last fine time that it gave to a file of any filesystem. No call tells that
/// time. A volume that stamps by the coarse clock alone would go back behind a stamp that the
/// kernel has sent, and the kernel, for which the time has not changed, would not send it again. So
/// what the kernel sends is a floor until the tick is over.
pub(crate) struct VolumeClock {
    source: Arc<dyn Clock>,
    /// The latest stamp of a kernel that was ahead of `source`, in nanoseconds. Relaxed: the
    /// request that brings a stamp is answered before the kernel does what relies on it.
    floor: AtomicU64,
    /// The latest time that the clock was seen to show, in nanoseconds: by the background each time
    /// it looks, by operations only where this is [`LAG`] old, since all cores read it. It stays
    /// when somebody sets the clock back. Relaxed: a hint; `Superblock::restamp` looks itself.
    latest: AtomicU64,
}

impl VolumeClock {
    pub fn new(source: Arc<dyn Clock>) -> VolumeClock {
        VolumeClock {
            source,
            floor: AtomicU64::new(0),
            latest: AtomicU64::new(0),
        }
    }

    /// The time to stamp files with.
    #[inline]
    pub fn now(&self) -> Time {
        let now = self.source.now();
        let floor = self.floor.load(Ordering::Relaxed);
        // Without a kernel in front there is no floor.
        match floor != 0 && is_ahead(floor, now) {
            true => Time::from_nanos(floor),
            false => now,
        }
    }

    /// A kernel has stamped a file by its own clock. What is ahead by more than a tick is no time
    /// of this clock and counts for nothing.
    pub fn kernel_stamped(&self, time: Time) {
        let (stamp, now) = (time.nanos(), self.source.now());
        if !is_ahead(stamp, now) {
            // The common case writes nothing.
            return;
        }
        let raise = |floor| (stamp > floor || !is_ahead(floor, now)).then_some(stamp);
        let _ = self
            .floor
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise);
    }

    /// Whether the clock, which shows `now`, may have been set back since it showed a time: the
    /// latest that is known, or `seen` if that is later. All in nanoseconds.
    #[inline]
    pub fn may_be_behind(&self, now: u64, seen: u64) -> bool {
        let latest = self.latest.load(Ordering::Relaxed);
        if now > latest.saturating_add(LAG) {
            self.saw(now);
        }
        is_behind(now, latest.max(seen))
    }

    /// The clock has shown this time, in nanoseconds.
    #[cold]
    pub fn saw(&self, nanos: u64) {
        // Looked at first: what is fetched brings times that are known, and all cores read this.
        if self.latest.load(Ordering::Relaxed) < nanos {
            self.latest.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// Looks at the clock, so that it is noticed if somebody sets it back.
    pub fn look(&self) {
        self.saw(self.source.now().nanos());
    }

    /// [`Clock::monotonic`].
    pub fn monotonic(&self) -> u64 {
        self.source.monotonic()
    }
}

/// Whether `now` is earlier than `seen` by more than the clock goes back by itself.
pub(crate) fn is_behind(now: u64, seen: u64) -> bool {
    now.saturating_add(TICK) < seen
}

/// Whether `floor` is later than `now`, and in the same tick.
fn is_ahead(floor: u64, now: Time) -> bool {
    let ahead = floor.saturating_sub(now.nanos());
    ahead > 0 && ahead < TICK
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Still(AtomicU64);

    impl Clock for Arc<Still> {
        fn now(&self) -> Time {
            Time::from_nanos(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn a_volumes_clock_does_not_go_back_behind_a_stamp_of_the_kernel_in_the_same_tick() {
        let still = Arc::new(Still(AtomicU64::new(7_000_000_000)));
        let clock = VolumeClock::new(Arc::new(Arc::clone(&still)));
        let now = || clock.now().nanos();
        clock.kernel_stamped(Time::from_nanos(7_000_900_000));
        assert_eq!(now(), 7_000_900_000);
        // An earlier one, such as comes late, takes nothing back.
        clock.kernel_stamped(Time::from_nanos(7_000_300_000));
        assert_eq!(now(), 7_000_900_000);
        // No time of this clock.
        clock.kernel_stamped(Time::from_nanos(9_000_000_000));
        clock.kernel_stamped(Time { sec: -3, nsec: 0 });
        assert_eq!(now(), 7_000_900_000);
        still.0.store(7_004_000_000, Ordering::Relaxed);
        assert_eq!(now(), 7_004_000_000, "the next tick");
        // Somebody sets the clock back: the floor is no time of it any more.
        still.0.store(6_000_000_000, Ordering::Relaxed);
        assert_eq!(now(), 6_000_000_000);
        clock.kernel_stamped(Time::from_nanos(6_000_100_000));
        assert_eq!(now(), 6_000_100_000);
    }
}
