//! The per-thread side of the collector: guards, the open bag, and when to collect.
//!
//! A thread gathers what it retires in a bag and frees it itself, so that memory stays with the
//! core that uses it. Other threads free a bag only if its thread has exited or was away for long.
//! Every [`SWEEP_INTERVAL`] pins a thread looks for such bags, also a thread that only reads.
//!
//! Freeing runs destructors of arbitrary types, so it happens only when the thread is no longer
//! pinned.

use super::collector::{Collector, GRACE};
use super::deferred::Deferred;
use super::local::Local;
use crate::primitive::atomic::{AtomicI64, Ordering};
use crate::primitive::{cpu, thread};
use crossbeam_utils::CachePadded;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Values retired between two collections, and the size at which a bag is sealed. What is retired
/// under one guard stays together, so a bag may be larger.
const BAG_SIZE: usize = 64;
/// Pins of a thread between two looks at what it does now and then.
const LOOK_INTERVAL: u32 = 64;
/// Pins of a thread between two sweeps for abandoned bags.
const SWEEP_INTERVAL: u32 = 64 * LOOK_INTERVAL;
/// How long a bag waits for its thread: longer than 24 other threads take to run on its core one
/// after the other, each for the kernel's slice of 4 ms.
const STEAL_AFTER: Duration = Duration::from_millis(100);
/// Looks at the guards of others before a thread that waits for them gives its core away. Without
/// guards two are enough; most guards end within a few. Who yields on a busy core comes back after
/// all others on it.
const LOOKS: u32 = 64;
/// Bags of others that one sweep frees at most: the sweeping thread is on its way to something
/// else.
const MAX_STOLEN: usize = 4;

static COLLECTOR: Collector = Collector::new();

/// The number of registered threads. Relaxed: a statistic.
static THREADS: CachePadded<AtomicI64> = CachePadded::new(AtomicI64::new(0));

/// A pinned thread; cannot be sent to another one.
pub(super) struct Pin(PhantomData<*mut ()>);

/// The state that a pin reads. It needs no destructor, so it lives as long as the thread.
struct ThreadState {
    /// Its record in the collector, from the first pin on.
    me: Cell<Option<&'static Local>>,
    /// Nested guards.
    depth: Cell<usize>,
    /// Outermost guards to come until the next look.
    until_look: Cell<u32>,
    /// Outermost guards that were created up to the last look.
    pins: Cell<u32>,
    /// Collect when the thread is next unpinned.
    needs_collect: Cell<bool>,
}

/// The values that a thread has retired and not sealed yet.
#[derive(Default)]
struct LocalGarbage {
    open: RefCell<Vec<Deferred>>,
    /// The allocation of an emptied bag, for the next one.
    spare: Cell<Vec<Deferred>>,
    /// A collection is running; what it retires waits for the next one.
    is_busy: Cell<bool>,
    /// Seal the bag although it is not full.
    seal_early: Cell<bool>,
    /// Much is in the bag: it does not wait for the next collection, which an idle thread may
    /// never begin.
    free_at_once: Cell<bool>,
    /// The epoch at the last collection.
    last_epoch: Cell<u64>,
    /// Pins at the last sweep.
    last_sweep: Cell<u32>,
}

/// Clears `is_busy` on drop, also when a destructor panics.
struct BusyGuard<'a>(&'a Cell<bool>);

