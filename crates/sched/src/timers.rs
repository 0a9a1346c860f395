//! Timers of one run queue.

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::task::Waker;

lock_class! {
    /// The timers of a run queue.
    pub TimerLock = "sched.timers", 2000;
}

/// Wakers by time.
#[derive(Debug)]
#[repr(align(128))]
pub struct Timers {
    tree: Lock<TimerLock, Tree>,
    /// The earliest time; written with the lock held.
    next: AtomicU64,
}

/// Time in nanoseconds, then a number that makes it unique.
pub type TimerKey = (u64, u64);

#[derive(Debug, Default)]
struct Tree {
    wakers: BTreeMap<TimerKey, Waker>,
    number: u64,
    /// Nothing waits any more.
    closed: bool,
}

impl Timers {
    /// None.
    pub fn new() -> Timers {
        Timers {
            tree: Lock::new(Tree::default()),
            next: AtomicU64::new(u64::MAX),
        }
    }

    /// The earliest time, `u64::MAX` for none.
    #[inline]
    pub fn next(&self) -> u64 {
        // Relaxed: the owner's own; others wake the owner after they put in an earlier one.
        self.next.load(Ordering::Relaxed)
    }

    /// Wakes `waker` at `at`; the key, and whether it is the earliest now.
    ///
    /// # Errors
    /// Nothing waits any more; the waker comes back.
    pub fn insert(&self, at: u64, waker: Waker) -> Result<(TimerKey, bool), Waker> {
        let mut tree = self.tree.lock();
        if tree.closed {
            return Err(waker);
        }
        tree.number += 1;
        let key = (at, tree.number);
        tree.wakers.insert(key, waker);
        let earliest = at < self.next();
        self.publish(&tree);
        Ok((key, earliest))
    }

    /// Puts another waker in the place of one that waits; false when it has fired.
    pub fn replace(&self, key: TimerKey, waker: &Waker) -> bool {
        let mut tree = self.tree.lock();
        let Some(old) = tree.wakers.get_mut(&key) else {
            return false;
        };
        let old = (!old.will_wake(waker)).then(|| std::mem::replace(old, waker.clone()));
        drop(tree);
        // A waker may be the last to hold its task: dropped without the lock.
        drop(old);
        true
    }

    /// Takes a timer out, if it is still in.
    pub fn remove(&self, key: TimerKey) {
        let mut tree = self.tree.lock();
        let waker = tree.wakers.remove(&key);
        self.publish(&tree);
        drop(tree);
        drop(waker);
    }

    /// Wakes what is due at `now`.
    pub fn fire(&self, now: u64) {
        let mut due = Vec::new();
        let mut tree = self.tree.lock();
        while let Some(entry) = tree.wakers.first_entry()
            && entry.key().0 <= now
        {
            due.push(entry.remove());
        }
        self.publish(&tree);
        drop(tree);
        due.into_iter().for_each(Waker::wake);
    }

    /// Takes all out.
    pub fn take(&self) -> Vec<(u64, Waker)> {
        let mut tree = self.tree.lock();
        let all = std::mem::take(&mut tree.wakers);
        self.publish(&tree);
        drop(tree);
        all.into_iter()
            .map(|((at, _), waker)| (at, waker))
            .collect()
    }

    /// Wakes all, and takes none from now on: the scheduler has ended, and a task that is woken is
    /// cancelled. One whose waker is dropped would not be while its handle is kept.
    pub fn close(&self) {
        self.tree.lock().closed = true;
        for (_, waker) in self.take() {
            waker.wake();
        }
    }

    fn publish(&self, tree: &Tree) {
        let next = tree
            .wakers
            .first_key_value()
            .map_or(u64::MAX, |(key, _)| key.0);
        // Relaxed: see `next`.
        self.next.store(next, Ordering::Relaxed);
    }
}
