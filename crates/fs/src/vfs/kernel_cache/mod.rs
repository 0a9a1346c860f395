//! What exists because a kernel caches in front of a volume.
//!
//! The contract. A kernel may acknowledge writes before the volume sees them, serve reads from its
//! own pages, and keep sizes, times and modes of its own. Therefore:
//!
//! - A write that a limit may refuse is charged before the kernel acknowledges it: the kernel
//!   passes on each write to such a file ([`KernelCache::charges_first`]), and pages that a mapping
//!   may change have their blocks reserved when they are read ([`KernelCache::read_for_cache`]).
//! - What the kernel has acknowledged is never refused: it is stored though the file is immutable
//!   or the volume read-only by now ([`KernelCache::write_back`], [`KernelCache::settle_times`]).
//!   Where there is no space for it, or a device fails, what is lost is reported
//!   ([`KernelCache::lose`]).
//! - The kernel goes by the mode that it has cached. So setuid and setgid are cleared, and the
//!   kernel is notified, before there are other contents to run ([`KernelCache::strip_suidgid`]).
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
use crate::errno::{Errno, Result};
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// A [`Vfs`] behind a kernel that caches.
pub trait KernelCache: Vfs {
    /// Whether others change what is served, without a word to anybody. The kernel then keeps its
    /// caches for their timeouts only, collects no writes, and has the locks to itself.
    fn is_changed_behind(&self) -> bool {
        false
    }

    /// Whether the kernel may read and write what lies below `file` by itself, which nobody sees
    /// then: passes the open file below to `register`, with the rights of `caller`. `None`:
    /// somebody has to see it, or there is no such file. It is asked at the first open of an inode,
    /// and the answer holds until the last close.
    fn pass_through(
        &self,
        _caller: &Caller<'_>,
        _file: &Self::File,
        _register: &mut dyn FnMut(BorrowedFd<'_>) -> Result<i32>,
    ) -> Option<Result<i32>> {
        None
    }

    /// The owner of an inode that is not the volume's own, as last seen: for whom a request counts
    /// that names nobody. Waits for nothing.
    fn owner_behind(&self, _ino: u64) -> Option<u32> {
        None
    }

    /// The user in whose share of the cores the requests of `uid` count. Another user may have this
    /// number as a subordinate id. Does not block.
    fn counts_as(&self, uid: u32) -> u32 {
        uid
    }

    /// Regular files to which lookups hold references, each once: those of which the kernel may
    /// have pages that are not written back. For a front end that sees no opens, at its end.
    fn known_files(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Stores the times of writes that the kernel has acknowledged. The kernel keeps these times
    /// itself. They are stored even if the volume has become read-only since. Returns the new
    /// attributes.
    fn settle_times(&self, caller: &Caller<'_>, ino: u64, set: &SetAttr) -> VfsResult<Attr>;

    /// Whether the kernel must pass on each read and write of `file`, because a quota may refuse
    /// what the kernel would acknowledge by itself. `file` was opened just now. A front end that
    /// shows open files by [`crate::Observer::collecting`] shows this one before it asks.
    fn charges_first(&self, file: &Self::File) -> bool;

    /// [`Vfs::read`] of pages for a kernel's cache. A mapping may change them there, so the holes
    /// of a file that [`KernelCache::charges_first`] are reserved. Fails with `EDQUOT` or `ENOSPC`
    /// if `file` is open for writing and there is no space for its holes.
    fn read_for_cache(&self, file: &Self::File, off: u64, out: &mut [u8]) -> VfsResult<usize>;

    /// [`KernelCache::read_for_cache`] on a thread that may block. What it gets from a backend need
    /// not stay in memory: the kernel has it then.
    fn read_through(&self, file: &Self::File, off: u64, out: &mut [u8]) -> VfsResult<usize> {
        self.read_for_cache(file, off, out)
    }

    /// Whether only the end of `file` may be written to, whatever its flags are by now. That is so
    /// if it was opened for appending and is append-only. Linux then lets nobody clear `O_APPEND`,
    /// but a kernel in front of the volume does not know that.
    fn appends_only(&self, file: &Self::File) -> bool;

    /// Clears setuid and setgid of a file whose contents `caller`, who is not root, is about to
    /// change. Returns whether one of them was set. If so, the front end notifies the kernel before
    /// the contents change, because the kernel goes by the mode that it has cached.
    fn strip_suidgid(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<bool>;

    /// Writes what the kernel has acknowledged before, even if the file has become immutable or the
    /// volume read-only since. A kernel that keeps times itself (`!touches`) reports the time of
    /// the write by [`KernelCache::settle_times`], possibly before this call.
    fn write_back(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        off: u64,
        data: &[u8],
        kill_suidgid: bool,
        touches: bool,
    ) -> VfsResult<usize>;

    /// Reports that parts of a file, which the kernel had acknowledged, could not be stored because
    /// of `errno`: an event of the owner's quota. Nobody waits for them any more. For threads that
    /// may block.
    fn lose(&self, ino: u64, lost: &[Range<u64>], errno: Errno);
}
