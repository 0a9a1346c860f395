//! The calling thread's part in the collector: its guards, its bags, and when it works.
//!
//! What a thread retires it gathers in a bag and frees itself, so that memory stays with the core
//! that uses it. Others free a bag only if its thread has ended, or was away for long: every
//! so many pins a thread looks for such bags, also one that only reads.
//!
//! Freeing runs code of others, so it is done where that is expected: when a thread is pinned no
//! longer.

use super::collector::Collector;
use super::participant::Participant;
use super::work::Work;
use crate::primitive::atomic::{AtomicI64, Ordering};
use crate::primitive::thread;
use crossbeam_utils::CachePadded;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Things retired between two looks at what is due, and in a bag that is closed at one; what is
/// retired under one guard stays together, so it may be more.
const FULL: usize = 64;
/// Pins of a thread between two sweeps through what others have left.
const SWEEP: u32 = 4096;
/// How long a bag waits for its thread: longer than it takes 24 others to have a core in turn, each
/// for the kernel's turn of 4 ms.
const WAIT: Duration = Duration::from_millis(100);
/// Bags of others that one sweep frees: whoever sweeps does it on the way to something else.
const MOST: usize = 4;

static COLLECTOR: Collector = Collector::new();

/// Threads that take part. Relaxed: a figure by itself.
static THREADS: CachePadded<AtomicI64> = CachePadded::new(AtomicI64::new(0));

/// A pinned thread; not for another one.
pub(super) struct Guard(PhantomData<*mut ()>);

/// What a pin looks at. Needs no destructor, so it is there as long as the thread is.
struct Local {
    /// Its place in the collector, from the first pin on.
    me: Cell<Option<&'static Participant>>,
    /// Guards.
    depth: Cell<usize>,
    /// Outermost guards ever made.
    pins: Cell<u32>,
    /// There is something to look at.
    looks: Cell<bool>,
}

/// What a thread has retired.
#[derive(Default)]
struct Own {
    open: RefCell<Vec<Work>>,
    /// The room of a bag that was emptied, for the next one.
    spare: Cell<Vec<Work>>,
    /// It is at work: what that retires in turn waits for the next look.
    is_busy: Cell<bool>,
    /// The bag is to be closed though it is not full.
    is_wanted: Cell<bool>,
    /// The epoch at the last look.
    seen: Cell<u64>,
    /// Pins at the last sweep.
    swept: Cell<u32>,
}

/// Ends a time of being busy, also when what is freed panics.
struct Busy<'a>(&'a Cell<bool>);

thread_local! {
    static LOCAL: Local = const {
        Local {
            me: Cell::new(None),
            depth: Cell::new(0),
            pins: Cell::new(0),
            looks: Cell::new(false),
        }
    };
    static OWN: Own = Own::default();
}

#[inline]
pub(super) fn pin() -> Guard {
    LOCAL.with(|local| {
        let depth = local.depth.get();
        if depth == 0 {
            local.enter();
        }
        local.depth.set(depth + 1);
    });
    Guard(PhantomData)
}

/// Whether this thread has a guard.
pub(super) fn is_pinned() -> bool {
    LOCAL.with(|local| local.depth.get() > 0)
}

/// Threads that have pinned and not ended.
pub(super) fn threads() -> i64 {
    THREADS.load(Ordering::Relaxed)
}

/// Frees what other threads have not come for, for want of room.
pub(super) fn free_left() {
    let _ = OWN.try_with(|own| {
        if let Some(_busy) = own.begin() {
            free_others(usize::MAX, Duration::ZERO);
        }
    });
}

/// Waits until every guard that exists now is gone; needs no bag, which others may have to free.
pub(super) fn synchronize() {
    let stamp = COLLECTOR.stamp();
    while !COLLECTOR.is_due(stamp) {
        COLLECTOR.advance();
        thread::yield_now();
    }
}

/// Has the thread close its bag when it is pinned no longer.
pub(super) fn close_soon() {
    let _ = OWN.try_with(|own| own.is_wanted.set(true));
    LOCAL.with(|local| local.looks.set(true));
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        LOCAL.with(|local| {
            let depth = local.depth.get() - 1;
            local.depth.set(depth);
            if depth == 0 {
                local.exit();
            }
        });
    }
}

impl Guard {
    pub(super) fn flush(&self) {
        LOCAL.with(|local| {
            let _ = OWN.try_with(|own| own.flush(local));
        });
    }

    pub(super) fn repin(&mut self) {
        LOCAL.with(|local| {
            if let (1, Some(me)) = (local.depth.get(), local.me.get()) {
                COLLECTOR.pin(me);
            }
        });
    }

    /// # Safety
    ///
    /// As [`super::Guard::defer`].
    #[inline]
    pub(super) unsafe fn defer(&self, work: impl FnOnce() + 'static) {
        // SAFETY: the caller promises that `work` may run later on any thread.
        let mut work = Some(unsafe { Work::new(work) });
        let kept = OWN.try_with(|own| {
            let mut open = own.open.borrow_mut();
            open.extend(work.take());
            if open.len().is_multiple_of(FULL) {
                LOCAL.with(|local| local.looks.set(true));
            }
        });
        if let (Err(_), Some(work)) = (kept, work) {
            hand_over(work);
        }
    }
}

