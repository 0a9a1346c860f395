//! A stand-in for the epoch under loom and shuttle, which run all tasks on one thread of the
//! operating system.
//!
//! It is deterministic and strict: a retired value is dropped as soon as the last guard that
//! existed when it was retired is gone, the first moment that the contract allows. It adds no
//! synchronisation that the model could see, so it hides no missing ordering between the tasks.
//! It proves nothing about crossbeam-epoch itself.

use std::cell::RefCell;
use std::collections::BTreeSet;

/// A pinned task: the number of its pin in the order of all pins.
#[derive(Debug)]
pub(super) struct Guard {
    number: u64,
}

pub(super) fn pin() -> Guard {
    Guard { number: begin() }
}

impl Guard {
    pub(super) fn flush(&self) {}

    pub(super) fn repin(&mut self) {
        end(self.number);
        self.number = begin();
    }

    /// # Safety
    ///
    /// As [`super::Guard::defer`].
    pub(super) unsafe fn defer(&self, work: impl FnOnce() + 'static) {
        EPOCH.with_borrow_mut(|epoch| {
            let newest = epoch.next;
            epoch.garbage.push((newest, Box::new(work)));
        });
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        end(self.number);
    }
}

#[derive(Default)]
struct Epoch {
    /// The number of the next pin.
    next: u64,
    /// Pins that still live.
    pinned: BTreeSet<u64>,
    /// What to run once every pin below the number is gone.
    garbage: Vec<(u64, Box<dyn FnOnce()>)>,
}

std::thread_local! {
    static EPOCH: RefCell<Epoch> = RefCell::default();
}

fn begin() -> u64 {
    EPOCH.with_borrow_mut(|epoch| {
        let number = epoch.next;
        epoch.next += 1;
        epoch.pinned.insert(number);
        number
    })
}

fn end(number: u64) {
    let due = EPOCH.with_borrow_mut(|epoch| {
        epoch.pinned.remove(&number);
        let oldest = epoch.pinned.first().copied().unwrap_or(u64::MAX);
        epoch
            .garbage
            .extract_if(.., |(below, _)| *below <= oldest)
            .collect::<Vec<_>>()
    });
    // Outside the borrow: a drop may pin and retire again.
    for (_, work) in due {
        work();
    }
}
