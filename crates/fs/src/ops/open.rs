//! Opening files, and open file descriptions.

use super::create::{New, create_absent, tmpfile};
use super::io::set_size;
use super::lookup::find;
use super::perm::{READ, WRITE, may};
use super::privilege::drop_capability;
use super::reserve;
use crate::attr::Kind;
use crate::cache_padded::CachePadded;
use crate::caller::Caller;
use crate::errno::{Errno, Result};
use crate::fdtable::{Described, Handles};
use crate::flags;
use crate::hashed::Hashed;
use crate::inode::{Body, Inode, InodeExt, InodeInner, InodeRef};
use crate::number::is_control;
use crate::ops::ctx::Ctx;
use crate::superblock::{Attempt, OpenControl, Stop, Superblock};
use hearth_sync::epoch::Guard;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::object::RefSlot;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use hearth_sync::rcu::Share;

/// An open file description (`open(2)`), which descriptors made by `dup` and `fork` share.
///
/// Three cache lines: what every use reads, what `read` and `write` move, what `dup` and `close`
/// count.
#[repr(align(64))]
pub struct OpenFile {
    /// The inode, kept by a counted reference until the last close.
    inode: RefSlot<InodeInner>,
    kind: Kind,
    ino: u64,
    /// `O_*` status flags; `O_APPEND`, `O_DIRECT`, `O_NOATIME` and `O_NONBLOCK` may change.
    flags: AtomicU32,
    moving: Moving,
    /// Whether each write is charged before it is acknowledged. Relaxed: it is set before the open
    /// returns, and a search for files that are not charged looks again.
    charged: AtomicBool,
    /// Credentials of the opener.
    opener: Opener,
    /// `None` for files that do not lie below `.hearth`.
    control: Option<OpenControl>,
}

/// What keeps an open file: a [`Share`] for descriptors, an [`Arc`] for a front end that has a
/// table of its own.
pub(crate) trait FileOwner {
    fn owning(make: impl FnOnce() -> OpenFile) -> Self;
}

impl FileOwner for Share<OpenFile> {
    // Always inlined, like the other one: the file is made where it stays.
    #[inline(always)]
    fn owning(make: impl FnOnce() -> OpenFile) -> Share<OpenFile> {
        Share::of(make)
    }
}

impl FileOwner for Arc<OpenFile> {
    #[inline(always)]
    fn owning(make: impl FnOnce() -> OpenFile) -> Arc<OpenFile> {
        Arc::new(make())
    }
}

/// Credentials at the time of an open.
struct Opener {
    uid: u32,
    gid: u32,
    groups: Option<Box<[u32]>>,
}

lock_class!(pub(crate) PositionLock = "file.position", 5);

/// What changes while a file is open, each part on a line of its own.
struct Moving {
    /// File offset, or directory cookie. Held while a read or write that moves it runs, as Linux
    /// does.
    position: CachePadded<Lock<PositionLock, u64>>,
    /// Descriptors that refer to it.
    handles: CachePadded<Handles>,
}

impl OpenFile {
    /// Made where it stays: it is too large to be handed from function to function.
    pub(crate) fn owned<F: FileOwner>(cx: &Ctx<'_>, inode: InodeRef, flags: i32) -> F {
        let control = match is_control(inode.number()) {
            true => open_control(cx, &inode),
            false => None,
        };
        F::owning(|| OpenFile {
            kind: inode.kind(),
            ino: inode.number(),
            inode: RefSlot::new(inode),
            flags: AtomicU32::new(flags as u32),
            moving: Moving {
                position: CachePadded(Lock::new(0)),
                handles: CachePadded(Handles::new()),
            },
            charged: AtomicBool::new(false),
            opener: Opener {
                uid: cx.caller.uid,
                gid: cx.caller.gid,
                groups: (!cx.caller.groups.is_empty()).then(|| cx.caller.groups.into()),
            },
            control,
        })
    }

