//! No epoch: what is retired is dropped when the thread's outermost guard is. For one thread, to
//! measure what waiting for others costs; never part of a build that anybody uses.
//!
//! The first thread that pins owns the process; a pin on another one panics, so that nothing can
//! be dropped under a reader.

use crate::primitive::atomic::{AtomicBool, Ordering};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::MaybeUninit;

/// Some thread has pinned.
static TAKEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Guards of this thread.
    static DEPTH: Cell<usize> = {
        // Relaxed: only one thread goes on.
        assert!(!TAKEN.swap(true, Ordering::Relaxed), "hearth_free_at_once is for one thread");
        Cell::new(0)
    };
    static RETIRED: RefCell<VecDeque<Work>> = const { RefCell::new(VecDeque::new()) };
}

/// A pinned participant.
#[derive(Debug)]
pub(super) struct Guard(());

#[inline]
pub(super) fn pin() -> Guard {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    Guard(())
}

impl Guard {
    pub(super) fn flush(&self) {}

    pub(super) fn repin(&mut self) {
        if DEPTH.with(Cell::get) == 1 {
            drop_retired();
        }
    }

    /// # Safety
    ///
    /// As [`super::Guard::defer`].
    pub(super) unsafe fn defer(&self, work: impl FnOnce() + 'static) {
        RETIRED.with_borrow_mut(|retired| retired.push_back(Work::new(work)));
    }
}

impl Drop for Guard {
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

/// A closure in three words, as crossbeam-epoch stores it too.
struct Work {
    call: unsafe fn(*mut u8),
    data: MaybeUninit<[usize; 3]>,
}

impl Work {
    fn new<F: FnOnce() + 'static>(work: F) -> Work {
        /// # Safety
        ///
        /// `data` holds an `F` that nobody uses again.
        unsafe fn call<F: FnOnce()>(data: *mut u8) {
            // SAFETY: as the caller promises.
            unsafe { data.cast::<F>().read()() };
        }
        const {
            assert!(size_of::<F>() <= size_of::<[usize; 3]>());
            assert!(align_of::<F>() <= align_of::<usize>());
        }
        let mut data = MaybeUninit::<[usize; 3]>::uninit();
        // SAFETY: the closure fits and is aligned, as is checked above.
        unsafe { data.as_mut_ptr().cast::<F>().write(work) };
        Work {
            call: call::<F>,
            data,
        }
    }

    fn run(mut self) {
        // SAFETY: `data` holds what `call` was made for, and `self` ends here.
        unsafe { (self.call)(self.data.as_mut_ptr().cast()) };
    }
}
