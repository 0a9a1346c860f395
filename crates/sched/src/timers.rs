//! The timers of one run queue.

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

/// Time in nanoseconds, and a number that makes it unique.
pub type TimerKey = (u64, u64);

#[derive(Debug, Default)]
struct Tree {
    wakers: BTreeMap<TimerKey, Waker>,
    number: u64,
    /// No timer is accepted any more.
    closed: bool,
}

impl Timers {
    /// Returns an empty set.
    pub fn new() -> Timers {
        Timers {
            tree: Lock::new(Tree::default()),
            next: AtomicU64::new(u64::MAX),
        }
    }

    /// Returns the earliest time, `u64::MAX` for none.
    #[inline]
    pub fn next(&self) -> u64 {
        // Relaxed: the owner reads it; other threads wake the owner after they insert an earlier
        // one.
        self.next.load(Ordering::Relaxed)
    }

    /// Inserts a timer that wakes `waker` at `at`. Returns its key, and whether it is the earliest
    /// now.
    ///
    /// # Errors
    /// No timer is accepted any more; the waker comes back.
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

    /// Replaces the waker of a timer. Returns false if it has fired.
    pub fn replace(&self, key: TimerKey, waker: &Waker) -> bool {
        let mut tree = self.tree.lock();
        let Some(old) = tree.wakers.get_mut(&key) else {
            return false;
        };
        let old = (!old.will_wake(waker)).then(|| std::mem::replace(old, waker.clone()));
        drop(tree);
        // A waker may hold the last reference to its task: dropped outside the lock.
        drop(old);
        true
    }

    /// Removes a timer, if it has not fired.
    pub fn remove(&self, key: TimerKey) {
        let mut tree = self.tree.lock();
        let waker = tree.wakers.remove(&key);
        self.publish(&tree);
        drop(tree);
        drop(waker);
    }

    /// Wakes the timers that are due at `now`.
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

    /// Takes all timers out.
    pub fn take(&self) -> Vec<(u64, Waker)> {
        let mut tree = self.tree.lock();
        let all = std::mem::take(&mut tree.wakers);
        self.publish(&tree);
        drop(tree);
        all.into_iter()
            .map(|((at, _), waker)| (at, waker))
            .collect()
    }

    /// Wakes all timers and accepts none from now on: the scheduler has ended, and a woken task is
    /// cancelled. A task whose waker is only dropped would not be cancelled while its handle is
    /// kept.
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
