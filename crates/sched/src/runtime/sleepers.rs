//! Sleeping and searching workers, and how one is woken.
//!
//! Section 5 of `docs/design/scheduler.md` has the protocol, its fences, and the proof that no task
//! is overlooked. The steps S1 to S5 and W1 to W4 are named where they are done.

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use hearth_sync::primitive::{Condvar, Mutex};
use std::time::Duration;

/// The set of sleeping workers, and the number of searching ones.
#[derive(Debug)]
pub struct Sleepers {
    /// A bit per run queue. The owner sets it; the owner or the waking thread clears it.
    idle: Box<[AtomicU64]>,
    /// A bit per run queue with a pinned owner that sleeps.
    pinned: Box<[AtomicU64]>,
    /// Workers that search, and woken ones that will. It may be too low for a moment, and is never
    /// too high.
    searching: AtomicI64,
    /// One worker will soon look again for tasks that thieves left because of affinity.
    watched: AtomicBool,
}

impl Sleepers {
    /// Returns a set without sleepers.
    pub fn new(run_queues: usize) -> Sleepers {
        let words = || (0..run_queues.div_ceil(64)).map(|_| AtomicU64::new(0));
        Sleepers {
            idle: words().collect(),
            pinned: words().collect(),
            searching: AtomicI64::new(0),
            watched: AtomicBool::new(false),
        }
    }

    /// S1: the worker of this run queue is about to sleep.
    pub fn enter(&self, at: usize) {
        // Relaxed: the fence S3 orders it against the look at the queues.
        self.idle[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
    }

    /// S1 for a pinned worker: [`Sleepers::claim_any`] does not find it.
    pub fn enter_pinned(&self, at: usize) {
        // Relaxed: as in `enter`.
        self.pinned[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
    }

    /// Claims a pinned worker, like [`Sleepers::claim`].
    pub fn claim_pinned(&self, at: usize) -> bool {
        let (word, bit) = (&self.pinned[at / 64], 1 << (at % 64));
        // Relaxed: as in `claim`; reading first keeps the cache line shared.
        word.load(Ordering::Relaxed) & bit != 0
            && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    /// Clears the bit. Returns true to the one caller that did: it must wake the worker, or is the
    /// worker.
    pub fn claim(&self, at: usize) -> bool {
        let bit = 1 << (at % 64);
        // Relaxed: the exchange makes it exclusive. The worker sees what it must through the locks
        // of its parker and of the queues.
        self.idle[at / 64].fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    /// Claims any sleeping worker.
    pub fn claim_any(&self) -> Option<usize> {
        for (at, word) in self.idle.iter().enumerate() {
            loop {
                // Relaxed: after the fence W2.
                let bits = word.load(Ordering::Relaxed);
                if bits == 0 {
                    break;
                }
                let first = at * 64 + bits.trailing_zeros() as usize;
                if self.claim(first) {
                    return Some(first);
                }
            }
        }
        None
    }

    /// Returns whether any worker sleeps.
    pub fn any(&self) -> bool {
        // Relaxed: after a fence of the caller.
        self.idle
            .iter()
            .any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Counts one more searching worker.
    pub fn start_searching(&self) {
        // Relaxed: nothing is published by it.
        self.searching.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one searching worker less. Returns true if it was the last.
    pub fn stop_searching(&self) -> bool {
        // AcqRel: the last one sees what earlier ones have put into their queues.
        self.searching.fetch_sub(1, Ordering::AcqRel) <= 1
    }

    /// Returns whether any worker searches.
    pub fn is_searching(&self) -> bool {
        // Relaxed: after the fence W2, which the fence of the last searcher follows.
        self.searching.load(Ordering::Relaxed) > 0
    }

    /// Becomes the watcher, unless there is one.
    pub fn watch(&self) -> bool {
        // Relaxed: exclusive by the exchange; nothing is published by it.
        !self.watched.swap(true, Ordering::Relaxed)
    }

    /// Stops being the watcher. The caller then makes a fence and looks at the queues.
    pub fn end_watch(&self) {
        // Relaxed: the caller's fence orders it.
        self.watched.store(false, Ordering::Relaxed);
    }

    /// Returns whether there is a watcher.
    pub fn is_watched(&self) -> bool {
        // Relaxed: after the fence W2, as for `is_searching`.
        self.watched.load(Ordering::Relaxed)
    }
}

lock_class!(UnparkLock = "sched.unpark", 2040);

/// Where one worker sleeps.
#[derive(Default)]
pub struct Parker {
    /// Set by unpark. Its mutex belongs to the condition variable.
    token: Mutex<bool>,
    changed: Condvar,
    /// How a worker is woken that sleeps in another way.
    elsewhere: Lock<UnparkLock, Option<Unpark>>,
}

/// Wakes a thread that sleeps in its own way. It must be short and call nothing of the scheduler.
pub type Unpark = Box<dyn Fn() + Send + Sync>;

impl Parker {
    /// Sleeps until unparked, at most for `limit`.
    pub fn park(&self, limit: Option<Duration>) {
        let mut token = self.token.lock();
        match limit {
            None => {
                while !*token {
                    self.changed.wait(&mut token);
                }
            }
            // A spurious wake-up is allowed: the caller looks again.
            Some(limit) if !*token => {
                self.changed.wait_for(&mut token, limit);
            }
            Some(_) => {}
        }
        *token = false;
    }

    /// Ends the current or the next [`Parker::park`].
    pub fn unpark(&self) {
        *self.token.lock() = true;
        self.changed.notify_one();
        if let Some(wake) = &*self.elsewhere.lock() {
            wake();
        }
    }

    /// Sets how the worker is woken besides, from now on.
    pub fn set_elsewhere(&self, wake: Option<Unpark>) {
        *self.elsewhere.lock() = wake;
    }
}

impl std::fmt::Debug for Parker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parker")
            .field("token", &self.token)
            .finish()
    }
}
