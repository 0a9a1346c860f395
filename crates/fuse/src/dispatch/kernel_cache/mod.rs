//! What exists because a kernel caches in front of the volume.

pub(crate) mod cached_mtime;
pub(crate) mod notifier;
pub(crate) mod suid_killer;
