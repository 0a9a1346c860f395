//! What exists because a kernel caches in front of a volume.
//!
//! The contract. A kernel may acknowledge writes before the volume sees them, serve reads from its
//! own pages, and keep sizes, times and modes of its own. Therefore:
//!
//! - A write that a limit may refuse is charged before the kernel acknowledges it: the file is
//!   passed
//!   on write by write ([`KernelCache::charges_first`]), and pages that a mapping may change have
//!   their blocks reserved when they are read ([`KernelCache::read_for_cache`]).
//! - What the kernel has acknowledged is never refused: it is stored though the file is immutable
//!   or
//!   the volume read-only by now ([`KernelCache::write_back`], [`KernelCache::settle_times`]).
//! - The kernel goes by the mode that it has cached, so setuid and setgid go, and the kernel is
//!   told,
//!   before there are other contents to run ([`KernelCache::strip_suidgid`]).
//! - The kernel does not know that `O_APPEND` of an append-only file stays
//!   ([`KernelCache::appends_only`]).
//!
//! The front end's half (notifications, the mtimes that the kernel has cached) is in
//! `crates/fuse/src/dispatch/kernel_cache/`.

mod volume;
mod volume_impl;

use super::{Vfs, VfsResult};
use crate::attr::{Attr, SetAttr};
use crate::caller::Caller;

/// A [`Vfs`] behind a kernel that caches.
pub trait KernelCache: Vfs {
    /// The times of writes that a kernel in front has acknowledged, which it keeps itself; also of
    /// a volume that has become read-only since. Answers the new attributes.
    fn settle_times(&self, caller: &Caller<'_>, ino: u64, set: &SetAttr) -> VfsResult<Attr>;

    /// For a kernel in front: whether it must pass on each read and write of `file`, which was
    /// opened just now, because a quota may refuse what it would acknowledge by itself. A front end
    /// that shows open files as [`crate::Observer::collecting`] shows this one before it asks.
    fn charges_first(&self, file: &Self::File) -> bool;

    /// [`Vfs::read`] of what goes into a kernel's cache, where a mapping of a file that
    /// [`KernelCache::charges_first`] may change it: `EDQUOT` or `ENOSPC` if it can be written to
    /// and there is no room for its holes.
    fn read_for_cache(&self, file: &Self::File, off: u64, out: &mut [u8]) -> VfsResult<usize>;

    /// Whether only the end of `file` may be written to, whatever its flags are by now: it was
    /// opened for appending, and is append-only. Linux lets nobody clear `O_APPEND` then, which a
    /// kernel in front of the volume does not know.
    fn appends_only(&self, file: &Self::File) -> bool;

    /// Setuid and setgid go from a file whose contents `caller` is about to change, who is not
    /// root: whether there were any. A kernel in front goes by the mode that it has, and does not
    /// expect a change of contents to change it: so it is told before there are other contents to
    /// run.
    fn strip_suidgid(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<bool>;

    /// Writes what a kernel in front has acknowledged before, also to a file that has become
    /// immutable since, and to a volume that has become read-only. A kernel that keeps times itself
    /// (`!touches`) says by [`KernelCache::settle_times`] when it was written, and may do so
    /// before.
    fn write_back(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        off: u64,
        data: &[u8],
        kill_suidgid: bool,
        touches: bool,
    ) -> VfsResult<usize>;
}
