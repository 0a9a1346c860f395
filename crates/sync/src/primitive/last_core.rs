//! The core that took a lock last, in one byte.

use super::const_unless_loom;
use crate::primitive::atomic::{AtomicU8, Ordering};
use crate::primitive::core;

/// Set in every byte except that of a lock that was never taken.
const SOMEBODY: u8 = 0x80;

/// The core that took a lock last: its number below 128, or 0 for none. Cores from 128 on share
/// numbers with others.
///
/// Lies beside the word of its lock, which the taker has just written, and is written by the holder
/// only.
#[derive(Debug, Default)]
pub struct LastCore(AtomicU8);

impl LastCore {
    const_unless_loom! {
        /// No core yet.
        pub fn new() -> LastCore {
            LastCore(AtomicU8::new(0))
        }
    }

    /// Stores this core. The caller holds the lock.
    #[inline(always)]
    pub fn set(&self) {
        // Relaxed: written by holders only, and the lock orders them.
        self.0.store(core() as u8 | SOMEBODY, Ordering::Relaxed);
    }

    /// Stores this core; true if another one was stored before. The caller holds the lock.
    #[inline]
    pub fn update(&self) -> bool {
        let mine = core() as u8 | SOMEBODY;
        // Relaxed: written by holders only, and the lock orders them.
        let before = self.0.load(Ordering::Relaxed);
        if before == mine {
            return false;
        }
        // Relaxed: as above.
        self.0.store(mine, Ordering::Relaxed);
        before != 0
    }
}
