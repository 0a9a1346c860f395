//! When the kernel's timer interrupts next.
//!
//! There the scheduler takes a thread off its core, if that has had its slice. The coarse clock
//! moves at these interrupts and at no other time, on all cores together (their timers are aligned
//! unless the kernel was started with `skew_tick=1`). A thread that looks twice within a fraction
//! of a millisecond, and finds that it has moved, knows when that was; the next interrupts come
//! after whole periods of `CONFIG_HZ`.

use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::primitive::{OnceLock, clock, resolution, thread_local};
use crossbeam_utils::CachePadded;
use std::cell::Cell;

/// Nanoseconds between two looks that are near enough to tell by them.
const NEAR: u64 = 200_000;
/// Nanoseconds after which what was seen is seen anew.
const STALE: u64 = 1_000_000_000;

/// Nanoseconds until the next interrupt, or up to [`NEAR`] more; `None` if nobody has seen one
/// lately. To be asked often: only who looks again within [`NEAR`] sees any.
pub(super) fn left() -> Option<u64> {
    let here = Look::now()?;
    let before = LAST.replace(here);
    let period = period()?;
    if before.has_seen(here) {
        TICK.see(here.time, period);
    }
    TICK.left(here.time, period)
}

thread_local! {
    static LAST: Cell<Look> = const { Cell::new(Look { coarse: 0, time: 0 }) };
}

static TICK: CachePadded<Tick> = CachePadded::new(Tick(AtomicU64::new(0)));

/// Nanoseconds from one interrupt to the next: what the coarse clock moves by.
fn period() -> Option<u64> {
    static PERIOD: OnceLock<Option<u64>> = OnceLock::new();
    *PERIOD.get_or_init(|| resolution(libc::CLOCK_MONOTONIC_COARSE).filter(|&ns| ns > 0))
}

/// Both clocks, in nanoseconds.
#[derive(Clone, Copy)]
struct Look {
    coarse: u64,
    /// Not before `coarse` was read.
    time: u64,
}

impl Look {
    fn now() -> Option<Look> {
        // In this order: a thread that is off its core in between has seen nothing too early.
        let coarse = clock(libc::CLOCK_MONOTONIC_COARSE)?;
        let time = clock(libc::CLOCK_MONOTONIC)?;
        Some(Look { coarse, time })
    }

    /// Whether there was an interrupt just before `next`, the next look of the same thread.
    fn has_seen(self, next: Look) -> bool {
        next.coarse != self.coarse && next.time - self.time <= NEAR
    }
}

/// When an interrupt was seen, up to [`NEAR`] late; 0 before the first. Relaxed throughout: it is
/// a word by itself, and a wrong one costs a slice.
struct Tick(AtomicU64);

impl Tick {
    /// There was one at `now`, or up to [`NEAR`] before.
    fn see(&self, now: u64, period: u64) {
        // Who looks sooner after one knows it better: it is expected soon then, but has been.
        if self.left(now, period).is_none_or(|left| left <= NEAR) {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    fn left(&self, now: u64, period: u64) -> Option<u64> {
        // Another thread may have seen one since `now` was read.
        let since = now.saturating_sub(self.0.load(Ordering::Relaxed));
        (since <= STALE).then(|| period - since % period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 4_000_000;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn who_looks_soonest_after_one_knows_best_when_the_next_comes() {
        let tick = Tick(AtomicU64::new(0));
        assert_eq!(tick.left(7 * SECOND, PERIOD), None);
        // They come at whole periods; it is seen 150, 30 and 90 microseconds late.
        let at = |periods: u64, late: u64| 7 * SECOND + periods * PERIOD + late;
        tick.see(at(0, 150_000), PERIOD);
        assert_eq!(tick.left(at(3, 0), PERIOD), Some(150_000));
        tick.see(at(3, 30_000), PERIOD);
        tick.see(at(5, 90_000), PERIOD);
        assert_eq!(tick.left(at(6, 0), PERIOD), Some(30_000));
        assert_eq!(tick.left(at(6, 30_000), PERIOD), Some(PERIOD));
        assert_eq!(tick.left(at(6, 1_000_000), PERIOD), Some(3_030_000));
        // A look that was before what is known by now.
        assert_eq!(tick.left(at(2, 0), PERIOD), Some(PERIOD));
        assert_eq!(tick.left(at(3, 30_001) + SECOND, PERIOD), None);
        tick.see(at(300, 180_000), PERIOD);
        assert_eq!(tick.left(at(301, 0), PERIOD), Some(180_000));
    }

    #[test]
    fn only_two_looks_side_by_side_tell_of_one() {
        let look = |coarse, time| Look { coarse, time };
        let before = look(0, 10 * NEAR);
        assert!(before.has_seen(look(PERIOD, 11 * NEAR)));
        assert!(!before.has_seen(look(0, 11 * NEAR)));
        assert!(!before.has_seen(look(PERIOD, 11 * NEAR + 1)));
    }

    /// The clocks are as is said above: the coarse one stands still for a period.
    #[test]
    fn the_coarse_clock_moves_where_it_is_foreseen() {
        let (period, mut met) = (period().expect("Linux has one"), 0);
        let mut before = Look::now().expect("Linux has both");
        let end = before.time + 60 * SECOND;
        while met < 20 {
            let here = Look::now().expect("Linux has both");
            assert!(here.time < end, "only {met} interrupts were foreseen");
            let left = TICK.left(before.time, period);
            // What it is about is a thread that is not disturbed.
            if before.has_seen(here) && here.time - before.time < 20_000 {
                met += u32::from(left.is_some_and(|left| left < 60_000));
            }
            super::left();
            before = here;
        }
    }
}
