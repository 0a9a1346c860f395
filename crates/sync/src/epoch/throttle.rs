//! Back-pressure of reclamation: counts what is retired and not yet dropped, and bounds it.
//!
//! A reader that stays pinned, because it was preempted or has much to do, holds back all that is
//! retired meanwhile. Each thread adds up the bytes that it retires and adds them to a global count
//! in batches; a batch leaves the count when it is dropped. Three measures keep the count small.
//! All act between operations, where the thread is not pinned:
//!
//! - While a part of the limit waits, threads that retire yield voluntarily just before the kernel
//!   would preempt them in the middle of an operation (at the next timer tick, [`preempt`]). A
//!   thread that is not pinned while it is off its core holds nobody back.
//! - A thread that comes near to the [`limit`] with a batch yields once, for a reader that was
//!   preempted all the same.
//! - A thread that finds the count above the limit waits before its next operation, at most a
//!   millisecond. The reader gets the core and the count falls, or the thread goes on after one
//!   batch more. So the count is bounded by the limit, and grows slowly beyond it.

use super::backend;
use super::{Guard, pin, preempt, tick};
use crate::primitive::atomic::{AtomicBool, AtomicI64, Ordering};
use crate::primitive::{cores, thread};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::time::Duration;

/// Bytes that a thread retires between two writes to the global count.
const BATCH: usize = 64 << 10;
/// Bytes of one value that are much: a file that was removed. An idle thread does not come by to
/// free them later.
const MUCH: i64 = 1 << 20;
/// Bytes per core that may wait before threads are throttled: memory that waits on a core and is
/// then used again should still be in its cache.
const LIMIT: i64 = 768 << 10;
/// Bytes per core below the limit from which on a thread that has retired a batch yields once: a
/// preempted reader comes back before threads on other cores have to wait.
const YIELD_MARGIN: i64 = 384 << 10;
/// The largest limit per core, including a batch for each thread: a thread that is off its core has
/// one, which no reader holds back. Eight MiB are promised for two cores; some of what values own
/// besides their own size is not counted.
const LIMIT_MAX: i64 = 3 << 20;
/// Bytes per core from which on threads yield before the tick.
const PREEMPT_FROM: i64 = 128 << 10;
/// Calls between two looks at the clock in that state: some ten microseconds.
const CALLS_PER_CHECK: u32 = 32;
/// Calls between two looks at the clock where calls take so long that the tick would be missed.
const CALLS_PER_CHECK_SLOW: u32 = 2;
/// Flushes of one look for what idle threads have left.
const FLUSHES: u32 = 8;
/// Yields of one wait, before it sleeps.
const YIELDS: u32 = 6;
/// Sleeps of one wait.
const NAPS: u32 = 10;
/// Length of a sleep; the kernel adds about as much again.
const NAP: Duration = Duration::from_micros(50);

/// Bytes in batches that are not yet dropped. Relaxed throughout: a statistic, it orders nothing.
static PENDING: CachePadded<AtomicI64> = CachePadded::new(AtomicI64::new(0));

thread_local! {
    /// Bytes that this thread has retired since its last batch.
    static UNCOUNTED: Cell<usize> = const { Cell::new(0) };
    /// Calls until this thread checks whether to wait or to yield; 0 for never.
    static CALLS_LEFT: Cell<u32> = const { Cell::new(0) };
    /// This thread has counted a batch since the last check, and the count was high.
    static BATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Bytes of this process that are retired and wait for readers; batches of 64 KiB.
pub fn pending() -> u64 {
    PENDING.load(Ordering::Relaxed).max(0).unsigned_abs()
}

/// Whether threads yield between operations. Written by [`yield_between_operations`].
static VOLUNTARY: AtomicBool = AtomicBool::new(false);

/// Lets the threads of this program yield between two operations, just before the kernel would
/// preempt them, while much memory waits to be freed. Off until a program asks.
///
/// A thread that is preempted inside of an operation holds back what all others retire. With more
/// threads than cores this is worth asking for: 16 threads on two cores kept 0.94 of the rate at
/// which two create files, 0.79 with yields after a fixed time and 0.78 without any (by CPU time,
/// medians; an AMD EPYC, Linux 6.18, `cargo xtask bench seeds --only chinner`). Memory is bounded
/// either way: a thread that finds more than the limit waits.
pub fn yield_between_operations(on: bool) {
    // Relaxed: a setting of its own.
    VOLUNTARY.store(on, Ordering::Relaxed);
}

/// Frees what has expired on any thread. For a thread that looks now and then, because threads that
/// have fallen idle do not: of each at most what one guard retired, or a bag.
pub fn free_leftovers() {
    // Each flush advances the epoch once, and frees a few bags of threads that were away.
    for _ in 0..FLUSHES {
        if pending() == 0 {
            return;
        }
        pin().flush();
    }
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
        // A pinned thread would wait for itself; its next call checks again.
        CALLS_LEFT.set(1);
        return;
    }
    // Relaxed: a setting of its own.
    let yields = VOLUNTARY.load(Ordering::Relaxed);
    let limit = limit();
    if BATCHED.get() && (wait(limit) || yields && yield_once(limit - YIELD_MARGIN * cores() as i64))
    {
        preempt::restart();
    } else if yields {
        preempt::yield_before_tick();
    }
    // Cleared here, because the wait counts the rest of a batch too.
    BATCHED.set(false);
    let goes_on = yields && is_high(PENDING.load(Ordering::Relaxed));
    CALLS_LEFT.set(match goes_on {
        false => 0,
        true if tick::samples_are_dense() => CALLS_PER_CHECK,
        true => CALLS_PER_CHECK_SLOW,
    });
}

