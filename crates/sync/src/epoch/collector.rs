//! Epoch-based reclamation (K. Fraser, "Practical lock-freedom", 2004, section 5.2.3): decides when
//! a bag of retired values has expired.
//!
//! There is one global epoch. A pinned thread publishes the epoch in which it was pinned. The epoch
//! advances when all pinned threads have published the current one. A bag is stamped with the epoch
//! in which it was sealed and expires two epochs later: every thread that could have found one of
//! its values was pinned in the stamped epoch or before, and the second advance waited for that
//! guard.
//!
//! The orderings are in `docs/design/sync.md`, section 3; `tests/loom_epoch.rs` checks them.

use super::bag::Bag;
use super::deferred::Deferred;
use super::local::Local;
use crate::primitive::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use crossbeam_utils::CachePadded;
use std::ptr;
use std::time::{Duration, Instant};

/// Advances of the epoch that a bag waits for.
pub(super) const GRACE: u64 = 2;
/// The first epoch: `stamp - GRACE` never underflows.
const FIRST: u64 = GRACE;

/// The global epoch and the list of threads.
pub(super) struct Collector {
    epoch: CachePadded<AtomicU64>,
    /// The newest [`Local`]; the others are linked behind it. It grows with the largest number of
    /// threads at a time.
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

    /// Not `const` under loom, whose atomics have no const constructors.
    #[cfg(feature = "loom")]
    pub fn new() -> Collector {
        Collector {
            epoch: CachePadded::new(AtomicU64::new(FIRST)),
            first: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Registers the calling thread, which has to [release](Local::release) the result.
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
                // SAFETY: it was just allocated and is never freed from here on.
                return unsafe { &*mine };
            }
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(mine) });
            first = self.first();
        }
    }

    /// Pins the thread that owns `me`.
    #[inline]
    pub fn pin(&self, me: &Local) {
        // Relaxed: an old epoch only holds back more than necessary.
        me.pin(self.epoch.load(Ordering::Relaxed));
    }

    /// The current epoch, with Acquire: what happened before the epoch began is visible.
    pub fn epoch(&self) -> u64 {
        // Acquire: pairs with the exchange in `advance`.
        self.epoch.load(Ordering::Acquire)
    }

    /// Seals a bag of values that no thread can find any more unless it is pinned already.
    pub fn seal(&self, me: &Local, deferred: Vec<Deferred>, sealed_at: Instant) {
        let stamp = self.stamp();
        me.push(Bag {
            stamp,
            sealed_at,
            deferred,
        });
    }

    /// The stamp for values that no thread can find any more unless it is pinned already.
    pub fn stamp(&self) -> u64 {
        // SeqCst: a thread that pins behind this fence finds none of these values, and the stamp is
        // not less than the epoch of any thread that pinned before.
        fence(Ordering::SeqCst);
        // Relaxed: behind the fence.
        self.epoch.load(Ordering::Relaxed)
    }

    /// Whether every guard is gone that may see values with this stamp.
    pub fn is_expired(&self, stamp: u64) -> bool {
        stamp <= self.latest_expired()
    }

    /// Advances the epoch if all pinned threads allow it.
    pub fn advance(&self) {
        // Relaxed: before the fence.
        let epoch = self.epoch.load(Ordering::Relaxed);
        // SeqCst: sees every pin that was published before the pin of a thread that loaded a later
        // epoch.
        fence(Ordering::SeqCst);
        if !self.locals().all(|one| one.allows_advance_from(epoch)) {
            return;
        }
        // Acquire: pairs with the Releases of `Local::pin` and `Local::unpin`.
        fence(Ordering::Acquire);
        // Release, behind the fence: what was read under the guards that have ended happened before
        // the new epoch, and so did all that happened before this one. Relaxed on failure: another
        // thread has advanced it.
        let _ = self
            .epoch
            .compare_exchange(epoch, epoch + 1, Ordering::Release, Ordering::Relaxed);
    }

    /// The oldest bag of this thread, if it has expired.
    pub fn take_expired(&self, me: &Local) -> Option<Vec<Deferred>> {
        let latest = self.latest_expired();
        if me.oldest() > latest {
            return None;
        }
        Some(me.pop(latest)?.deferred)
    }

    /// An expired bag whose thread has exited, or has not collected for `patience`.
    pub fn take_abandoned(&self, now: Instant, patience: Duration) -> Option<Vec<Deferred>> {
        let latest = self.latest_expired();
        let mut due = self.locals().filter(|one| one.oldest() <= latest);
        Some(
            due.find_map(|one| one.steal(latest, now, patience))?
                .deferred,
        )
    }

    /// Whether some bag waits for an advance of the epoch.
    pub fn has_waiting_bags(&self) -> bool {
        let latest = self.latest_expired();
        self.locals()
            .any(|one| one.has_bags() && one.oldest() > latest)
    }

    /// The largest stamp that has expired.
    fn latest_expired(&self) -> u64 {
        self.epoch() - GRACE
    }

    fn locals(&self) -> impl Iterator<Item = &'static Local> {
        std::iter::successors(self.first(), |one| one.next)
    }

    fn first(&self) -> Option<&'static Local> {
        // Acquire: pairs with the Release in `join`.
        let first = self.first.load(Ordering::Acquire);
        // SAFETY: null, or allocated by `join` and never freed.
        unsafe { first.as_ref() }
    }
}
