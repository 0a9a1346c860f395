//! What exists because the kernel caches in front of the volume: the front end's half.
//!
//! The contract is [`hearth::KernelCache`]'s; here stands how this crate keeps it.
//!
//! | what the kernel keeps | what keeps it true |
//! |---|---|
//! | names, attributes, pages | [`notifier`]: library threads announce their changes |
//! | sizes and times, with a writeback cache | [`notifier`], [`closed_files`]: stale inodes go |
//! | an older mtime than that of a write it passed on | [`cached_mtime`]: it is not stored |
//! | pages read beside an asynchronous direct write | [`direct_writes`]: dropped before its reply |
//! | blocks of an open file, with a writeback cache | [`told_blocks`]: told when pages have come |
//! | the mode of a file whose contents change | [`suid_killer`]: told before the contents change |
//! | writes of files that may be limited | `FOPEN_DIRECT_IO`: `ops/files.rs` opens them so |

pub(super) mod by_inode;
pub(crate) mod cached_mtime;
pub(crate) mod closed_files;
pub(crate) mod direct_writes;
pub(crate) mod notifier;
pub(crate) mod suid_killer;
pub(crate) mod told_blocks;
