//! The calling thread's part in the collector: its guards, its bags, and when it works.
//!
//! What a thread retires it gathers in a bag and frees itself, so that memory stays with the core
//! that uses it. Others free a bag only if its thread has ended, or was away for long: every
//! so many pins a thread looks for such bags, also one that only reads.
//!
//! Freeing runs code of others, so it is done where that is expected: when a thread is pinned no
//! longer.

use super::collector::Collector;
use super::deferred::Deferred;
use super::local::Local;
use crate::primitive::atomic::{AtomicI64, Ordering};
use crate::primitive::thread;
use crossbeam_utils::CachePadded;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Things retired between two looks at what is due, and in a bag that is closed at one; what is
/// retired under one guard stays together, so it may be more.
const BAG_SIZE: usize = 64;
/// Pins of a thread between two sweeps through what others have left.
const SWEEP_INTERVAL: u32 = 4096;
/// How long a bag waits for its thread: longer than it takes 24 others to have a core in turn, each
/// for the kernel's turn of 4 ms.
const STEAL_AFTER: Duration = Duration::from_millis(100);
/// Bags of others that one sweep frees: whoever sweeps does it on the way to something else.
const MAX_STOLEN: usize = 4;

static COLLECTOR: Collector = Collector::new();

/// Threads that take part. Relaxed: a figure by itself.
static THREADS: CachePadded<AtomicI64> = CachePadded::new(AtomicI64::new(0));

/// A pinned thread; not for another one.
pub(super) struct Pin(PhantomData<*mut ()>);

/// What a pin looks at. Needs no destructor, so it is there as long as the thread is.
struct ThreadState {
    /// Its place in the collector, from the first pin on.
    me: Cell<Option<&'static Local>>,
    /// Guards.
    depth: Cell<usize>,
    /// Outermost guards ever made.
    pins: Cell<u32>,
    /// There is something to look at.
    needs_collect: Cell<bool>,
}

/// What a thread has retired.
#[derive(Default)]
struct LocalGarbage {
    open: RefCell<Vec<Deferred>>,
    /// The room of a bag that was emptied, for the next one.
    spare: Cell<Vec<Deferred>>,
    /// It is at work: what that retires in turn waits for the next look.
    is_busy: Cell<bool>,
    /// The bag is to be closed though it is not full.
    seal_early: Cell<bool>,
    /// The epoch at the last look.
    last_epoch: Cell<u64>,
    /// Pins at the last sweep.
    last_sweep: Cell<u32>,
}

/// Ends a time of being busy, also when what is freed panics.
struct BusyGuard<'a>(&'a Cell<bool>);

thread_local! {
    static THREAD: ThreadState = const {
        ThreadState {
            me: Cell::new(None),
            depth: Cell::new(0),
            pins: Cell::new(0),
            needs_collect: Cell::new(false),
        }
    };
    static GARBAGE: LocalGarbage = LocalGarbage::default();
}

#[inline]
pub(super) fn pin() -> Pin {
    THREAD.with(|thread_state| {
        let depth = thread_state.depth.get();
        if depth == 0 {
            thread_state.pin();
        }
        thread_state.depth.set(depth + 1);
    });
    Pin(PhantomData)
}

/// Whether this thread has a guard.
pub(super) fn is_pinned() -> bool {
    THREAD.with(|thread_state| thread_state.depth.get() > 0)
}

/// Threads that have pinned and not ended.
pub(super) fn threads() -> i64 {
    THREADS.load(Ordering::Relaxed)
}

/// Frees what other threads have not come for, for want of room.
pub(super) fn free_abandoned() {
    let _ = GARBAGE.try_with(|garbage| {
        if let Some(_busy) = garbage.try_begin() {
            free_others(usize::MAX, Duration::ZERO);
        }
    });
}

/// Waits until every guard that exists now is gone; needs no bag, which others may have to free.
pub(super) fn synchronize() {
    let stamp = COLLECTOR.stamp();
    while !COLLECTOR.is_expired(stamp) {
        COLLECTOR.advance();
        thread::yield_now();
    }
}

/// Has the thread close its bag when it is pinned no longer.
pub(super) fn seal_soon() {
    let _ = GARBAGE.try_with(|garbage| garbage.seal_early.set(true));
    THREAD.with(|thread_state| thread_state.needs_collect.set(true));
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        THREAD.with(|thread_state| {
            let depth = thread_state.depth.get() - 1;
            thread_state.depth.set(depth);
            if depth == 0 {
                thread_state.unpin();
            }
        });
    }
}

impl Pin {
    pub(super) fn flush(&self) {
        THREAD.with(|thread_state| {
            let _ = GARBAGE.try_with(|garbage| garbage.flush(thread_state));
        });
    }

    pub(super) fn repin(&mut self) {
        THREAD.with(|thread_state| {
            if let (1, Some(me)) = (thread_state.depth.get(), thread_state.me.get()) {
                COLLECTOR.pin(me);
            }
        });
    }

    /// # Safety
    ///
    /// As [`super::Pin::defer`].
    #[inline]
    pub(super) unsafe fn defer(&self, work: impl FnOnce() + 'static) {
        // SAFETY: the caller promises that `work` may run later on any thread.
        let mut work = Some(unsafe { Deferred::new(work) });
        let kept = GARBAGE.try_with(|garbage| {
            let mut open = garbage.open.borrow_mut();
            open.extend(work.take());
            if open.len().is_multiple_of(BAG_SIZE) {
                THREAD.with(|thread_state| thread_state.needs_collect.set(true));
            }
        });
        if let (Err(_), Some(work)) = (kept, work) {
            seal_alone(work);
        }
    }
}

