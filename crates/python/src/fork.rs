//! What a fork of the process may not touch.

use hearth_sync::primitive::atomic::{AtomicBool, AtomicU32, Ordering};
use pyo3::prelude::*;

/// Whether this process is a fork of one that had opened a volume. Written by the child, which has
/// one thread then.
static FORKED: AtomicBool = AtomicBool::new(false);

/// The process that opened the first volume; 0 before.
static OPENER: AtomicU32 = AtomicU32::new(0);

/// What a fork is told.
pub const REASON: &str = "this process is a fork, and the volumes of its parent need threads \
                          that it does not have: start processes with multiprocessing's 'spawn' \
                          or 'forkserver', or fork before the first volume is opened";

/// Called in the child after each fork.
#[pyfunction]
pub fn _forked() {
    is_forked_now();
}

/// Whether a fork is known to have happened. One load. Relaxed: the child has one thread when it
/// writes, and whatever threads it makes later see that.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// [`is_forked`] after a look at the process id, for a fork that ran no handlers of Python.
pub fn is_forked_now() -> bool {
    let opener = OPENER.load(Ordering::Relaxed);
    if opener != 0 && opener != std::process::id() {
        FORKED.store(true, Ordering::Relaxed);
    }
    is_forked()
}

/// Notes that this process has opened a volume.
pub fn note_opening() {
    let first = OPENER.load(Ordering::Relaxed) == 0;
    if first {
        OPENER.store(std::process::id(), Ordering::Relaxed);
    }
}

/// A value that is dropped by the process that made it, and forgotten in its forks. It has memory
/// of its own: that of Python's objects is aligned to 16 bytes.
pub struct Held<T>(Option<Box<T>>);

impl<T> Held<T> {
    pub fn new(value: T) -> Held<T> {
        Held(Some(Box::new(value)))
    }

    pub fn get(&self) -> &T {
        self.0.as_ref().expect("it is there until the drop")
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if is_forked_now() {
            std::mem::forget(self.0.take());
        }
    }
}