thread_local! {
    static THREAD: ThreadState = const {
        ThreadState {
            me: Cell::new(None),
            depth: Cell::new(0),
            until_look: Cell::new(LOOK_INTERVAL),
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

/// Threads that have pinned and not exited.
pub(super) fn threads() -> i64 {
    THREADS.load(Ordering::Relaxed)
}

/// Frees every expired bag of other threads, because too much memory waits.
pub(super) fn free_abandoned() {
    let _ = GARBAGE.try_with(|garbage| {
        if let Some(_busy) = garbage.try_begin() {
            free_others(usize::MAX, Duration::ZERO);
        }
    });
}

/// Waits until every guard that exists now is gone. Uses no bag, which another thread might have to
/// free.
pub(super) fn synchronize() {
    let (stamp, mut looks) = (COLLECTOR.stamp(), 0);
    while !COLLECTOR.is_expired(stamp) {
        COLLECTOR.advance();
        looks += 1;
        match looks < LOOKS {
            true => std::hint::spin_loop(),
            false => thread::yield_now(),
        }
    }
}

/// Makes the thread seal its bag when it is next unpinned.
pub(super) fn seal_soon() {
    let _ = GARBAGE.try_with(|garbage| garbage.seal_early.set(true));
    THREAD.with(|thread_state| thread_state.needs_collect.set(true));
}

/// Makes the thread free its bag when it is next unpinned, if no other thread is pinned then.
pub(super) fn free_soon() {
    let _ = GARBAGE.try_with(|garbage| garbage.free_at_once.set(true));
    seal_soon();
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
    /// See [`super::Guard::defer`].
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

/// Seals a bag with one value: the thread is exiting and has no open bag any more.
#[cold]
fn seal_alone(work: Deferred) {
    let me = THREAD.with(|thread_state| thread_state.me.get());
    let me = me.expect("a guard has a local record");
    COLLECTOR.seal(me, vec![work], Instant::now());
}

/// Frees at most `most` bags of others.
fn free_others(most: usize, patience: Duration) {
    let now = Instant::now();
    let left = std::iter::from_fn(|| COLLECTOR.take_abandoned(now, patience));
    left.take(most)
        .for_each(|mut deferred| run_all(&mut deferred));
}

/// Runs all closures. A panic is resumed when the rest is done.
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
        let left = self.until_look.get() - 1;
        self.until_look.set(left);
        if left == 0 {
            self.look();
        }
    }

    /// What a thread does at one of so many pins.
    #[cold]
    #[inline(never)]
    fn look(&self) {
        self.until_look.set(LOOK_INTERVAL);
        // It may have moved since.
        cpu::ask_once();
        let pins = self.pins.get().wrapping_add(LOOK_INTERVAL);
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
        // Makes the thread sweep at the end of this guard, for threads that ended before it. A
        // thread that is exiting itself has no bag any more, and releases its record there.
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

    /// Releases the record: the thread exits.
    fn release(&self) {
        self.needs_collect.set(false);
        if let Some(me) = self.me.take() {
            me.release();
            THREADS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl LocalGarbage {
    /// Seals the bag if it is full, frees what has expired, and sweeps now and then.
    fn collect(&self, thread_state: &ThreadState) {
        let (Some(me), Some(_busy)) = (thread_state.me.get(), self.try_begin()) else {
            return;
        };
        thread_state.needs_collect.set(false);
        if self.seal_early.get() || self.open.borrow().len() >= BAG_SIZE {
            self.seal(me);
        }
        // If other threads have advanced the epoch since the last collection, they do so often
        // enough.
        if self.free_at_once.take() {
            (0..GRACE).for_each(|_| COLLECTOR.advance());
        } else if me.has_bags() && COLLECTOR.epoch() == self.last_epoch.get() {
            COLLECTOR.advance();
        }
        self.last_epoch.set(COLLECTOR.epoch());
        self.free_expired(me);
        if thread_state.pins.get().wrapping_sub(self.last_sweep.get()) >= SWEEP_INTERVAL {
            self.sweep(thread_state);
        }
        // Seals what the destructors above have retired: the thread may not collect again, so
        // others must be able to free it.
        if self.seal_early.get() || self.open.borrow().len() >= BAG_SIZE {
            self.seal(me);
        }
    }

    /// Seals the bag, advances the epoch if possible, and frees what has expired.
    fn flush(&self, thread_state: &ThreadState) {
        let (Some(me), Some(_busy)) = (thread_state.me.get(), self.try_begin()) else {
            // A collection is running; the thread collects once more after it.
            self.seal_early.set(true);
            thread_state.needs_collect.set(true);
            return;
        };
        self.seal(me);
        COLLECTOR.advance();
        self.free_expired(me);
        self.sweep(thread_state);
    }

    /// `None` if a collection is running on this thread already.
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

    /// Frees the expired bags of this thread.
    fn free_expired(&self, me: &Local) {
        while let Some(mut deferred) = COLLECTOR.take_expired(me) {
            run_all(&mut deferred);
            self.spare.set(deferred);
        }
    }

    /// Makes sure that abandoned bags are freed in the end.
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

/// The thread exits: other threads free what it has retired. It frees nothing itself: destructors
/// may need thread-local variables that are gone already.
impl Drop for LocalGarbage {
    fn drop(&mut self) {
        THREAD.with(|thread_state| {
            if let Some(me) = thread_state.me.get() {
                self.seal(me);
            }
            match thread_state.depth.get() {
                0 => thread_state.release(),
                // The last guard releases the record.
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
