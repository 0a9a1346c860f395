//! A stand-in for the epoch under loom and shuttle, which run all tasks on one operating-system
//! thread.
//!
//! It is deterministic and strict. A retired value waits for the guards that existed when it was
//! retired, then for those that were created until that moment, and is dropped at once. A real
//! epoch makes the second wait too: a guard that was created just after the retirement may still
//! find the value, because nothing has told its task yet that the value is unlinked.
//!
//! Under loom, pinning and unpinning are steps of the model, which tries them in every order. They
//! order no more than a real epoch must: when the first wait of some value is over, a task that
//! pins from then on sees what was done before anything was retired. Nothing is ordered before
//! that, which keeps missing orderings between the tasks visible. This proves nothing about the
//! collector itself; `tests/loom_epoch.rs` does.

use crate::primitive::atomic::{AtomicBool, Ordering};
use crate::primitive::{Arc, thread};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A pinned task: the number of its pin in the order of all pins.
#[derive(Debug)]
pub(super) struct Pin {
    number: u64,
}

pub(super) fn pin() -> Pin {
    Pin { number: begin() }
}

/// Waits for the drop of a value that is retired now.
pub(super) fn synchronize() {
    let passed = Arc::new(AtomicBool::new(false));
    let word = Arc::clone(&passed);
    // Release: pairs with the Acquire below.
    let pass = move || word.store(true, Ordering::Release);
    // SAFETY: the closure owns its share of the flag.
    unsafe { pin().defer(pass) };
    // Acquire: pairs with the Release above.
    while !passed.load(Ordering::Acquire) {
        drop(pin());
        thread::yield_now();
    }
}

impl Pin {
    pub(super) fn flush(&self) {}

    pub(super) fn repin(&mut self) {
        end(self.number);
        self.number = begin();
    }

    /// # Safety
    ///
    /// See [`super::Guard::defer`].
    pub(super) unsafe fn defer(&self, deferred: impl FnOnce() + 'static) {
        order::retired();
        EPOCH.with_borrow_mut(|epoch| {
            let (below, announced) = (epoch.next, false);
            epoch.garbage.push(Retired {
                below,
                announced,
                deferred: Box::new(deferred),
            });
        });
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        end(self.number);
    }
}

#[derive(Default)]
struct Epoch {
    /// The number of the next pin.
    next: u64,
    /// Pins that are still active.
    pinned: BTreeSet<u64>,
    garbage: Vec<Retired>,
}

struct Retired {
    /// Waits for all pins below this number.
    below: u64,
    /// The first wait is over; this is the second.
    announced: bool,
    /// Drops the value.
    deferred: Box<dyn FnOnce()>,
}

impl Epoch {
    /// Advances the waits and returns what may be dropped.
    fn advance(&mut self) -> Vec<Retired> {
        let oldest = self.pinned.first().copied().unwrap_or(u64::MAX);
        for retired in &mut self.garbage {
            if !retired.announced && retired.below <= oldest {
                order::announced();
                retired.announced = true;
                retired.below = self.next;
            }
        }
        let due = |retired: &mut Retired| retired.announced && retired.below <= oldest;
        self.garbage.extract_if(.., due).collect()
    }
}

std::thread_local! {
    static EPOCH: RefCell<Epoch> = RefCell::default();
}

fn begin() -> u64 {
    order::pinned();
    EPOCH.with_borrow_mut(|epoch| {
        let number = epoch.next;
        epoch.next += 1;
        epoch.pinned.insert(number);
        number
    })
}

fn end(number: u64) {
    order::unpinned();
    let due = EPOCH.with_borrow_mut(|epoch| {
        epoch.pinned.remove(&number);
        epoch.advance()
    });
    if !due.is_empty() {
        order::dropping();
    }
    // Outside the borrow: a drop may pin and retire again.
    for retired in due {
        (retired.deferred)();
    }
}

/// The accesses of the epoch that loom sees.
#[cfg(feature = "loom")]
mod order {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use loom::sync::atomic::{AtomicUsize, Ordering, fence};

    struct Order {
        /// Every step adds zero, which reads the latest value.
        steps: AtomicUsize,
        /// Some first wait is over in this run of the model. Invisible to the model.
        announced: AtomicBool,
    }

    loom::lazy_static! {
        static ref ORDER: Order =
            Order { steps: AtomicUsize::new(0), announced: AtomicBool::new(false) };
    }

    /// Release: pairs with the Acquire of a pin or a drop that comes later.
    pub(super) fn retired() {
        ORDER.steps.fetch_add(0, Ordering::Release);
    }

    /// Acquire once something was announced: pairs with the Release in `retired`.
    ///
    /// The step comes first: the model may run other tasks before it, and announce there.
    pub(super) fn pinned() {
        ORDER.steps.fetch_add(0, Ordering::Relaxed);
        if ORDER.announced.load(SeqCst) {
            fence(Ordering::Acquire);
        }
    }

    /// Relaxed: it is only a step.
    pub(super) fn unpinned() {
        ORDER.steps.fetch_add(0, Ordering::Relaxed);
    }

    /// From now on pins are Acquire.
    pub(super) fn announced() {
        ORDER.announced.store(true, SeqCst);
    }

    /// Acquire: pairs with the Release in `retired`; the value is complete when it is dropped.
    pub(super) fn dropping() {
        ORDER.steps.fetch_add(0, Ordering::Acquire);
    }
}

/// shuttle runs every step sequentially consistent: nothing to add.
#[cfg(feature = "shuttle")]
mod order {
    pub(super) fn retired() {}
    pub(super) fn pinned() {}
    pub(super) fn unpinned() {}
    pub(super) fn announced() {}
    pub(super) fn dropping() {}
}
