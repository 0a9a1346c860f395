//! A thread's place in the collector: where it says that it is pinned, and what it has retired.

use super::bag::Bag;
use crate::primitive::Mutex;
use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// No bag is closed.
const NONE: u64 = u64::MAX;

/// One at a time belongs to each thread that pins. Never freed: a thread that ends leaves it, with
/// what is in it, to the next one.
///
/// Two lines of a cache, because processors fetch them in pairs.
#[repr(align(128))]
pub(super) struct Local {
    /// 0: not pinned. Else twice the epoch that it was pinned in, and 1.
    pinned: AtomicU64,
    /// The stamp of its oldest bag, or [`NONE`]: a hint, changed under the lock.
    oldest: AtomicU64,
    /// Belongs to a thread.
    in_use: AtomicBool,
    /// The oldest first. The thread's own lock, but for those who free what it left.
    bags: Mutex<VecDeque<Bag>>,
    /// The one that was made before.
    pub next: Option<&'static Local>,
}

impl Local {
    /// Belongs to the caller.
    pub fn new(next: Option<&'static Local>) -> Local {
        Local {
            pinned: AtomicU64::new(0),
            oldest: AtomicU64::new(NONE),
            in_use: AtomicBool::new(true),
            bags: Mutex::new(VecDeque::new()),
            next,
        }
    }

    /// True if it belonged to nobody: now it belongs to the caller.
    pub fn try_acquire(&self) -> bool {
        // Relaxed: a hint. Acquire: pairs with the Release in `leave`.
        !self.in_use.load(Ordering::Relaxed)
            && self
                .in_use
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// The thread ends; it is not pinned.
    pub fn release(&self) {
        // Release: pairs with the Acquire in `take`.
        self.in_use.store(false, Ordering::Release);
    }

    /// Says that the thread is pinned in `epoch`, before all that it reads from now on.
    #[inline]
    pub fn pin(&self, epoch: u64) {
        let pinned = epoch << 1 | 1;
        // Release: what the thread read under its last guard happened before this, for a collector
        // that sees this and not how that guard ended. The fence (its partner is in
        // `Collector::advance` and `Collector::close`): either the collector sees this, or the
        // thread sees all that was unlinked before the collector looked.
        #[cfg(all(target_arch = "x86_64", not(miri), not(feature = "loom")))]
        {
            // An exchange is both on this machine, and faster than a store and a fence.
            self.pinned.swap(pinned, Ordering::SeqCst);
            crate::primitive::atomic::compiler_fence(Ordering::SeqCst);
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri), not(feature = "loom"))))]
        {
            self.pinned.store(pinned, Ordering::Release);
            crate::primitive::atomic::fence(Ordering::SeqCst);
        }
    }

    /// The thread is not pinned any more.
    #[inline]
    pub fn unpin(&self) {
        // Release: pairs with the Acquire fence in `Collector::advance`: what was read under the
        // guard happened before anything is freed that waited for it.
        self.pinned.store(0, Ordering::Release);
    }

    /// Whether it is no reason to stay in `epoch`: not pinned, or pinned in this one.
    pub fn allows_advance_from(&self, epoch: u64) -> bool {
        // Relaxed: the collector's fences order it.
        let pinned = self.pinned.load(Ordering::Relaxed);
        pinned == 0 || pinned >> 1 == epoch
    }

    /// Whether the thread has closed a bag that is not yet taken.
    pub fn has_bags(&self) -> bool {
        self.oldest() != NONE
    }

    /// The stamp of its oldest bag; that of none is never due.
    pub fn oldest(&self) -> u64 {
        // Relaxed: a hint.
        self.oldest.load(Ordering::Relaxed)
    }

    /// A bag more. Stamps do not fall.
    pub fn push(&self, bag: Bag) {
        let mut bags = self.bags.lock();
        bags.push_back(bag);
        self.update_oldest(&bags);
    }

    /// The oldest bag, if it is stamped `latest` or before.
    pub fn pop(&self, latest: u64) -> Option<Bag> {
        let mut bags = self.bags.lock();
        bags.front().filter(|bag| bag.stamp <= latest)?;
        let bag = bags.pop_front();
        self.update_oldest(&bags);
        bag
    }

    /// The same for who is not the thread, if that has ended or the bag is as old as `patience`.
    pub fn steal(&self, latest: u64, now: Instant, patience: Duration) -> Option<Bag> {
        let mut bags = self.bags.lock();
        let bag = bags.front().filter(|bag| bag.stamp <= latest)?;
        // Relaxed: only how long to wait depends on it.
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
