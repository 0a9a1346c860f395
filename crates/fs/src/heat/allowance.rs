//! How much a core records one by one before it is a sample.

use hearth_sync::primitive::atomic::{AtomicU64, Ordering};

/// Most accesses that one recording stands for.
pub(super) const MOST: u64 = 1024;
/// Milliseconds between two folds of the background, at the least.
const APART: u64 = 100;

/// What may be recorded one by one between two folds; beyond, it is a sample.
pub(super) struct Allowance {
    /// What gathers while little is recorded.
    pub most: u64,
    /// What there is after each fold, however much was recorded.
    pub least: u64,
    pub per_second: u64,
    /// Each so many beyond the allowance, a recording stands for four times as many.
    pub step: u64,
}

impl Allowance {
    /// How many accesses one recording stands for, after so many: 1, beyond the allowance 4, 16 and
    /// so on up to [`MOST`].
    pub fn weight(&self, recorded: u64, allowed: u64) -> u64 {
        match recorded.checked_sub(allowed) {
            None => 1,
            Some(more) => (4 << (2 * (more / self.step)).min(8)).min(MOST),
        }
    }

    /// A fold is over, `millis` after the last one and `recorded` recordings. Whether that was more
    /// than allowed. One that comes early, for somebody who asks, brings what the time is worth
    /// only.
    pub fn renew(&self, allowed: &AtomicU64, recorded: u64, millis: u64) -> bool {
        let before = allowed.load(Ordering::Relaxed);
        let gained = millis.saturating_mul(self.per_second) / 1000;
        let next = before.saturating_sub(recorded).saturating_add(gained);
        let least = if millis < APART { 0 } else { self.least };
        allowed.store(next.clamp(least, self.most), Ordering::Relaxed);
        recorded > before
    }
}
