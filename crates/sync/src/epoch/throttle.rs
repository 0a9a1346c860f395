//! How much is retired and not yet dropped, and a bound on it.
//!
//! A reader that stays pinned, because it was taken off its core or has much to do, holds back
//! all that is retired meanwhile. Each thread adds up what it retires and hands it to a common
//! count in batches; a batch leaves the count when it is dropped. Three things keep that small, all
//! between operations, where a thread is not pinned:
//!
//! - Where a part of what may wait does, threads that retire give their cores away of their own
//!   accord just before the kernel takes them in the middle of an operation (at the timer's next
//!   interrupt, [`preempt`]): who is not pinned while he is off his core holds nobody back.
//! - A thread that comes near to the [`limit`] with a batch gives its core away once, for a reader
//!   that was taken off it all the same.
//! - A thread that finds the count above the limit waits before its next operation, at most a
//!   millisecond: the reader gets the core and the count falls, or the thread goes on after one
//!   batch more. So what waits is bounded by the limit, and grows slowly beyond it.

use super::backend;
use super::{Guard, pin, preempt, tick};
use crate::primitive::atomic::{AtomicI64, Ordering};
use crate::primitive::{cores, thread};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::time::Duration;

/// Bytes that a thread retires between two writes to the common count.
const BATCH: usize = 64 << 10;
/// Bytes for each core that may wait without anybody waiting for them: what waits on a core and is
/// then used again should still be in its cache.
const LIMIT: i64 = 768 << 10;
/// Bytes for each core below the limit from which on who has retired a batch gives the core away
/// once: a reader that was taken off it comes back before those on other cores have to wait.
const YIELD_MARGIN: i64 = 384 << 10;
/// The most for each core, with a batch for each thread: a thread that is off its core has one,
/// which no reader holds back. Eight MiB are promised for two cores; some of what values own
/// besides their own size is not counted.
const LIMIT_MAX: i64 = 3 << 20;
/// Bytes for each core from which on threads take turns.
const PREEMPT_FROM: i64 = 128 << 10;
/// Calls between two looks at the time while threads take turns: some ten microseconds.
const CALLS_PER_CHECK: u32 = 32;
/// The same where calls take so long that the interrupt would be missed.
const CALLS_PER_CHECK_SLOW: u32 = 2;
/// Times that one wait gives the core away, before it sleeps.
const YIELDS: u32 = 6;
/// Naps of one wait.
const NAPS: u32 = 10;
/// Length of a nap; the kernel adds about as much again.
const NAP: Duration = Duration::from_micros(50);

/// Bytes in batches that are not yet dropped. Relaxed throughout: a statistic, it orders nothing.
static PENDING: CachePadded<AtomicI64> = CachePadded::new(AtomicI64::new(0));

