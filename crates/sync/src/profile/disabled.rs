//! The profile in builds without one: under a model checker, and to measure its price.

use super::{Key, Sampling, Snapshot};

/// Locks are never recorded.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    false
}

/// Only the bit of a writer at work.
#[inline(always)]
pub(crate) fn write_mask() -> u32 {
    1
}

#[inline(always)]
pub(crate) fn now() -> u64 {
    0
}

#[inline(always)]
pub(crate) fn try_unsampled(_take: impl FnOnce() -> bool) -> bool {
    false
}

#[inline(always)]
pub(crate) fn taken(_address: usize, _key: impl FnOnce() -> Key, _bounced: bool) -> bool {
    false
}

#[inline(always)]
pub(crate) fn waited(_address: usize, _key: &Key, _bounced: bool, _since: u64) -> bool {
    false
}

#[inline(always)]
pub(crate) fn granted(_key: &Key, _since: Option<u64>) {}

#[inline(always)]
pub(crate) fn refused(_key: &Key) {}

#[inline(always)]
pub(crate) fn released(_address: usize) {}

/// False: this build has no profile.
pub fn start(_draw: Sampling) -> bool {
    false
}

/// Does nothing.
pub fn stop() {}

/// Does nothing.
pub fn reset() {}

/// An empty snapshot.
pub fn snapshot() -> Snapshot {
    Snapshot::default()
}
