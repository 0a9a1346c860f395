//! A byte that says which core took a lock last.

use super::const_unless_loom;
use crate::primitive::atomic::{AtomicU8, Ordering};
use crate::primitive::core;

/// Set in every byte but that of a lock that nobody took.
const SOMEBODY: u8 = 0x80;

/// The core that took a lock last: its number below 128, 0 for none. Cores from 128 on
/// share numbers with others.
///
/// Lies beside the word of its lock, which taking the lock has just written, and is written by
/// the holder only.
#[derive(Debug, Default)]
pub struct LastCore(AtomicU8);

impl LastCore {
    const_unless_loom! {
        /// Nobody yet.
        pub fn new() -> LastCore {
            LastCore(AtomicU8::new(0))
        }
    }

    /// Notes this core. The caller holds the lock.
    #[inline(always)]
    pub fn stamp(&self) {
        // Relaxed: written by holders only, and the lock orders them.
        self.0.store(core() as u8 | SOMEBODY, Ordering::Relaxed);
    }

    /// Notes this core; true if another one was noted before. The caller holds the lock.
    #[inline]
    pub fn note(&self) -> bool {
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
