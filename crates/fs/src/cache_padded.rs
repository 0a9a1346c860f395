//! A value that shares its cache line with nothing else.

/// A value on cache lines of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct CachePadded<T>(pub T);
