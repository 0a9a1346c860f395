//! A bag: what one thread has retired, sealed. It is freed as a whole by the thread that takes it
//! once it has expired.

use super::deferred::Deferred;
use std::time::Instant;

/// A sealed bag of deferred drops.
pub(super) struct Bag {
    /// The epoch in which it was sealed.
    pub stamp: u64,
    /// When it was sealed.
    pub sealed_at: Instant,
    pub deferred: Vec<Deferred>,
}
