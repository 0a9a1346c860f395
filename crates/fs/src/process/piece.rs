//! How much a call does under one epoch guard before it drops the guard in between.

/// Most bytes that are moved.
pub(super) const BYTES: usize = 1 << 20;
/// Most entries that are listed.
pub(super) const ENTRIES: usize = 1024;
