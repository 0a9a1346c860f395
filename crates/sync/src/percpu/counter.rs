//! A counter that each thread adds to on a line of its own.

use super::ThreadCounters;

/// One sum of [`ThreadCounters`], for statistics of a whole volume.
#[derive(Debug, Default)]
pub struct Counter(ThreadCounters<1>);

impl Counter {
    /// A counter at zero.
    pub fn new() -> Counter {
        Counter::default()
    }

    /// Adds `delta` to this thread's part.
    #[inline]
    pub fn add(&self, delta: i64) {
        self.0.add(0, delta);
    }

    /// The sum of all parts: exact when nobody adds meanwhile.
    pub fn sum(&self) -> i64 {
        self.0.sum(0)
    }
}
