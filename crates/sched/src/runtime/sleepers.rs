//! Who sleeps, who looks for work, and how one is woken.
//!
//! The protocol, with its fences and why no task is overlooked, is section 5 of
//! `docs/design/scheduler.md`; the steps S1 to S5 and W1 to W4 are named where they are done.

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use hearth_sync::primitive::{Condvar, Mutex};
use std::time::Duration;

/// The workers that sleep and how many look for work.
#[derive(Debug)]
pub struct Sleepers {
    /// A bit per run queue. Set by who drives it, cleared by it or by who wakes it.
    idle: Box<[AtomicU64]>,
    /// The same for those that are woken for what is theirs alone.
    pinned: Box<[AtomicU64]>,
    /// Workers that look for work, and woken ones that will. May be too low for a moment, never
    /// too high.
    searching: AtomicI64,
    /// One worker looks again soon for tasks that thieves left where they are.
    watched: AtomicBool,
}

impl Sleepers {
    /// Nobody sleeps.
    pub fn new(run_queues: usize) -> Sleepers {
        let words = || (0..run_queues.div_ceil(64)).map(|_| AtomicU64::new(0));
        Sleepers {
            idle: words().collect(),
            pinned: words().collect(),
            searching: AtomicI64::new(0),
            watched: AtomicBool::new(false),
        }
    }

    /// S1: this run queue's worker is about to sleep.
    pub fn enter(&self, at: usize) {
        // Relaxed: the fence S3 orders it against the look at the queues.
        self.idle[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
    }

    /// S1 of a worker that helps nobody: [`Sleepers::claim_any`] does not find it.
    pub fn enter_pinned(&self, at: usize) {
        // Relaxed: as in `enter`.
        self.pinned[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
    }

    /// [`Sleepers::claim`] of a worker that helps nobody.
    pub fn claim_pinned(&self, at: usize) -> bool {
        let (word, bit) = (&self.pinned[at / 64], 1 << (at % 64));
        // Relaxed: as in `claim`; the look before it keeps the line where it is.
        word.load(Ordering::Relaxed) & bit != 0
            && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    /// Clears the bit; true for the one call that did, which then owes the worker its wake-up,
    /// or is the worker.
    pub fn claim(&self, at: usize) -> bool {
        let bit = 1 << (at % 64);
        // Relaxed: exclusive by the exchange; what the worker must see it sees through the
        // parker's lock and the queues' locks.
        self.idle[at / 64].fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    /// Claims any worker that sleeps.
    pub fn claim_any(&self) -> Option<usize> {
        for (at, word) in self.idle.iter().enumerate() {
            loop {
                // Relaxed: after the fence W2, see there.
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

    /// Whether anybody sleeps.
    pub fn any(&self) -> bool {
        // Relaxed: after a fence of the caller.
        self.idle
            .iter()
            .any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// One more looks for work.
    pub fn start_searching(&self) {
        // Relaxed: nothing is published by it.
        self.searching.fetch_add(1, Ordering::Relaxed);
    }

    /// One less looks for work; true when it was the last.
    pub fn stop_searching(&self) -> bool {
        // AcqRel: the last one sees what those before it have put into their queues.
        self.searching.fetch_sub(1, Ordering::AcqRel) <= 1
    }

    /// Whether anybody looks for work.
    pub fn is_searching(&self) -> bool {
        // Relaxed: after the fence W2, which the last searcher's fence follows.
        self.searching.load(Ordering::Relaxed) > 0
    }

    /// Becomes the one who watches, if there is none.
    pub fn watch(&self) -> bool {
        // Relaxed: exclusive by the exchange; nothing is published by it.
        !self.watched.swap(true, Ordering::Relaxed)
    }

    /// Gives the watch up; the caller makes a fence and looks at the queues.
    pub fn end_watch(&self) {
        // Relaxed: the caller's fence orders it.
        self.watched.store(false, Ordering::Relaxed);
    }

    /// Whether somebody watches.
    pub fn is_watched(&self) -> bool {
        // Relaxed: after the fence W2, as for `is_searching`.
        self.watched.load(Ordering::Relaxed)
    }
}

lock_class!(UnparkLock = "sched.unpark", 2040);

/// Where one worker sleeps.
#[derive(Default)]
pub struct Parker {
    /// Of the condition: held while it is told or asked.
    token: Mutex<bool>,
    changed: Condvar,
    /// How a worker that sleeps elsewhere is woken.
    elsewhere: Lock<UnparkLock, Option<Unpark>>,
}

/// Wakes a thread that sleeps in its own way; short, and calls nothing of the scheduler.
pub type Unpark = Box<dyn Fn() + Send + Sync>;

impl Parker {
    /// Sleeps until unparked, or for `limit`.
    pub fn park(&self, limit: Option<Duration>) {
        let mut token = self.token.lock();
        match limit {
            None => {
                while !*token {
                    self.changed.wait(&mut token);
                }
            }
            // Woken for nothing is allowed: the caller looks around and comes back.
            Some(limit) if !*token => {
                self.changed.wait_for(&mut token, limit);
            }
            Some(_) => {}
        }
        *token = false;
    }

    /// Ends the present or the next [`Parker::park`].
    pub fn unpark(&self) {
        *self.token.lock() = true;
        self.changed.notify_one();
        if let Some(wake) = &*self.elsewhere.lock() {
            wake();
        }
    }

    /// Says how the worker is woken from now on besides.
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