thread_local! {
    /// Bytes that this thread has retired since its last batch.
    static UNCOUNTED: Cell<usize> = const { Cell::new(0) };
    /// Operations until this thread looks whether to wait or to end its turn; 0 for never.
    static CALLS_LEFT: Cell<u32> = const { Cell::new(0) };
    /// It has handed over a batch since, and found so much that it may have to wait.
    static BATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Bytes of this program that are retired and wait for readers; batches of 64 KiB.
pub fn pending() -> u64 {
    PENDING.load(Ordering::Relaxed).max(0).unsigned_abs()
}

/// Called between operations, without a lock: waits a little if readers hold back too much.
#[inline]
pub fn throttle() {
    let left = CALLS_LEFT.get();
    if left > 0 {
        CALLS_LEFT.set(left - 1);
        if left == 1 {
            check();
        }
    }
}

#[cold]
fn check() {
    if backend::is_pinned() {
        // Whoever is pinned waits for itself; its next operation looks again.
        CALLS_LEFT.set(1);
        return;
    }
    if BATCHED.get() && wait_or_yield(limit()) {
        preempt::restart();
    } else {
        preempt::yield_before_tick();
    }
    // Now, because the wait hands over what is left of a batch as well.
    BATCHED.set(false);
    let goes_on = is_high(PENDING.load(Ordering::Relaxed));
    CALLS_LEFT.set(match goes_on {
        false => 0,
        true if tick::samples_are_dense() => CALLS_PER_CHECK,
        true => CALLS_PER_CHECK_SLOW,
    });
}

/// For work in the background that retires much, between its parts: waits a little while half of
/// what may wait does, so that it is the first to wait and not those who work in the foreground.
pub fn throttle_background() {
    if !wait(limit() / 2) && is_high(PENDING.load(Ordering::Relaxed)) {
        preempt::yield_by_clock();
    }
}

/// `bytes` were retired under `g`.
#[inline]
pub(super) fn account(bytes: usize, g: &Guard) {
    let own = UNCOUNTED.get() + bytes;
    UNCOUNTED.set(own);
    if own >= BATCH {
        flush_batch(g);
    }
}

/// Hands the batch to the common count.
#[cold]
pub(super) fn flush_batch(g: &Guard) {
    let bytes = UNCOUNTED.take() as i64;
    if bytes == 0 {
        return;
    }
    let now = PENDING.fetch_add(bytes, Ordering::Relaxed) + bytes;
    // Behind all that it stands for: the collector keeps the order of one thread.
    // SAFETY: the closure owns all that it uses.
    unsafe {
        g.0.defer(move || {
            PENDING.fetch_sub(bytes, Ordering::Relaxed);
        });
    }
    backend::seal_soon();
    if is_high(now) {
        CALLS_LEFT.set(1);
        BATCHED.set(true);
    }
}

fn is_high(pending: i64) -> bool {
    pending > PREEMPT_FROM * cores() as i64
}

/// Bytes that may wait.
fn limit() -> i64 {
    let (cores, threads) = (cores() as i64, backend::threads());
    (LIMIT * cores + BATCH as i64 * threads).min(LIMIT_MAX * cores)
}

/// Waits above the limit, and steps back once near to it; whether that was so.
fn wait_or_yield(limit: i64) -> bool {
    wait(limit) || yield_once(limit - YIELD_MARGIN * cores() as i64)
}

/// Gives the core away once if more than `most` bytes wait; whether that was so.
fn yield_once(most: i64) -> bool {
    let is_due = !free_until(most);
    if is_due {
        thread::yield_now();
    }
    is_due
}

/// Frees what can be freed while more than `most` bytes wait; whether no more do then.
fn free_until(most: i64) -> bool {
    loop {
        let before = PENDING.load(Ordering::Relaxed);
        if before <= most {
            return true;
        }
        pin().flush();
        if PENDING.load(Ordering::Relaxed) >= before {
            return false;
        }
    }
}

/// Waits a little while more than `most` bytes do; whether that was so.
#[cold]
fn wait(most: i64) -> bool {
    if backend::is_pinned() || PENDING.load(Ordering::Relaxed) <= most {
        return false;
    }
    for preempt in 0..YIELDS + NAPS {
        if preempt == YIELDS + 2 {
            // Those that could come for what is theirs have had their turn.
            backend::free_abandoned();
        }
        if free_until(most) {
            return true;
        }
        // A reader that was taken off its core while it was pinned may get this one.
        match preempt < YIELDS {
            true => thread::yield_now(),
            false => thread::sleep(NAP),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::cpu_hog::{CpuHog, involuntary_switches};
    use crate::epoch::retire;
    use std::time::Instant;

    /// One test: the count is the program's.
    #[test]
    #[cfg_attr(miri, ignore = "it has no such clock")]
    fn a_pinned_reader_has_others_take_turns_step_back_then_wait_and_holds_nobody_for_ever() {
        let batch = || {
            let g = pin();
            for _ in 0..BATCH / 4096 {
                retire(Box::new([0u8; 4096]), &g);
            }
        };
        let reader = pin();
        let in_turn = thread::spawn(move || {
            while CALLS_LEFT.get() != 1 {
                batch();
            }
            {
                let _pinned = pin();
                throttle();
                assert_eq!(
                    CALLS_LEFT.get(),
                    1,
                    "cores are given away between operations"
                );
            }
            throttle();
            let next = CALLS_LEFT.get();
            assert!(
                next == CALLS_PER_CHECK || next == CALLS_PER_CHECK_SLOW,
                "it goes on to check: {next}"
            );
            for _ in 1..next {
                throttle();
            }
            assert_eq!(CALLS_LEFT.get(), 1);
            throttle();
            let next = CALLS_LEFT.get();
            assert!(
                next == CALLS_PER_CHECK || next == CALLS_PER_CHECK_SLOW,
                "while too much waits: {next}"
            );
        });
        in_turn.join().unwrap();
        let steps_back = thread::spawn(move || {
            let cpu_hog = CpuHog::here();
            cpu_hog.spin(true);
            while PENDING.load(Ordering::Relaxed) <= limit() - YIELD_MARGIN * cores() as i64 {
                batch();
            }
            let (before, mut batches) = (involuntary_switches(), 0);
            // Below the limit, where nobody waits.
            while pending() + 2 * BATCH as u64 <= limit() as u64 {
                batch();
                throttle();
                batches += 1;
            }
            let involuntary_switches = involuntary_switches() - before;
            assert!(
                batches > 0 && involuntary_switches * 3 >= batches,
                "it loses its core {involuntary_switches} times in {batches} batches"
            );
        });
        steps_back.join().unwrap();
        let throttled = thread::spawn(move || {
            // More than other tests have waiting, or the limit grows for their threads.
            while pending() <= limit() as u64 + 32 * BATCH as u64 {
                batch();
                throttle();
            }
            let start = Instant::now();
            for _ in 0..10 {
                batch();
                throttle();
            }
            start.elapsed()
        });
        let throttled = throttled.join().unwrap();
        assert!(throttled >= NAP * NAPS * 9, "ten batches in {throttled:?}");
        let held = pending();
        assert!(held > limit() as u64, "{held} bytes are held back");
        let start = Instant::now();
        // This thread is the reader, who is not asked to wait for itself.
        throttle_background();
        let beside = thread::spawn(move || {
            throttle_background();
            start.elapsed()
        });
        let beside = beside.join().unwrap();
        assert!(beside >= NAP * NAPS, "it gives way for {beside:?}");
        drop(reader);
        let limit = Instant::now() + Duration::from_secs(60);
        while pending() > 0 {
            pin().flush();
            assert!(
                Instant::now() < limit,
                "{} bytes are never dropped",
                pending()
            );
        }
    }
}