    /// Whether it was opened with the credentials of `caller`.
    pub(crate) fn is_opened_by(&self, caller: &Caller<'_>) -> bool {
        let Opener { uid, gid, groups } = &self.opener;
        (*uid, *gid) == (caller.uid, caller.gid)
            && groups.as_deref().unwrap_or_default() == caller.groups
    }

    /// Number of the inode.
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// Kind of the inode.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// `O_*` flags as of now.
    pub fn flags(&self) -> i32 {
        // Relaxed: one word; a request that overlaps a change may see either.
        self.flags.load(Relaxed) as i32
    }

    /// Replaces the `O_*` flags. For a kernel that checks `O_APPEND` here and then finds the end of
    /// the file itself.
    pub fn set_flags(&self, flags: i32) {
        // Relaxed: see `flags`.
        self.flags.store(flags as u32, Relaxed);
    }

    /// Whether this is a file below `.hearth`, whose text may differ at every open.
    pub fn is_control(&self) -> bool {
        is_control(self.ino)
    }

    /// Identity of this open file description in the program, and the owner of its flocks and OFD
    /// locks: its address, which is stable while it is open.
    pub(crate) fn id(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// File offset, or directory cookie.
    pub(crate) fn position(&self) -> &Lock<PositionLock, u64> {
        &self.moving.position.0
    }

    pub(crate) fn is_path(&self) -> bool {
        self.flags() & libc::O_PATH != 0
    }

    pub(crate) fn readable(&self) -> bool {
        !self.is_path()
            && matches!(
                self.flags() & libc::O_ACCMODE,
                libc::O_RDONLY | libc::O_RDWR
            )
    }

    /// Whether it may be written to.
    pub fn writable(&self) -> bool {
        !self.is_path()
            && matches!(
                self.flags() & libc::O_ACCMODE,
                libc::O_WRONLY | libc::O_RDWR
            )
    }

    /// Makes each write be charged before it is acknowledged, from now on until the last close.
    pub(crate) fn set_charged(&self) {
        self.charged.store(true, Relaxed);
    }

    /// Whether the kernel passes each of its writes on.
    pub fn is_charged(&self) -> bool {
        self.charged.load(Relaxed)
    }

    /// Whether writes return when they are durable (`O_SYNC`, `O_DSYNC`).
    pub fn is_synchronous(&self) -> bool {
        self.flags() & (libc::O_SYNC | libc::O_DSYNC) != 0
    }

    /// The inode; `EBADF` after the last close.
    pub(crate) fn inode<'g>(&self, g: &'g Guard) -> Result<&'g Inode> {
        self.inode.get(g).ok_or(Errno::EBADF)
    }

    /// Whether the last close has begun. Then no descriptor refers to the file any more, and it has
    /// no inode.
    pub(crate) fn is_finished(&self) -> bool {
        self.inode.is_empty()
    }

    /// The open control file; `None` for other files.
    pub(crate) fn control(&self) -> Option<&OpenControl> {
        self.control.as_ref()
    }

    /// Does the last close: releases the locks of this description and the inode's reference.
    // Always inlined: mostly it is an exchange and some looks.
    #[inline(always)]
    pub(crate) fn finish(&self, sb: &Superblock, g: &Guard) {
        let Some(inode) = self.inode.take() else {
            return;
        };
        let is_noted = self.writable() && sb.log().is_some();
        if is_noted || self.is_charged() || inode.taken_locks().is_some() {
            self.finish_use(sb, &inode, g);
        }
        sb.release(inode, g);
    }

    /// What a last close does only for some files. A function of its own, so that the others have
    /// no registers to save.
    #[inline(never)]
    fn finish_use(&self, sb: &Superblock, inode: &InodeRef, g: &Guard) {
        // The inode was taken out before the locks are released: the requester of a lock that is
        // granted later releases it.
        if let Some(locks) = inode.taken_locks() {
            locks.release_owner(self.id(), true);
            locks.release_owner(self.id(), false);
        }
        if self.is_charged() {
            reserve::close(sb, inode, g);
        }
        if self.writable() {
            sb.note_closed(inode);
        }
    }
}