/// For background work that retires much, between its parts: waits a little while half of the limit
/// waits, so that background work is throttled before foreground work.
pub fn throttle_background() {
    if !wait(limit() / 2) && is_high(PENDING.load(Ordering::Relaxed)) {
        preempt::yield_by_clock();
    }
}

/// Accounts for `bytes` that were retired under `g`.
#[inline]
pub(super) fn account(bytes: usize, g: &Guard) {
    let bytes = UNCOUNTED.get() + bytes;
    UNCOUNTED.set(bytes);
    if bytes >= BATCH {
        flush_batch(g);
    }
}

/// Adds this thread's bytes to the global count.
#[cold]
pub(super) fn flush_batch(g: &Guard) {
    let bytes = UNCOUNTED.take() as i64;
    if bytes == 0 {
        return;
    }
    let now = PENDING.fetch_add(bytes, Ordering::Relaxed) + bytes;
    // Deferred behind all values that it stands for: the collector keeps the order of one thread.
    // SAFETY: the closure owns all that it uses.
    unsafe {
        g.0.defer(move || {
            PENDING.fetch_sub(bytes, Ordering::Relaxed);
        });
    }
    match bytes >= MUCH {
        true => backend::free_soon(),
        false => backend::seal_soon(),
    }
    if is_high(now) {
        CALLS_LEFT.set(1);
        BATCHED.set(true);
    }
}

fn is_high(pending: i64) -> bool {
    pending > PREEMPT_FROM * cores() as i64
}

/// The bytes that may wait.
fn limit() -> i64 {
    let (cores, threads) = (cores() as i64, backend::threads());
    (LIMIT * cores + BATCH as i64 * threads).min(LIMIT_MAX * cores)
}

/// Yields once if more than `most` bytes wait. True if it did.
fn yield_once(most: i64) -> bool {
    let is_over = !free_until(most);
    if is_over {
        thread::yield_now();
    }
    is_over
}

/// Frees expired bags while more than `most` bytes wait. True if no more wait at the end.
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

/// Waits a little while more than `most` bytes wait. True if it had to.
#[cold]
fn wait(most: i64) -> bool {
    if backend::is_pinned() || PENDING.load(Ordering::Relaxed) <= most {
        return false;
    }
    for step in 0..YIELDS + NAPS {
        if step == YIELDS + 2 {
            // Threads that could free their own bags have had time to.
            backend::free_abandoned();
        }
        if free_until(most) {
            return true;
        }
        // A reader that was preempted while pinned may get this core.
        match step < YIELDS {
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

    /// One test, because the count is global.
    #[test]
    #[cfg_attr(miri, ignore = "it has no such clock")]
    fn a_pinned_reader_makes_others_yield_then_wait_but_never_for_ever() {
        let batch = || {
            let g = pin();
            for _ in 0..BATCH / 4096 {
                retire(Box::new([0u8; 4096]), &g);
            }
        };
        yield_between_operations(true);
        let reader = pin();
        let yielding = thread::spawn(move || {
            while CALLS_LEFT.get() != 1 {
                batch();
            }
            {
                let _pinned = pin();
                throttle();
                assert_eq!(
                    CALLS_LEFT.get(),
                    1,
                    "a thread yields only between operations"
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
        yielding.join().unwrap();
        let near_limit = thread::spawn(move || {
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
                "it is switched out {involuntary_switches} times in {batches} batches"
            );
        });
        near_limit.join().unwrap();
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
        // This thread is the reader, which must not wait for itself.
        throttle_background();
        let beside = thread::spawn(move || {
            throttle_background();
            start.elapsed()
        });
        let beside = beside.join().unwrap();
        assert!(beside >= NAP * NAPS, "background work waits for {beside:?}");
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
