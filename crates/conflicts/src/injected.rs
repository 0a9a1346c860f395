//! The injected fault: a clock that counts its readers, which is a counter that all changes of a
//! volume share.

use hearth::{Clock, Time};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether the volumes of cases have it. Relaxed: changed only while there is no worker.
pub static INJECTED: AtomicBool = AtomicBool::new(false);

/// A clock that counts its readers.
pub struct CountingClock<C> {
    clock: C,
    readers: AtomicU64,
}

impl<C> CountingClock<C> {
    /// Returns `clock`, counted.
    pub fn new(clock: C) -> CountingClock<C> {
        CountingClock {
            clock,
            readers: AtomicU64::new(0),
        }
    }
}

impl<C: Clock> Clock for CountingClock<C> {
    fn now(&self) -> Time {
        // Relaxed: a count by itself.
        self.readers.fetch_add(1, Ordering::Relaxed);
        self.clock.now()
    }
}
