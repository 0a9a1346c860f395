//! Voluntary preemption: a thread yields between two operations, just before the kernel would
//! preempt it.
//!
//! The kernel preempts at the timer's next [`tick`]. Where nobody knows when that is, a thread
//! yields after a fixed run time, shorter than the kernel's slice. Where the kernel preempts at
//! other times (by a timer of high resolution, `HRTICK`, or on a kernel whose cores tick one after
//! the other, `skew_tick=1`), most threads are preempted before they yield.

use super::{backend, tick};
use crate::primitive::{self, thread, thread_local};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Nanoseconds before the tick in which a thread yields. The next thread has then not used up its
/// slice at the tick, and keeps the core until the one after.
const WINDOW: u64 = 300_000;
/// The least run time before a yield, in nanoseconds: with less, the scheduler leaves the thread
/// its core at the tick (EEVDF's base slice for one core).
const MIN_RUN: u64 = 700_000;
/// The kernel tells the run time within this time, unless it runs other threads meanwhile.
const MAX_QUERY: Duration = Duration::from_micros(20);
/// Run time in nanoseconds after which a thread yields where no tick is known. Less than a
/// scheduler lets a thread run, but most of that, because the kernel charges a yield as a whole
/// slice.
const QUANTUM: u64 = 1_000_000;

thread_local! {
    /// The thread's CPU time when its slice began, in nanoseconds; 0 if none has.
    static SLICE_START: Cell<u64> = const { Cell::new(0) };
}

/// Yields if the thread has run long enough and is not pinned: just before the tick, for a caller
/// that asks every few microseconds; else after a [`QUANTUM`].
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

/// Yields after a [`QUANTUM`], for a caller that asks seldom.
pub(super) fn yield_by_clock() {
    if !backend::is_pinned() {
        yield_after(QUANTUM);
    }
}

/// Starts a new slice: the thread has waited.
pub(super) fn restart() {
    SLICE_START.set(primitive::thread_time().unwrap_or(0));
}

fn yield_after(least: u64) {
    let asked = Instant::now();
    let Some(now) = primitive::thread_time() else {
        return;
    };
    // EEVDF checks the slice when it is asked for the run time, and preempts there and then if the
    // slice is used up.
    let was_preempted = asked.elapsed() > MAX_QUERY;
    let began = SLICE_START.replace(now);
    if began == 0 {
        return;
    }
    // CPU time starts anew in the child of a `fork`.
    if now.checked_sub(began).is_some_and(|worked| worked < least) {
        SLICE_START.set(began);
        return;
    }
    if !was_preempted {
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::cpu_hog::{CpuHog, REST, involuntary_switches};

    #[test]
    #[cfg_attr(miri, ignore = "it has no such clock")]
    fn slices_are_contiguous_and_a_pinned_thread_never_yields() {
        let limit = Instant::now() + Duration::from_secs(60);
        let mut began = [0; 4];
        for slice in 0..began.len() {
            while SLICE_START.get() == began[slice.saturating_sub(1)] {
                assert!(Instant::now() < limit, "no slice begins: {began:?}");
                yield_before_tick();
            }
            began[slice] = SLICE_START.get();
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

    /// On a loaded machine other threads take the core too; in one of many windows they do not.
    #[test]
    #[cfg_attr(miri, ignore = "it has no such clock")]
    fn a_thread_just_preempted_by_the_kernel_does_not_yield_again() {
        const SLICES: i64 = 16;
        let slices = thread::spawn(|| {
            let cpu_hog = CpuHog::here();
            let limit = Instant::now() + Duration::from_secs(60);
            let window = || {
                // Alone, to see the ticks.
                cpu_hog.spin(false);
                let begin = Instant::now();
                while begin.elapsed() < 20 * REST {
                    tick::until_next();
                }
                cpu_hog.spin(true);
                let before = involuntary_switches();
                for _ in 0..SLICES {
                    let began = SLICE_START.get();
                    while SLICE_START.get() == began {
                        assert!(
                            Instant::now() < limit,
                            "threads yield right after a preemption"
                        );
                        yield_before_tick();
                    }
                }
                involuntary_switches() - before
            };
            while window() > SLICES * 9 / 8 {}
        });
        slices.join().unwrap();
    }
}
