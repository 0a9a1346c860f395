//! No bound: the stand-ins for the epoch drop values at the first moment they may.

use super::Guard;

/// Returns 0: nothing is counted.
pub fn pending() -> u64 {
    0
}

/// Returns at once.
#[inline]
pub fn throttle() {}

/// Frees nothing: see `throttle`.
pub fn free_leftovers() {}

/// Does nothing: nobody waits.
pub fn yield_between_operations(_on: bool) {}

/// Returns at once.
pub fn throttle_background() {}

pub(super) fn account(_bytes: usize, _g: &Guard) {}

pub(super) fn flush_batch(_g: &Guard) {}
