//! A per-CPU counter.

use super::PerCpu;
use crate::primitive::atomic::{AtomicI64, Ordering};

/// A counter that always has a part per core, for statistics of a whole volume.
#[derive(Debug)]
pub struct Counter {
    /// Written by their core, summed by readers.
    parts: PerCpu<AtomicI64>,
}

impl Counter {
    /// A counter at zero.
    pub fn new() -> Counter {
        Counter {
            parts: PerCpu::new(|_| AtomicI64::new(0)),
        }
    }

    /// Adds `delta` to this core's part.
    #[inline]
    pub fn add(&self, delta: i64) {
        // Relaxed: a statistic orders nothing.
        self.parts.get().fetch_add(delta, Ordering::Relaxed);
    }

    /// The sum of all parts: exact when nobody adds meanwhile.
    pub fn sum(&self) -> i64 {
        // Relaxed: see `add`.
        self.parts.iter().fold(0, |sum, part| {
            sum.wrapping_add(part.load(Ordering::Relaxed))
        })
    }
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}