/// The thread is ending and has no bag any more.
#[cold]
fn hand_over(work: Work) {
    let me = LOCAL.with(|local| local.me.get());
    let me = me.expect("a guard has a participant");
    COLLECTOR.close(me, vec![work], Instant::now());
}

/// Frees at most so many bags of others.
fn free_others(most: usize, patience: Duration) {
    let now = Instant::now();
    let left = std::iter::from_fn(|| COLLECTOR.take_left(now, patience));
    left.take(most).for_each(|mut works| run_all(&mut works));
}

/// Does all of it. A panic is passed on when the rest is done.
fn run_all(works: &mut Vec<Work>) {
    let mut panicked = None;
    for work in works.drain(..) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work.run())) {
            panicked.get_or_insert(panic);
        }
    }
    if let Some(panic) = panicked {
        resume_unwind(panic);
    }
}

impl Local {
    #[inline]
    fn enter(&self) {
        COLLECTOR.pin(self.me.get().unwrap_or_else(|| self.join()));
        let pins = self.pins.get().wrapping_add(1);
        self.pins.set(pins);
        if pins.is_multiple_of(SWEEP) {
            self.looks.set(true);
        }
    }

    #[inline]
    fn exit(&self) {
        if let Some(me) = self.me.get() {
            me.unpin();
        }
        if self.looks.get() {
            self.look();
        }
    }

    #[cold]
    fn join(&self) -> &'static Participant {
        let me = COLLECTOR.join();
        self.me.set(Some(me));
        THREADS.fetch_add(1, Ordering::Relaxed);
        // At the end of this guard a thread does its part for those that ended before it; one that
        // is ending itself has no bags any more, and leaves.
        let _ = OWN.try_with(|own| own.swept.set(self.pins.get().wrapping_sub(SWEEP)));
        self.looks.set(true);
        me
    }

    #[cold]
    fn look(&self) {
        if OWN.try_with(|own| own.look(self)).is_err() {
            self.leave();
        }
    }

    /// The thread ends.
    fn leave(&self) {
        self.looks.set(false);
        if let Some(me) = self.me.take() {
            me.leave();
            THREADS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Own {
    /// Closes the bag if it is full, frees what is due, and sweeps now and then.
    fn look(&self, local: &Local) {
        let (Some(me), Some(_busy)) = (local.me.get(), self.begin()) else {
            return;
        };
        local.looks.set(false);
        if self.is_wanted.get() || self.open.borrow().len() >= FULL {
            self.close(me);
        }
        // Where others have ended epochs since the last look, they do enough of it.
        if me.has_closed() && COLLECTOR.epoch() == self.seen.get() {
            COLLECTOR.advance();
        }
        self.seen.set(COLLECTOR.epoch());
        self.free_due(me);
        if local.pins.get().wrapping_sub(self.swept.get()) >= SWEEP {
            self.sweep(local);
        }
        // What that has retired: the thread may not come again, so it is for others too.
        if self.is_wanted.get() || self.open.borrow().len() >= FULL {
            self.close(me);
        }
    }

    /// Closes the bag, ends the epoch if that may be, and frees what is due.
    fn flush(&self, local: &Local) {
        let (Some(me), Some(_busy)) = (local.me.get(), self.begin()) else {
            // It is at work, and looks once more when that is done.
            self.is_wanted.set(true);
            local.looks.set(true);
            return;
        };
        self.close(me);
        COLLECTOR.advance();
        self.free_due(me);
        self.sweep(local);
    }

    /// `None` if the thread is at work already.
    fn begin(&self) -> Option<Busy<'_>> {
        let was_busy = self.is_busy.replace(true);
        (!was_busy).then(|| Busy(&self.is_busy))
    }

    fn close(&self, me: &Participant) {
        self.is_wanted.set(false);
        if self.open.borrow().is_empty() {
            return;
        }
        let mut empty = self.spare.take();
        empty.reserve(FULL);
        COLLECTOR.close(me, self.open.replace(empty), Instant::now());
    }

    /// Frees the bags of this thread that are due.
    fn free_due(&self, me: &Participant) {
        while let Some(mut works) = COLLECTOR.take_due(me) {
            run_all(&mut works);
            self.spare.set(works);
        }
    }

    /// Sees to it that what others have left is freed in the end.
    fn sweep(&self, local: &Local) {
        self.swept.set(local.pins.get());
        if COLLECTOR.is_waited_for() {
            COLLECTOR.advance();
        }
        free_others(MOST, WAIT);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The thread ends: what it has retired is for others. It frees nothing any more: that runs code
/// which may need what the thread has lost already.
impl Drop for Own {
    fn drop(&mut self) {
        LOCAL.with(|local| {
            if let Some(me) = local.me.get() {
                self.close(me);
            }
            match local.depth.get() {
                0 => local.leave(),
                // The last guard sees to it.
                _ => local.looks.set(true),
            }
        });
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("pinned")
    }
}

#[cfg(test)]
mod tests;
