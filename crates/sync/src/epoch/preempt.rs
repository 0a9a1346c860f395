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
    let least = match tick::until_next() {
        Some(left) if left > WINDOW => return,
        Some(_) => MIN_RUN,
        None => QUANTUM,
    };
    yield_after(least);
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

/// Yields if the slice has lasted for `least` nanoseconds.
fn yield_after(least: u64) {
    if let Some((now, answered)) = ask()
        && slice_end(now, answered, least) == SliceEnd::Yield
    {
        thread::yield_now();
    }
}

/// The thread's CPU time, if it is known, and how long the kernel took to tell it.
fn ask() -> Option<(u64, Duration)> {
    let asked = Instant::now();
    let now = primitive::thread_time()?;
    Some((now, asked.elapsed()))
}

/// What a thread does that has asked for its run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SliceEnd {
    /// It goes on: it has not run for long enough.
    GoesOn,
    /// It begins a slice without a yield: the kernel has just run other threads, or no slice had
    /// begun.
    Begun,
    /// It yields and begins a slice.
    Yield,
}

/// Decides for a thread whose CPU time is `now`, which the kernel told after `answered`, and which
/// has to run for `least` nanoseconds before it yields.
fn slice_end(now: u64, answered: Duration, least: u64) -> SliceEnd {
    let began = SLICE_START.replace(now);
    if began == 0 {
        return SliceEnd::Begun;
    }
    // CPU time starts anew in the child of a `fork`.
    if now.checked_sub(began).is_some_and(|worked| worked < least) {
        SLICE_START.set(began);
        return SliceEnd::GoesOn;
    }
    // EEVDF checks the slice when it is asked for the run time, and preempts there and then if the
    // slice is used up.
    match answered > MAX_QUERY {
        true => SliceEnd::Begun,
        false => SliceEnd::Yield,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::cpu_hog::CpuHog;

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

    /// With times that are told, not measured: on a loaded machine other threads take the core at
    /// any moment, and no count of switches tells a yield from them.
    #[test]
    fn a_thread_just_preempted_by_the_kernel_does_not_yield_again() {
        let slices = thread::spawn(|| {
            let (soon, late) = (MAX_QUERY, MAX_QUERY + Duration::from_nanos(1));
            let mut now = 5;
            assert_eq!(slice_end(now, soon, MIN_RUN), SliceEnd::Begun, "the first");
            for (answered, end) in [
                (soon, SliceEnd::Yield),
                (late, SliceEnd::Begun),
                (late, SliceEnd::Begun),
                (soon, SliceEnd::Yield),
            ] {
                let began = now;
                // A late answer in the middle of a slice does not end it.
                now += MIN_RUN - 1;
                for answered in [soon, late] {
                    assert_eq!(slice_end(now, answered, MIN_RUN), SliceEnd::GoesOn);
                    assert_eq!(SLICE_START.get(), began);
                }
                now += 1;
                assert_eq!(slice_end(now, answered, MIN_RUN), end);
                assert_eq!(SLICE_START.get(), now, "a slice begins either way");
            }
            // In the child of a fork.
            assert_eq!(slice_end(1, soon, MIN_RUN), SliceEnd::Yield);
            assert_eq!(SLICE_START.get(), 1);
        });
        slices.join().unwrap();
    }

    /// A thread that asks all the time is preempted at the question, more often on a loaded
    /// machine.
    #[test]
    #[cfg_attr(miri, ignore = "it has no such clock")]
    fn an_answer_is_late_where_other_threads_took_the_core() {
        let asking = thread::spawn(|| {
            let cpu_hog = CpuHog::here();
            cpu_hog.spin(true);
            let limit = Instant::now() + Duration::from_secs(60);
            let (mut soon, mut late) = (0, 0);
            while late < 3 {
                assert!(Instant::now() < limit, "{late} late answers in a minute");
                let (_, answered) = ask().expect("Linux tells it");
                let count = if answered > MAX_QUERY {
                    &mut late
                } else {
                    &mut soon
                };
                *count += 1;
            }
            assert!(soon > late, "{soon} answers came at once");
        });
        asking.join().unwrap();
    }
}
