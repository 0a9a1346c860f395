//! The token by which a waiting lock request is called back.

use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;

/// Ends a waiting lock request early. Clones are the same token.
///
/// A token that was triggered stays so: a request that has to wait then answers `EINTR` at once,
/// one that can have its lock at once still gets it.
#[derive(Clone, Default)]
pub struct Interrupt {
    bed: Arc<Bed>,
}

/// Where a waiting thread sleeps.
#[derive(Default)]
struct Bed {
    triggered: Lock<BedLock, bool>,
    changed: Condition,
}

lock_class!(BedLock = "lock-waiter", super::BED_RANK);

impl Interrupt {
    /// A token that was not triggered.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Interrupts the request that waits with this token, now or later.
    pub fn trigger(&self) {
        *self.bed.triggered.lock() = true;
        self.bed.changed.notify_all();
    }

    /// Whether [`Interrupt::trigger`] was called.
    pub fn is_triggered(&self) -> bool {
        *self.bed.triggered.lock()
    }

    /// Sleeps until `done` or until the token is triggered. Whoever makes `done` true calls
    /// [`Interrupt::wake`] afterwards.
    pub(super) fn sleep_until(&self, done: impl Fn() -> bool) {
        let mut triggered = self.bed.triggered.lock();
        while !*triggered && !done() {
            triggered.wait(&self.bed.changed);
        }
    }

    /// Lets a sleeper look again. Taking the mutex closes the gap between its look and its sleep.
    pub(super) fn wake(&self) {
        drop(self.bed.triggered.lock());
        self.bed.changed.notify_all();
    }
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupt")
            .field("triggered", &self.is_triggered())
            .finish()
    }
}
