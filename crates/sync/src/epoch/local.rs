//! The per-thread record of the collector: the epoch that the thread is pinned in, and its sealed
//! bags.

use super::bag::Bag;
use crate::primitive::Mutex;
use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// There is no sealed bag.
const NONE: u64 = u64::MAX;

/// Owned by one thread at a time. Never freed: a thread that exits leaves it, with the bags in it,
/// to the next one.
///
/// Aligned to two cache lines, because processors fetch them in pairs.
#[repr(align(128))]
pub(super) struct Local {
    /// 0 while not pinned, else twice the epoch that the thread was pinned in, plus 1.
    pinned: AtomicU64,
    /// The stamp of the oldest bag, or [`NONE`]. A hint, written under the lock of `bags`.
    oldest: AtomicU64,
    /// True while a thread owns this record.
    in_use: AtomicBool,
    /// Sealed bags, the oldest first. Only the owner takes the lock, except for threads that steal
    /// bags.
    bags: Mutex<VecDeque<Bag>>,
    /// The record that was created before this one.
    pub next: Option<&'static Local>,
}

impl Local {
    /// A record owned by the caller.
    pub fn new(next: Option<&'static Local>) -> Local {
        Local {
            pinned: AtomicU64::new(0),
            oldest: AtomicU64::new(NONE),
            in_use: AtomicBool::new(true),
            bags: Mutex::new(VecDeque::new()),
            next,
        }
    }

    /// Tries to acquire this record; false if a thread owns it.
    pub fn try_acquire(&self) -> bool {
        // Relaxed: a hint. Acquire: pairs with the Release in `release`.
        !self.in_use.load(Ordering::Relaxed)
            && self
                .in_use
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Releases the record. The thread exits and is not pinned.
    pub fn release(&self) {
        // Release: pairs with the Acquire in `try_acquire`.
        self.in_use.store(false, Ordering::Release);
    }

    /// Publishes that the thread is pinned in `epoch`, before all that it reads from now on.
    #[inline]
    pub fn pin(&self, epoch: u64) {
        let pinned = epoch << 1 | 1;
        // Release: what the thread read under its last guard happened before this, for a collector
        // that sees this store but not the store that ended that guard. The fence (its partners are
        // in `Collector::advance` and `Collector::stamp`): either the collector sees this store, or
        // the thread sees all that was unlinked before the collector looked.
        #[cfg(all(target_arch = "x86_64", not(miri), not(feature = "loom")))]
        {
            // On x86 an exchange is both, and faster than a store and a fence.
            self.pinned.swap(pinned, Ordering::SeqCst);
            crate::primitive::atomic::compiler_fence(Ordering::SeqCst);
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri), not(feature = "loom"))))]
        {
            self.pinned.store(pinned, Ordering::Release);
            crate::primitive::atomic::fence(Ordering::SeqCst);
        }
    }

    /// Publishes that the thread is no longer pinned.
    #[inline]
    pub fn unpin(&self) {
        // Release: pairs with the Acquire fence in `Collector::advance`: what was read under the
        // guard happened before anything is freed that waited for it.
        self.pinned.store(0, Ordering::Release);
    }

    /// True if this thread lets `epoch` end: it is not pinned, or pinned in this very epoch.
    pub fn allows_advance_from(&self, epoch: u64) -> bool {
        // Relaxed: the collector's fences order it.
        let pinned = self.pinned.load(Ordering::Relaxed);
        pinned == 0 || pinned >> 1 == epoch
    }

    /// Whether there is a sealed bag.
    pub fn has_bags(&self) -> bool {
        self.oldest() != NONE
    }

    /// The stamp of the oldest bag, or [`NONE`], which never expires.
    pub fn oldest(&self) -> u64 {
        // Relaxed: a hint.
        self.oldest.load(Ordering::Relaxed)
    }

    /// Appends a bag. Stamps are non-decreasing.
    pub fn push(&self, bag: Bag) {
        let mut bags = self.bags.lock();
        bags.push_back(bag);
        self.update_oldest(&bags);
    }

    /// Removes the oldest bag, if its stamp is at most `latest`.
    pub fn pop(&self, latest: u64) -> Option<Bag> {
        let mut bags = self.bags.lock();
        bags.front().filter(|bag| bag.stamp <= latest)?;
        let bag = bags.pop_front();
        self.update_oldest(&bags);
        bag
    }

    /// Steals the oldest bag from another thread, if its stamp is at most `latest` and that thread
    /// has exited or the bag is at least `patience` old.
    pub fn steal(&self, latest: u64, now: Instant, patience: Duration) -> Option<Bag> {
        let mut bags = self.bags.lock();
        let bag = bags.front().filter(|bag| bag.stamp <= latest)?;
        // Relaxed: it decides only how long to wait.
        let is_left = !self.in_use.load(Ordering::Relaxed);
        if !is_left && now.saturating_duration_since(bag.sealed_at) < patience {
            return None;
        }
        let bag = bags.pop_front();
        self.update_oldest(&bags);
        bag
    }

    fn update_oldest(&self, bags: &VecDeque<Bag>) {
        let oldest = bags.front().map_or(NONE, |bag| bag.stamp);
        // Relaxed: a hint.
        self.oldest.store(oldest, Ordering::Relaxed);
    }
}
