//! What one thread has retired, done by one thread once it is due: by that thread if it comes in
//! time, else by whoever finds it left over.

use crate::primitive::atomic::{AtomicU8, Ordering};
use std::cell::UnsafeCell;

/// Guards may still see what is in the bag.
const EARLY: u8 = 0;
/// No guard sees it any more; whoever takes it does it.
const DUE: u8 = 1;
/// Somebody has taken it.
const TAKEN: u8 = 2;

/// Retired things, closed.
pub(super) struct Bag<T> {
    state: AtomicU8,
    /// Belongs to whoever made the state `TAKEN`.
    works: UnsafeCell<Vec<T>>,
}

// SAFETY: `works` is touched only by the one thread that took the bag.
unsafe impl<T: Send> Sync for Bag<T> {}

impl<T> Bag<T> {
    pub fn new(works: Vec<T>) -> Bag<T> {
        Bag {
            state: AtomicU8::new(EARLY),
            works: UnsafeCell::new(works),
        }
    }

    /// From now on the bag may be taken.
    pub fn fall_due(&self) {
        // Release: pairs with the Acquire in `take`: what guards read happened before.
        self.state.store(DUE, Ordering::Release);
    }

    /// Whether nobody needs to come for it again.
    pub fn is_taken(&self) -> bool {
        // Relaxed: only the answer counts.
        self.state.load(Ordering::Relaxed) == TAKEN
    }

    /// What is in it, for the first who asks when it is due.
    pub fn take(&self) -> Option<Vec<T>> {
        // Relaxed: a hint.
        if self.state.load(Ordering::Relaxed) != DUE {
            return None;
        }
        // Acquire: pairs with the Release in `fall_due`.
        self.state
            .compare_exchange(DUE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // SAFETY: the exchange succeeds once, so nobody else is here, and nobody was before.
        Some(std::mem::take(unsafe { &mut *self.works.get() }))
    }
}
