//! Names of files that say how a volume is used.

/// Stands in a directory as long as `mkfs` has not ended.
pub(super) const UNFINISHED: &str = "unfinished";
/// Stands in the directory of a volume as long as a dump is loaded into it.
pub(super) const LOADING: &str = "loading";
/// The folder of segments. It is locked, shared, by who reads them beside a writer.
pub(super) const SEGMENTS: &str = "segments";
/// Locked by who has the volume open; holds the name of a writer.
pub(super) const LOCK: &str = "lock";
