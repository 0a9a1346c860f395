//! The state that a serving thread and the monitor share.

use hearth_sync::primitive::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

pub(super) const USUAL: u32 = 0;
pub(super) const WANTS: u32 = 1;
pub(super) const IDLE: u32 = 2;
pub(super) const RESTS: u32 = 3;
pub(super) const NEVER: u32 = 4;

/// What a thread and the monitor share, on cache lines of its own. Relaxed: each word is read by
/// itself. Each step of the phase is made by one side only, and the thread alone writes the other
/// words.
#[repr(align(128))]
pub(super) struct ThreadShared {
    phase: AtomicU32,
    /// The thread has replied to all that it took. It may be ready to run although it has nothing
    /// to do.
    is_free: AtomicBool,
    /// Nanoseconds since the thread joined in which it was ready to run but had nothing to do.
    excused: AtomicU64,
}

impl ThreadShared {
    pub fn new() -> ThreadShared {
        ThreadShared {
            phase: AtomicU32::new(USUAL),
            is_free: AtomicBool::new(false),
            excused: AtomicU64::new(0),
        }
    }

    pub fn phase(&self) -> u32 {
        self.phase.load(Relaxed)
    }

    pub fn turn_to(&self, phase: u32) {
        self.phase.store(phase, Relaxed);
    }

    /// Sets whether it has replied to all that it took, and has nothing else to do.
    pub fn set_free(&self, is_free: bool) {
        self.is_free.store(is_free, Relaxed);
    }

    /// Adds time in which the thread was ready to run but had nothing to do.
    pub fn add_excused(&self, more: Duration) {
        let excused = self.excused.load(Relaxed) + more.as_nanos() as u64;
        self.excused.store(excused, Relaxed);
    }

    /// Whether it has replied to what it took, and has nothing else to do.
    pub fn is_free(&self) -> bool {
        self.is_free.load(Relaxed)
    }

    /// The time since the thread joined in which it was ready to run but had nothing to do.
    pub fn excused(&self) -> Duration {
        Duration::from_nanos(self.excused.load(Relaxed))
    }
}