/// The thread is ending and has no bag any more.
#[cold]
fn seal_alone(work: Deferred) {
    let me = THREAD.with(|thread_state| thread_state.me.get());
    let me = me.expect("a guard has a participant");
    COLLECTOR.seal(me, vec![work], Instant::now());
}

/// Frees at most so many bags of others.
fn free_others(most: usize, patience: Duration) {
    let now = Instant::now();
    let left = std::iter::from_fn(|| COLLECTOR.take_abandoned(now, patience));
    left.take(most)
        .for_each(|mut deferred| run_all(&mut deferred));
}

/// Does all of it. A panic is passed on when the rest is done.
fn run_all(deferred: &mut Vec<Deferred>) {
    let mut panicked = None;
    for work in deferred.drain(..) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work.run())) {
            panicked.get_or_insert(panic);
        }
    }
    if let Some(panic) = panicked {
        resume_unwind(panic);
    }
}

impl ThreadState {
    #[inline]
    fn pin(&self) {
        COLLECTOR.pin(self.me.get().unwrap_or_else(|| self.join()));
        let pins = self.pins.get().wrapping_add(1);
        self.pins.set(pins);
        if pins.is_multiple_of(SWEEP_INTERVAL) {
            self.needs_collect.set(true);
        }
    }

    #[inline]
    fn unpin(&self) {
        if let Some(me) = self.me.get() {
            me.unpin();
        }
        if self.needs_collect.get() {
            self.collect();
        }
    }

    #[cold]
    fn join(&self) -> &'static Local {
        let me = COLLECTOR.join();
        self.me.set(Some(me));
        THREADS.fetch_add(1, Ordering::Relaxed);
        // At the end of this guard a thread does its part for those that ended before it; one that
        // is ending itself has no bags any more, and leaves.
        let _ = GARBAGE.try_with(|garbage| {
            garbage
                .last_sweep
                .set(self.pins.get().wrapping_sub(SWEEP_INTERVAL))
        });
        self.needs_collect.set(true);
        me
    }

    #[cold]
    fn collect(&self) {
        if GARBAGE.try_with(|garbage| garbage.collect(self)).is_err() {
            self.release();
        }
    }

    /// The thread ends.
    fn release(&self) {
        self.needs_collect.set(false);
        if let Some(me) = self.me.take() {
            me.release();
            THREADS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl LocalGarbage {
    /// Closes the bag if it is full, frees what is due, and sweeps now and then.
    fn collect(&self, thread_state: &ThreadState) {
        let (Some(me), Some(_busy)) = (thread_state.me.get(), self.try_begin()) else {
            return;
        };
        thread_state.needs_collect.set(false);
        if self.seal_early.get() || self.open.borrow().len() >= BAG_SIZE {
            self.seal(me);
        }
        // Where others have ended epochs since the last look, they do enough of it.
        if me.has_bags() && COLLECTOR.epoch() == self.last_epoch.get() {
            COLLECTOR.advance();
        }
        self.last_epoch.set(COLLECTOR.epoch());
        self.free_expired(me);
        if thread_state.pins.get().wrapping_sub(self.last_sweep.get()) >= SWEEP_INTERVAL {
            self.sweep(thread_state);
        }
        // What that has retired: the thread may not come again, so it is for others too.
        if self.seal_early.get() || self.open.borrow().len() >= BAG_SIZE {
            self.seal(me);
        }
    }

    /// Closes the bag, ends the epoch if that may be, and frees what is due.
    fn flush(&self, thread_state: &ThreadState) {
        let (Some(me), Some(_busy)) = (thread_state.me.get(), self.try_begin()) else {
            // It is at work, and looks once more when that is done.
            self.seal_early.set(true);
            thread_state.needs_collect.set(true);
            return;
        };
        self.seal(me);
        COLLECTOR.advance();
        self.free_expired(me);
        self.sweep(thread_state);
    }

    /// `None` if the thread is at work already.
    fn try_begin(&self) -> Option<BusyGuard<'_>> {
        let was_busy = self.is_busy.replace(true);
        (!was_busy).then(|| BusyGuard(&self.is_busy))
    }

    fn seal(&self, me: &Local) {
        self.seal_early.set(false);
        if self.open.borrow().is_empty() {
            return;
        }
        let mut empty = self.spare.take();
        empty.reserve(BAG_SIZE);
        COLLECTOR.seal(me, self.open.replace(empty), Instant::now());
    }

    /// Frees the bags of this thread that are due.
    fn free_expired(&self, me: &Local) {
        while let Some(mut deferred) = COLLECTOR.take_expired(me) {
            run_all(&mut deferred);
            self.spare.set(deferred);
        }
    }

    /// Sees to it that what others have left is freed in the end.
    fn sweep(&self, thread_state: &ThreadState) {
        self.last_sweep.set(thread_state.pins.get());
        if COLLECTOR.has_waiting_bags() {
            COLLECTOR.advance();
        }
        free_others(MAX_STOLEN, STEAL_AFTER);
    }
}

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The thread ends: what it has retired is for others. It frees nothing any more: that runs code
/// which may need what the thread has lost already.
impl Drop for LocalGarbage {
    fn drop(&mut self) {
        THREAD.with(|thread_state| {
            if let Some(me) = thread_state.me.get() {
                self.seal(me);
            }
            match thread_state.depth.get() {
                0 => thread_state.release(),
                // The last guard sees to it.
                _ => thread_state.needs_collect.set(true),
            }
        });
    }
}

impl std::fmt::Debug for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("pinned")
    }
}

#[cfg(test)]
mod tests;
