//! No epoch: retired values are dropped when the outermost guard of the thread is. For one thread,
//! to measure what waiting for others costs; never part of a build that anybody uses.
//!
//! The first thread that pins owns the process. A pin on another one panics, so nothing can be
//! dropped under a reader.

use super::deferred::Deferred;
use crate::primitive::atomic::{AtomicBool, Ordering};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Some thread has pinned.
static TAKEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Guards of this thread.
    static DEPTH: Cell<usize> = {
        // Relaxed: only one thread goes on.
        assert!(!TAKEN.swap(true, Ordering::Relaxed), "hearth_free_at_once is for one thread");
        Cell::new(0)
    };
    static RETIRED: RefCell<VecDeque<Deferred>> = const { RefCell::new(VecDeque::new()) };
}

/// A pinned thread.
#[derive(Debug)]
pub(super) struct Pin(());

#[inline]
pub(super) fn pin() -> Pin {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    Pin(())
}

/// Returns at once: no other thread can have a guard.
pub(super) fn synchronize() {}

impl Pin {
    pub(super) fn flush(&self) {}

    pub(super) fn repin(&mut self) {
        if DEPTH.with(Cell::get) == 1 {
            drop_retired();
        }
    }

    /// # Safety
    ///
    /// See [`super::Guard::defer`].
    pub(super) unsafe fn defer(&self, work: impl FnOnce() + 'static) {
        // SAFETY: the caller promises it.
        let work = unsafe { Deferred::new(work) };
        RETIRED.with_borrow_mut(|retired| retired.push_back(work));
    }
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        let depth = DEPTH.with(|depth| {
            depth.set(depth.get() - 1);
            depth.get()
        });
        if depth == 0 {
            drop_retired();
        }
    }
}

#[inline]
fn drop_retired() {
    // One by one: a drop may pin and retire again, and its guard comes back here.
    while let Some(work) = RETIRED.with_borrow_mut(VecDeque::pop_front) {
        work.run();
    }
}
