//! Predicts the kernel's next timer tick.
//!
//! At the tick the scheduler preempts a thread that has used up its slice. The coarse clock
//! advances at ticks and at no other time, on all cores together (their timers are aligned unless
//! the kernel was started with `skew_tick=1`). A thread that reads it twice within a fraction of a
//! millisecond, and finds that it has advanced, knows when the tick was. The next ticks come after
//! whole periods of `CONFIG_HZ`.

use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::primitive::{OnceLock, clock, resolution, thread_local};
use crossbeam_utils::CachePadded;
use std::cell::Cell;

/// The longest time between two samples, in nanoseconds, that still locates a tick.
const MAX_GAP: u64 = 200_000;
/// The shortest period, in nanoseconds; less means that there is no coarse clock.
const MIN_PERIOD: u64 = 900_000;
/// After this time without a tick where it was expected, in nanoseconds, the next one that is seen
/// counts wherever it is: the stored one may have come late itself.
const RESYNC: u64 = 50_000_000;
/// The time in nanoseconds after which an observed tick is forgotten.
const STALE: u64 = 1_000_000_000;

/// Nanoseconds until the next tick, or up to [`MAX_GAP`] more; `None` if no tick was observed
/// lately. To be called often: a tick is observed only by two calls within [`MAX_GAP`]. If the
/// first observed tick came late, the result is wrong for [`RESYNC`] and until one more is seen.
pub(super) fn until_next() -> Option<u64> {
    let period = period()?;
    let here = Sample::now()?;
    let before = LAST.replace(here);
    if before.saw_tick(here) {
        TICK.observe(here.end, period);
    }
    DENSE.set(here.is_within(MAX_GAP / 2, before));
    TICK.until_next(here.end, period)
}

/// Whether the last two samples of this thread were so close that it may sample less often.
pub(super) fn samples_are_dense() -> bool {
    DENSE.get()
}

thread_local! {
    static LAST: Cell<Sample> = const { Cell::new(Sample { begin: 0, coarse: 0, end: 0 }) };
    static DENSE: Cell<bool> = const { Cell::new(true) };
}

static TICK: CachePadded<Tick> = CachePadded::new(Tick(AtomicU64::new(0)));

/// The tick period in nanoseconds: the resolution of the coarse clock. `None` where that clock is
/// as fine as the other.
fn period() -> Option<u64> {
    static PERIOD: OnceLock<Option<u64>> = OnceLock::new();
    let coarse = || resolution(libc::CLOCK_MONOTONIC_COARSE).filter(|&ns| ns >= MIN_PERIOD);
    *PERIOD.get_or_init(coarse)
}

/// A sample: the coarse clock, and the fine clock before and after it, in nanoseconds. The thread
/// may be preempted in between.
#[derive(Clone, Copy)]
struct Sample {
    begin: u64,
    coarse: u64,
    end: u64,
}

impl Sample {
    fn now() -> Option<Sample> {
        Some(Sample {
            begin: clock(libc::CLOCK_MONOTONIC)?,
            coarse: clock(libc::CLOCK_MONOTONIC_COARSE)?,
            end: clock(libc::CLOCK_MONOTONIC)?,
        })
    }

    /// Whether this sample and `before` lie within `ns` nanoseconds.
    fn is_within(self, ns: u64, before: Sample) -> bool {
        let apart = self.end.checked_sub(before.begin);
        apart.is_some_and(|apart| apart <= ns)
    }

    /// Whether there was a tick just before the end of `next`, the next sample of this thread.
    fn saw_tick(self, next: Sample) -> bool {
        next.coarse != self.coarse && next.is_within(MAX_GAP, self)
    }
}

/// The time of an observed tick, up to [`MAX_GAP`] late; 0 before the first. Relaxed throughout: a
/// word by itself, and a wrong one costs a slice.
struct Tick(AtomicU64);

impl Tick {
    /// Records a tick at `now`, or up to [`MAX_GAP`] before.
    fn observe(&self, now: u64, period: u64) {
        let seen = match self.left_within(RESYNC, now, period) {
            None => now,
            // This sample is closer to the tick than the stored one, so the stored prediction is a
            // little late.
            Some(left) if left <= MAX_GAP => now,
            // The tick came when it was expected.
            Some(left) if left + MAX_GAP >= period => now - (period - left),
            Some(_) => return,
        };
        self.0.store(seen, Ordering::Relaxed);
    }

    fn until_next(&self, now: u64, period: u64) -> Option<u64> {
        self.left_within(STALE, now, period)
    }

