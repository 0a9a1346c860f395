//! Epoch-based reclamation (K. Fraser, "Practical lock-freedom", 2004, section 5.2.3): when a bag
//! of retired things is due.
//!
//! There is one epoch. A thread says in which one it was pinned; the epoch ends when all that are
//! pinned say the present one. A bag is stamped with the epoch in which it was closed, and due two
//! epochs later: whoever could have found one of its things was pinned in that epoch or before, and
//! the second end waited for that guard.
//!
//! The orderings are in `docs/design/sync.md`, section 3; `tests/loom_epoch.rs` checks them.

use super::bag::Bag;
use super::deferred::Deferred;
use super::local::Local;
use crate::primitive::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use crossbeam_utils::CachePadded;
use std::ptr;
use std::time::{Duration, Instant};

/// Ends of epochs that a bag waits for.
const GRACE: u64 = 2;
/// The first epoch: nothing is stamped with what a bag waits for less than that.
const FIRST: u64 = GRACE;

/// The epoch, and who takes part.
pub(super) struct Collector {
    epoch: CachePadded<AtomicU64>,
    /// The youngest participant; the others hang behind it. Changes with the most threads that
    /// there ever were at a time.
    first: AtomicPtr<Local>,
}

impl Collector {
    #[cfg(not(feature = "loom"))]
    pub const fn new() -> Collector {
        Collector {
            epoch: CachePadded::new(AtomicU64::new(FIRST)),
            first: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The same for the model checker, whose atomics cannot be made at compile time.
    #[cfg(feature = "loom")]
    pub fn new() -> Collector {
        Collector {
            epoch: CachePadded::new(AtomicU64::new(FIRST)),
            first: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// A participant for the calling thread, which has to [leave](Participant::leave) it.
    pub fn join(&self) -> &'static Local {
        if let Some(left) = self.locals().find(|one| one.try_acquire()) {
            return left;
        }
        let mut first = self.first();
        loop {
            let mine = Box::into_raw(Box::new(Local::new(first)));
            let before = first.map_or(ptr::null_mut(), |first| ptr::from_ref(first).cast_mut());
            // Release: pairs with the Acquire in `first`.
            let pushed =
                self.first
                    .compare_exchange(before, mine, Ordering::Release, Ordering::Relaxed);
            if pushed.is_ok() {
                // SAFETY: it was just made and is never freed from here on.
                return unsafe { &*mine };
            }
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(mine) });
            first = self.first();
        }
    }

    /// Pins the thread whose participant `me` is.
    #[inline]
    pub fn pin(&self, me: &Local) {
        // Relaxed: an old epoch only holds back more than need be.
        me.pin(self.epoch.load(Ordering::Relaxed));
    }

    /// The present epoch; what happened before it began has happened.
    pub fn epoch(&self) -> u64 {
        // Acquire: pairs with the exchange in `advance`.
        self.epoch.load(Ordering::Acquire)
    }

    /// Closes a bag of things that nobody can find any more who is not pinned already.
    pub fn seal(&self, me: &Local, deferred: Vec<Deferred>, sealed_at: Instant) {
        let stamp = self.stamp();
        me.push(Bag {
            stamp,
            sealed_at,
            deferred,
        });
    }

    /// The stamp of what nobody can find any more who is not pinned already.
    pub fn stamp(&self) -> u64 {
        // SeqCst: whoever pins behind this fence finds nothing of it, and the stamp is not less
        // than the epoch of anybody who pinned before.
        fence(Ordering::SeqCst);
        // Relaxed: behind the fence.
        self.epoch.load(Ordering::Relaxed)
    }

    /// Whether every guard is gone that may see what was stamped so.
    pub fn is_expired(&self, stamp: u64) -> bool {
        stamp <= self.latest_expired()
    }

    /// Ends the epoch if all who are pinned allow it.
    pub fn advance(&self) {
        // Relaxed: before the fence.
        let epoch = self.epoch.load(Ordering::Relaxed);
        // SeqCst: sees every pin that was said before the one that loaded a later epoch.
        fence(Ordering::SeqCst);
        if !self.locals().all(|one| one.allows_advance_from(epoch)) {
            return;
        }
        // Acquire: pairs with the Releases of `Local::pin` and `unpin`.
        fence(Ordering::Acquire);
        // Release, behind the fence: what was read under the guards that have ended happened before
        // the new epoch, and so did all that happened before this one. Relaxed: another one has
        // ended it.
        let _ = self
            .epoch
            .compare_exchange(epoch, epoch + 1, Ordering::Release, Ordering::Relaxed);
    }

    /// The oldest bag of the thread itself, once it is due.
    pub fn take_expired(&self, me: &Local) -> Option<Vec<Deferred>> {
        let latest = self.latest_expired();
        if me.oldest() > latest {
            return None;
        }
        Some(me.pop(latest)?.deferred)
    }

    /// A due bag whose thread has ended, or has not come for it in `patience`.
    pub fn take_abandoned(&self, now: Instant, patience: Duration) -> Option<Vec<Deferred>> {
        let latest = self.latest_expired();
        let mut due = self.locals().filter(|one| one.oldest() <= latest);
        Some(
            due.find_map(|one| one.steal(latest, now, patience))?
                .deferred,
        )
    }

    /// Whether some bag waits for the end of an epoch.
    pub fn has_waiting_bags(&self) -> bool {
        let latest = self.latest_expired();
        self.locals()
            .any(|one| one.has_bags() && one.oldest() > latest)
    }

    /// Bags with this stamp are due, and all before.
    fn latest_expired(&self) -> u64 {
        self.epoch() - GRACE
    }

    fn locals(&self) -> impl Iterator<Item = &'static Local> {
        std::iter::successors(self.first(), |one| one.next)
    }

    fn first(&self) -> Option<&'static Local> {
        // Acquire: pairs with the Release in `join`.
        let first = self.first.load(Ordering::Acquire);
        // SAFETY: null, or made by `join` from a box and never freed.
        unsafe { first.as_ref() }
    }
}