#[cold]
#[inline(never)]
fn open_control(cx: &Ctx<'_>, inode: &Inode) -> Option<OpenControl> {
    match &inode.body {
        Body::Control(file) => cx.sb.control.open(*file, cx.sb, cx.caller),
        _ => None,
    }
}

// What every use reads fits one cache line.
#[cfg(not(feature = "shuttle"))]
const _: () = assert!(std::mem::size_of::<OpenFile>() == 3 * 64);

impl Described for OpenFile {
    fn handles(&self) -> &Handles {
        &self.moving.handles.0
    }
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile")
            .field("ino", &self.ino)
            .field("flags", &self.flags())
            .finish()
    }
}

/// Opens an inode that exists.
pub(crate) fn open<F: FileOwner>(cx: &Ctx<'_>, inode: &Inode, flags: i32, g: &Guard) -> Attempt<F> {
    if flags & libc::O_PATH != 0 {
        let held = inode.hold().ok_or(Stop::Restart)?;
        return Ok(OpenFile::owned(cx, held, flags));
    }
    check_kind(inode, flags)?;
    let (reads, writes) = access_of(flags);
    let want = if reads { READ } else { 0 } | if writes { WRITE } else { 0 };
    if writes && inode.has_data() {
        cx.sb.check_writable()?;
    }
    may(cx.caller, inode, want, g)?;
    check_flags(cx, inode, flags, writes)?;
    if !matches!(inode.kind(), Kind::File | Kind::Directory) {
        // The kernel implements these for a mount; the library does not.
        return Err(Errno::ENXIO.into());
    }
    let held = inode.hold().ok_or(Stop::Restart)?;
    if flags & libc::O_TRUNC != 0 && inode.has_data() {
        let growth = inode.meta.growth.lock();
        let cut = cx
            .begin_acknowledged(inode)
            .and_then(|()| set_size(cx, inode, 0, &growth, None, g))
            .map(|_| {
                cx.sb.touch(inode, cx.sb.now());
                cx.sb.note_dirty(inode);
            });
        drop(growth);
        if let Err(stop) = cut {
            cx.sb.release(held, g);
            return Err(stop);
        }
        drop_capability(cx, inode, g);
        cx.inode_changed(inode, Some(0..u64::MAX));
    }
    Ok(OpenFile::owned(cx, held, status_flags(flags)))
}

/// Opens a name in `parent`, making it if it does not exist (`O_CREAT`).
pub(crate) fn open_create<F: FileOwner>(
    cx: &Ctx<'_>,
    parent: &Inode,
    at: Hashed<'_>,
    mode: u16,
    flags: i32,
    g: &Guard,
) -> Attempt<F> {
    if let Some(entry) = find(parent, at, g)? {
        if flags & libc::O_EXCL != 0 {
            return Err(Errno::EEXIST.into());
        }
        if !cx.caller.checks() {
            // A kernel in front creates a file that it found missing, and gives the result to the
            // caller. Another caller has made this file since. So the kernel must look it up again
            // and check permissions.
            return Err(Errno::ESTALE.into());
        }
        let inode = cx.sb.entry_inode(parent, entry, g)?;
        return open_existing(cx, parent, inode, flags, g);
    }
    open_absent(cx, parent, at, mode, flags, g)
}

/// [`open_create`] of a name that the caller has just looked up and not found.
pub(crate) fn open_absent<F: FileOwner>(
    cx: &Ctx<'_>,
    parent: &Inode,
    at: Hashed<'_>,
    mode: u16,
    flags: i32,
    g: &Guard,
) -> Attempt<F> {
    match create_absent(cx, parent, at, &New::File, mode & 0o7777, g) {
        Ok(inode) => Ok(OpenFile::owned(cx, inode, status_flags(flags))),
        // Another thread made the file first: open that file.
        Err(Stop::Errno(Errno::EEXIST)) if flags & libc::O_EXCL == 0 => Err(Stop::Restart),
        Err(stop) => Err(stop),
    }
}