    /// Nanoseconds until the next tick, from a tick that was observed at most `ns` ago.
    fn left_within(&self, ns: u64, now: u64, period: u64) -> Option<u64> {
        let seen = self.0.load(Ordering::Relaxed);
        // Another thread may have observed a tick since `now` was read.
        let is_known = seen != 0 && seen.abs_diff(now) <= ns;
        is_known.then(|| period - now.saturating_sub(seen) % period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 4_000_000;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_sample_closest_to_a_tick_gives_the_best_prediction() {
        let tick = Tick(AtomicU64::new(0));
        assert_eq!(tick.until_next(7 * SECOND, PERIOD), None);
        // Ticks come at whole periods; they are observed 150, 30 and 90 microseconds late.
        let at = |periods: u64, late: u64| 7 * SECOND + periods * PERIOD + late;
        tick.observe(at(0, 150_000), PERIOD);
        assert_eq!(tick.until_next(at(3, 0), PERIOD), Some(150_000));
        tick.observe(at(3, 30_000), PERIOD);
        tick.observe(at(5, 90_000), PERIOD);
        assert_eq!(tick.until_next(at(6, 0), PERIOD), Some(30_000));
        assert_eq!(tick.until_next(at(6, 30_000), PERIOD), Some(PERIOD));
        assert_eq!(tick.until_next(at(6, 1_000_000), PERIOD), Some(3_030_000));
        // A sample from before the stored tick.
        assert_eq!(tick.until_next(at(2, 0), PERIOD), Some(PERIOD));
        assert_eq!(tick.until_next(at(5, 30_001) + SECOND, PERIOD), None);
        tick.observe(at(300, 180_000), PERIOD);
        assert_eq!(tick.until_next(at(301, 0), PERIOD), Some(180_000));
    }

    #[test]
    fn a_late_first_tick_misleads_for_at_most_50_ms() {
        let tick = Tick(AtomicU64::new(0));
        // Ticks come 3 ms before whole periods from the first observed one.
        let at = |periods: u64| SECOND + periods * PERIOD;
        tick.observe(at(0) + 3_000_000, PERIOD);
        tick.observe(at(1), PERIOD);
        assert_eq!(tick.until_next(at(2), PERIOD), Some(3_000_000));
        tick.observe(at(13), PERIOD);
        assert_eq!(tick.until_next(at(2 * 13), PERIOD), Some(3_000_000));
        tick.observe(at(14), PERIOD);
        assert_eq!(tick.until_next(at(2 * 14), PERIOD), Some(PERIOD));
    }

    #[test]
    fn a_late_tick_does_not_replace_a_correct_prediction() {
        let tick = Tick(AtomicU64::new(0));
        let at = |periods: u64| SECOND + periods * PERIOD;
        tick.observe(at(0), PERIOD);
        for periods in 1..100 {
            tick.observe(at(periods) + MAX_GAP, PERIOD);
            tick.observe(at(periods) + 2_000_000, PERIOD);
            assert_eq!(tick.until_next(at(periods + 1), PERIOD), Some(PERIOD));
        }
    }

    /// Uses the machine's own clocks. Beside other programs a thread may be preempted for long, and
    /// a tick may come late; of some twenty in a row most are observed where they are expected.
    #[test]
    #[cfg_attr(miri, ignore = "it has no such clock")]
    fn frequent_samples_predict_the_ticks_of_this_machine() {
        let Some(period) = period() else {
            return;
        };
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let samples_are_dense =
            |left: Option<u64>| left.is_some_and(|n| n <= MAX_GAP || n + MAX_GAP >= period);
        // A prediction of "now" at every call would predict nothing.
        let twenty_are_foreseen = || {
            let (mut seen, mut foreseen) = (0, 0);
            let (mut looks, mut near) = (0u64, 0);
            let mut before = Sample::now().expect("a clock");
            while seen < 20 {
                let is_over = std::time::Instant::now() > limit;
                assert!(!is_over, "twenty in a row were not foreseen");
                let expected = samples_are_dense(until_next());
                let here = Sample::now().expect("a clock");
                if before.saw_tick(here) {
                    seen += 1;
                    foreseen += u32::from(expected);
                }
                looks += 1;
                near += u64::from(expected);
                before = here;
            }
            foreseen >= 16 && near < looks / 2
        };
        while !twenty_are_foreseen() {}
    }

    #[test]
    fn only_two_close_samples_locate_a_tick() {
        let look = |begin, coarse, end| Sample { begin, coarse, end };
        let before = look(10 * MAX_GAP, 0, 10 * MAX_GAP + 1);
        assert!(before.saw_tick(look(10 * MAX_GAP + 2, PERIOD, 11 * MAX_GAP)));
        assert!(!before.saw_tick(look(10 * MAX_GAP + 2, 0, 11 * MAX_GAP)));
        assert!(!before.saw_tick(look(10 * MAX_GAP + 2, PERIOD, 11 * MAX_GAP + 1)));
        // The coarse clock was read long before the end of the first sample.
        let long = look(0, 0, 10 * MAX_GAP);
        assert!(!long.saw_tick(look(10 * MAX_GAP + 1, PERIOD, 10 * MAX_GAP + 2)));
        // A clock that goes backwards.
        assert!(!before.saw_tick(look(0, PERIOD, 1)));
    }
}
