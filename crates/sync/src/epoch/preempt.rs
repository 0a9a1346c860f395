//! Turns: a thread gives its core away between two operations, of its own accord.
//!
//! It does so just before the kernel would take it, at the timer's next [interrupt](tick). Where
//! nobody knows when that is, a turn is shorter than the kernel's. Where threads are taken off
//! their cores at other times (by a timer of high resolution, `HRTICK`, or on a kernel whose cores
//! are interrupted one after the other, `skew_tick=1`), most turns are not given but taken.

use super::{backend, tick};
use crate::primitive::{self, thread, thread_local};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Nanoseconds before the timer's interrupt in which a turn ends: a thread that is given the core
/// then has not had its slice at the interrupt, and keeps it until the next.
const WINDOW: u64 = 300_000;
/// Nanoseconds that a thread has worked by then, at least: less, and the scheduler leaves it its
/// core at the interrupt (EEVDF's base slice for one core).
const MIN_RUN: u64 = 700_000;
/// Within this the kernel says how long a thread has worked, unless others have the core meanwhile.
const MAX_QUERY: Duration = Duration::from_micros(20);
/// Nanoseconds of a turn that ends at no interrupt: less than a scheduler lets a thread work, but
/// most of that, for the kernel takes a turn that is given away for a whole one.
const QUANTUM: u64 = 1_000_000;

thread_local! {
    /// Nanoseconds that this thread had worked when its turn began; 0 if none has.
    static SLICE_START: Cell<u64> = const { Cell::new(0) };
}

/// Gives the core away if the thread has had it for its turn and is not pinned. It ends just before
/// the kernel's, for who asks every few microseconds; else after a [`QUANTUM`].
pub(super) fn yield_before_tick() {
    if backend::is_pinned() {
        return;
    }
    match tick::until_next() {
        Some(left) if left > WINDOW => {}
        Some(_) => yield_after(MIN_RUN),
        None => yield_after(QUANTUM),
    }
}

/// The same for who asks seldom.
pub(super) fn yield_by_clock() {
    if !backend::is_pinned() {
        yield_after(QUANTUM);
    }
}

/// A turn begins: the thread has waited.
pub(super) fn restart() {
    SLICE_START.set(primitive::thread_time().unwrap_or(0));
}

fn yield_after(least: u64) {
    let asked = Instant::now();
    let Some(now) = primitive::thread_time() else {
        return;
    };
    // EEVDF looks how much of a slice is left when it is asked, and ends one that is used up there
    // and then.
    let is_over = asked.elapsed() > MAX_QUERY;
    let began = SLICE_START.replace(now);
    if began == 0 {
        return;
    }
    // The time of a thread begins anew in the child of a `fork`.
    if now.checked_sub(began).is_some_and(|worked| worked < least) {
        SLICE_START.set(began);
        return;
    }
    if !is_over {
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::cpu_hog::{CpuHog, REST, involuntary_switches};

    #[test]
    #[cfg_attr(miri, ignore = "it has no such clock")]
    fn each_turn_begins_where_the_one_before_it_ends_and_none_while_pinned() {
        let limit = Instant::now() + Duration::from_secs(60);
        let mut began = [0; 4];
        for turn in 0..began.len() {
            while SLICE_START.get() == began[turn.saturating_sub(1)] {
                assert!(Instant::now() < limit, "no turn begins: {began:?}");
                yield_before_tick();
            }
            began[turn] = SLICE_START.get();
        }
        assert!(began.is_sorted_by(|a, b| a + MIN_RUN <= *b), "{began:?}");
        let _pinned = super::super::pin();
        let before = SLICE_START.get();
        while primitive::thread_time().unwrap() < before + 2 * QUANTUM {
            yield_before_tick();
            yield_by_clock();
        }
        assert_eq!(SLICE_START.get(), before);
    }

    /// Others on a loaded machine take the core besides: in one of many windows they do not.
    #[test]
    #[cfg_attr(miri, ignore = "it has no such clock")]
    fn a_turn_that_the_kernel_ends_is_not_ended_once_more() {
        const TURNS: i64 = 16;
        let turns = thread::spawn(|| {
            let cpu_hog = CpuHog::here();
            let limit = Instant::now() + Duration::from_secs(60);
            let window = || {
                // Alone, to see when the timer interrupts.
                cpu_hog.spin(false);
                let begin = Instant::now();
                while begin.elapsed() < 20 * REST {
                    tick::until_next();
                }
                cpu_hog.spin(true);
                let before = involuntary_switches();
                for _ in 0..TURNS {
                    let began = SLICE_START.get();
                    while SLICE_START.get() == began {
                        assert!(Instant::now() < limit, "turns are ended twice");
                        yield_before_tick();
                    }
                }
                involuntary_switches() - before
            };
            while window() > TURNS * 9 / 8 {}
        });
        turns.join().unwrap();
    }
}
