//! The profile in builds that have none: under a model checker, and where its price is measured.

use super::{Key, Sampling, Snapshot};

/// Locks are never recorded.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    false
}

/// Only the bit that says that somebody writes.
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

/// Nothing to stop.
pub fn stop() {}

/// Nothing to forget.
pub fn reset() {}

/// Empty.
pub fn snapshot() -> Snapshot {
    Snapshot::default()
}
