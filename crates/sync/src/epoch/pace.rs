//! How much is retired and not yet dropped, and a bound on it.
//!
//! A reader that stays pinned, because it was taken off its core or has much to do, holds back
//! all that is retired meanwhile. Each thread adds up what it retires and hands it to a common
//! count in batches; a batch leaves the count when it is dropped. A thread that finds
//! the count above [`limit`] waits before its next operation, at most a millisecond and while it is
//! not pinned itself: the reader gets the core and the count falls, or the thread goes on after
//! one batch more. So what waits is bounded by the limit, and grows slowly beyond it.

use super::backend;
use super::{Guard, pin};
use crate::primitive::atomic::{AtomicI64, Ordering};
use crate::primitive::{cores, thread};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::time::Duration;

/// Bytes that a thread retires between two writes to the common count.
const BATCH: usize = 64 << 10;
/// Bytes for each core that may wait without anybody waiting for them: what waits on a core and is
/// then used again should still be in its cache. Eight MiB are promised for two cores; some of what
/// values own besides their own size is not counted.
const LIMIT: i64 = 512 << 10;
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
    static OWN: Cell<usize> = const { Cell::new(0) };
    /// The last batch found too much.
    static OVER: Cell<bool> = const { Cell::new(false) };
}

/// Bytes of this program that are retired and wait for readers; batches of 64 KiB.
pub fn pending() -> u64 {
    PENDING.load(Ordering::Relaxed).max(0).unsigned_abs()
}

/// Called between operations, without a lock: waits a little if readers hold back too much.
#[inline]
pub fn pace() {
    if OVER.get() {
        wait(limit());
    }
}

/// For work in the background that retires much, between its parts: waits a little while half of
/// what may wait does, so that it is the first to wait and not those who work in the foreground.
pub fn give_way() {
    wait(limit() / 2);
}

/// `bytes` were retired under `g`.
#[inline]
pub(super) fn retired(bytes: usize, g: &Guard) {
    let own = OWN.get() + bytes;
    OWN.set(own);
    if own >= BATCH {
        send(g);
    }
}

/// Hands the batch to the common count.
#[cold]
pub(super) fn send(g: &Guard) {
    let bytes = OWN.take() as i64;
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
    backend::close_soon();
    if now > limit() {
        OVER.set(true);
    }
}

/// Bytes that may wait.
fn limit() -> i64 {
    LIMIT * cores() as i64
}

#[cold]
fn wait(most: i64) {
    // Whoever is pinned waits for itself; its next operation looks again.
    if backend::is_pinned() {
        return;
    }
    OVER.set(false);
    for turn in 0..YIELDS + NAPS {
        if turn == YIELDS + 2 {
            // Those that could come for what is theirs have had their turn.
            backend::free_left();
        }
        loop {
            let before = PENDING.load(Ordering::Relaxed);
            if before <= most {
                return;
            }
            pin().flush();
            if PENDING.load(Ordering::Relaxed) >= before {
                break;
            }
        }
        // A reader that was taken off its core while it was pinned may get this one.
        match turn < YIELDS {
            true => thread::yield_now(),
            false => thread::sleep(NAP),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::retire;
    use std::time::Instant;

    /// One test: the count is the program's.
    #[test]
    fn a_pinned_reader_slows_down_who_retires_and_holds_nobody_for_ever() {
        let batch = || {
            let g = pin();
            for _ in 0..BATCH / 4096 {
                retire(Box::new([0u8; 4096]), &g);
            }
        };
        let reader = pin();
        let paced = thread::spawn(move || {
            while pending() <= limit() as u64 {
                batch();
                pace();
            }
            let start = Instant::now();
            for _ in 0..10 {
                batch();
                pace();
            }
            start.elapsed()
        });
        let paced = paced.join().unwrap();
        assert!(paced >= NAP * NAPS * 9, "ten batches in {paced:?}");
        let held = pending();
        assert!(held > limit() as u64, "{held} bytes are held back");
        let start = Instant::now();
        // This thread is the reader, who is not asked to wait for itself.
        give_way();
        let beside = thread::spawn(move || {
            give_way();
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
