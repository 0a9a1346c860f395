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
pub(super) struct Participant {
    /// 0: not pinned. Else twice the epoch that it was pinned in, and 1.
    pinned: AtomicU64,
    /// The stamp of its oldest bag, or [`NONE`]: a hint, changed under the lock.
    oldest: AtomicU64,
    /// Belongs to a thread.
    taken: AtomicBool,
    /// The oldest first. The thread's own lock, but for those who free what it left.
    closed: Mutex<VecDeque<Bag>>,
    /// The one that was made before.
    pub next: Option<&'static Participant>,
}

impl Participant {
    /// Belongs to the caller.
    pub fn new(next: Option<&'static Participant>) -> Participant {
        Participant {
            pinned: AtomicU64::new(0),
            oldest: AtomicU64::new(NONE),
            taken: AtomicBool::new(true),
            closed: Mutex::new(VecDeque::new()),
            next,
        }
    }

    /// True if it belonged to nobody: now it belongs to the caller.
    pub fn take(&self) -> bool {
        // Relaxed: a hint. Acquire: pairs with the Release in `leave`.
        !self.taken.load(Ordering::Relaxed)
            && self
                .taken
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// The thread ends; it is not pinned.
    pub fn leave(&self) {
        // Release: pairs with the Acquire in `take`.
        self.taken.store(false, Ordering::Release);
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
    pub fn allows_end_of(&self, epoch: u64) -> bool {
        // Relaxed: the collector's fences order it.
        let pinned = self.pinned.load(Ordering::Relaxed);
        pinned == 0 || pinned >> 1 == epoch
    }

    /// Whether the thread has closed a bag that is not yet taken.
    pub fn has_closed(&self) -> bool {
        self.oldest() != NONE
    }

    /// The stamp of its oldest bag; that of none is never due.
    pub fn oldest(&self) -> u64 {
        // Relaxed: a hint.
        self.oldest.load(Ordering::Relaxed)
    }

    /// A bag more. Stamps do not fall.
    pub fn push(&self, bag: Bag) {
        let mut closed = self.closed.lock();
        closed.push_back(bag);
        self.tell_oldest(&closed);
    }

    /// The oldest bag, if it is stamped `latest` or before.
    pub fn pop(&self, latest: u64) -> Option<Bag> {
        let mut closed = self.closed.lock();
        closed.front().filter(|bag| bag.stamp <= latest)?;
        let bag = closed.pop_front();
        self.tell_oldest(&closed);
        bag
    }

    /// The same for who is not the thread, if that has ended or the bag is as old as `patience`.
    pub fn pop_left(&self, latest: u64, now: Instant, patience: Duration) -> Option<Bag> {
        let mut closed = self.closed.lock();
        let bag = closed.front().filter(|bag| bag.stamp <= latest)?;
        // Relaxed: only how long to wait depends on it.
        let is_left = !self.taken.load(Ordering::Relaxed);
        if !is_left && now.saturating_duration_since(bag.since) < patience {
            return None;
        }
        let bag = closed.pop_front();
        self.tell_oldest(&closed);
        bag
    }

    fn tell_oldest(&self, closed: &VecDeque<Bag>) {
        let oldest = closed.front().map_or(NONE, |bag| bag.stamp);
        // Relaxed: a hint.
        self.oldest.store(oldest, Ordering::Relaxed);
    }
}
