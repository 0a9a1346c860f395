//! How much a call does under one guard of the epoch, before it lets go in between.

/// Most bytes that are moved.
pub(super) const BYTES: usize = 1 << 20;
/// Most entries that are listed.
pub(super) const ENTRIES: usize = 1024;