/// Opens an existing entry that `O_CREAT` found in `parent`.
pub(crate) fn open_existing<F: FileOwner>(
    cx: &Ctx<'_>,
    parent: &Inode,
    inode: &Inode,
    flags: i32,
    g: &Guard,
) -> Attempt<F> {
    may_open_sticky(cx, parent, inode)?;
    open(cx, inode, flags, g)
}

/// The check `may_create_in_sticky` of Linux for `fs.protected_regular`.
fn may_open_sticky(cx: &Ctx<'_>, parent: &Inode, inode: &Inode) -> Result<()> {
    let level = cx.sb.options.protection.regular;
    if level == 0 || inode.kind() != Kind::File || !cx.caller.checks() {
        return Ok(());
    }
    let (directory, file) = (parent.meta.owner(), inode.meta.owner());
    let mode = u32::from(directory.perm);
    let shared = mode & libc::S_IWOTH != 0 || (level >= 2 && mode & libc::S_IWGRP != 0);
    let theirs = file.uid != directory.uid && file.uid != cx.caller.uid;
    if mode & libc::S_ISVTX != 0 && shared && theirs {
        return Err(Errno::EACCES);
    }
    Ok(())
}

/// Opens a new unlinked file.
pub(crate) fn open_tmpfile<F: FileOwner>(
    cx: &Ctx<'_>,
    parent: &Inode,
    mode: u16,
    flags: i32,
    g: &Guard,
) -> Attempt<F> {
    if !access_of(flags).1 {
        return Err(Errno::EINVAL.into());
    }
    let linkable = flags & libc::O_EXCL == 0;
    let inode = tmpfile(cx, parent, mode & 0o7777, linkable, g)?;
    let flags = status_flags(flags & !libc::O_DIRECTORY);
    Ok(OpenFile::owned(cx, inode, flags))
}

fn check_kind(inode: &Inode, flags: i32) -> Result<()> {
    let writes = access_of(flags).1;
    match inode.kind() {
        Kind::Symlink => Err(Errno::ELOOP),
        Kind::Directory if writes || flags & libc::O_CREAT != 0 => Err(Errno::EISDIR),
        Kind::Directory => Ok(()),
        _ if flags & libc::O_DIRECTORY != 0 => Err(Errno::ENOTDIR),
        _ => Ok(()),
    }
}

fn check_flags(cx: &Ctx<'_>, inode: &Inode, flags: i32, writes: bool) -> Result<()> {
    if inode.meta.flags() & flags::APPEND != 0 {
        let whole = writes && flags & libc::O_APPEND == 0;
        if whole || flags & libc::O_TRUNC != 0 {
            return Err(Errno::EPERM);
        }
    }
    let noatime = flags & libc::O_NOATIME != 0;
    if noatime && cx.caller.checks() && !cx.caller.privileged() && cx.caller.uid != inode.meta.uid()
    {
        return Err(Errno::EPERM);
    }
    // `O_DIRECT` applies only to data: there is no cache of a directory to go past.
    if flags & libc::O_DIRECT != 0 && inode.kind() == Kind::Directory {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Whether the flags request reading and writing. `O_TRUNC` requests writing whatever the access
/// mode says. Mode 3 requests both, although the open file serves neither.
fn access_of(flags: i32) -> (bool, bool) {
    let mode = flags & libc::O_ACCMODE;
    let writes = mode != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
    (mode != libc::O_WRONLY, writes)
}

/// The flags that an open file keeps, which are all but the creation flags.
fn status_flags(flags: i32) -> i32 {
    flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOCTTY | libc::O_CLOEXEC)
}
