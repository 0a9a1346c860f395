//! What one thread has retired, closed: freed as a whole, by whoever takes it when it is due.

use super::work::Work;
use std::time::Instant;

/// Retired things.
pub(super) struct Bag {
    /// The epoch in which it was closed.
    pub stamp: u64,
    /// When it was closed.
    pub since: Instant,
    pub works: Vec<Work>,
}
