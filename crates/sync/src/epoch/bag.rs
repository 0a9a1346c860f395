//! What one thread has retired, closed: freed as a whole, by whoever takes it when it is due.

use super::deferred::Deferred;
use std::time::Instant;

/// Retired things.
pub(super) struct Bag {
    /// The epoch in which it was closed.
    pub stamp: u64,
    /// When it was closed.
    pub sealed_at: Instant,
    pub deferred: Vec<Deferred>,
}
