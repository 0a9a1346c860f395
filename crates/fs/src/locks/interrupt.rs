//! The token that interrupts a waiting lock request.

use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;

/// Ends a waiting lock request early. Clones are one token.
///
/// A triggered token stays triggered: a request that would have to wait then fails with `EINTR` at
/// once, and one that can be granted at once still is.
#[derive(Clone, Default)]
pub struct Interrupt {
    sleeper: Arc<Sleeper>,
}

/// Where a waiting thread sleeps.
#[derive(Default)]
struct Sleeper {
    triggered: Lock<SleeperLock, bool>,
    changed: Condition,
}

lock_class!(SleeperLock = "lock-waiter", super::SLEEPER_RANK);

impl Interrupt {
    /// A token that is not triggered.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Interrupts the request that waits with this token, now or later.
    pub fn trigger(&self) {
        *self.sleeper.triggered.lock() = true;
        self.sleeper.changed.notify_all();
    }

    /// Whether [`Interrupt::trigger`] was called.
    pub fn is_triggered(&self) -> bool {
        *self.sleeper.triggered.lock()
    }

    /// Sleeps until `done` or until the token is triggered. [`Interrupt::wake`] must be called
    /// after `done` becomes true.
    pub(super) fn sleep_until(&self, done: impl Fn() -> bool) {
        let mut triggered = self.sleeper.triggered.lock();
        while !*triggered && !done() {
            triggered.wait(&self.sleeper.changed);
        }
    }

    /// Lets a sleeper check again. Taking the mutex closes the gap between its check and its sleep.
    pub(super) fn wake(&self) {
        drop(self.sleeper.triggered.lock());
        self.sleeper.changed.notify_all();
    }
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupt")
            .field("triggered", &self.is_triggered())
            .finish()
    }
}
