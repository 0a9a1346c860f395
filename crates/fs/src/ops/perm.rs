//! Permission checks: mode bits, ACLs, inode flags, the sticky bit.

use crate::acl::Requester;
use crate::attr::Kind;
use crate::caller::Caller;
use crate::errno::{Errno, Result};
use crate::flags;
use crate::inode::{Inode, Owner};
use hearth_sync::epoch::Guard;

/// Execute, or search a directory.
pub(crate) const EXEC: u32 = 1;
/// Write.
pub(crate) const WRITE: u32 = 2;
/// Read.
pub(crate) const READ: u32 = 4;

/// Checks `want` ([`READ`], [`WRITE`], [`EXEC`]) on `inode`, like `generic_permission` of Linux:
/// `EACCES` where the caller may not, `EPERM` for a write to an immutable inode.
// Always inlined: for root it is a few looks at words that need no partner. The owner is read as a
// whole only by who needs the mode.
#[inline(always)]
pub(crate) fn may(caller: &Caller<'_>, inode: &Inode, want: u32, g: &Guard) -> Result<()> {
    if want & WRITE != 0 && inode.meta.flags() & flags::IMMUTABLE != 0 {
        return Err(Errno::EPERM);
    }
    // What root needs the mode for is rare: see `may_access`.
    let is_root = caller.privileged() && (want & EXEC == 0 || inode.is_dir());
    if !caller.checks() || is_root {
        return Ok(());
    }
    may_access(caller, inode, inode.meta.owner(), want, g)
}

/// Whether names may be looked up in `directory`: [`may`] with [`EXEC`], checked for every
/// component of every path. For root the owner is not read.
#[inline]
pub(crate) fn may_search(caller: &Caller<'_>, directory: &Inode, g: &Guard) -> Result<()> {
    if may_search_all(caller) {
        return Ok(());
    }
    may_access(caller, directory, directory.meta.owner(), EXEC, g)
}

/// Whether [`may_search`] refuses the caller nothing.
#[inline]
pub(crate) fn may_search_all(caller: &Caller<'_>) -> bool {
    !caller.checks() || caller.privileged()
}

/// [`may`] for `access(2)`, which ignores inode flags and checks callers of every origin.
// The owner goes by value: only who comes here has to put it in memory.
pub(crate) fn may_access(
    caller: &Caller<'_>,
    inode: &Inode,
    owner: Owner,
    want: u32,
    g: &Guard,
) -> Result<()> {
    let perm = u32::from(owner.perm);
    if caller.privileged() {
        // Root may do everything except execute a file that nobody may execute.
        let runs = want & EXEC != 0 && inode.kind() != Kind::Directory;
        return if runs && perm & 0o111 == 0 {
            Err(Errno::EACCES)
        } else {
            Ok(())
        };
    }
    let granted = if caller.uid == owner.uid {
        perm >> 6 & want == want
    } else if owner.has_acl() && perm & 0o070 != 0 {
        // As in Linux: an ACL whose mask grants nothing is skipped in favour of the mode bits.
        match inode.access_acl(g) {
            Some(acl) => acl.check(subject(caller), owner.uid, owner.gid, want as u8),
            // The ACL is gone since, and the mode was published before.
            None => return may_access(caller, inode, inode.meta.owner(), want, g),
        }
    } else if caller.in_group(owner.gid) {
        perm >> 3 & want == want
    } else {
        perm & want == want
    };
    if granted { Ok(()) } else { Err(Errno::EACCES) }
}

fn subject<'a>(caller: &Caller<'a>) -> Requester<'a> {
    Requester {
        uid: caller.uid,
        gid: caller.gid,
        groups: caller.groups,
    }
}

/// Whether entries may be made in directory `parent`.
#[inline]
pub(crate) fn may_create(caller: &Caller<'_>, parent: &Inode, g: &Guard) -> Result<()> {
    if parent.meta.is_unlinked() {
        return Err(Errno::ENOENT);
    }
    may(caller, parent, WRITE | EXEC, g)
}

/// Whether the entry for `victim` may be removed from directory `parent` (`may_delete` of Linux).
#[inline]
pub(crate) fn may_delete(
    caller: &Caller<'_>,
    parent: &Inode,
    victim: &Inode,
    g: &Guard,
) -> Result<()> {
    let flags = parent.meta.flags();
    if flags & flags::IMMUTABLE != 0 {
        return Err(Errno::EPERM);
    }
    let sticks = caller.checks() && !caller.privileged() && {
        // Who may write and whether names stick is one mode, so it is read once.
        let dir = parent.meta.owner();
        may_access(caller, parent, dir, WRITE | EXEC, g)?;
        u32::from(dir.perm) & libc::S_ISVTX != 0
            && caller.uid != victim.meta.uid()
            && caller.uid != dir.uid
    };
    let is_kept =
        flags & flags::APPEND != 0 || victim.meta.flags() & (flags::IMMUTABLE | flags::APPEND) != 0;
    if is_kept || sticks {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// Whether the caller owns the inode of `owner` or may act as its owner.
pub(crate) fn may_own(caller: &Caller<'_>, owner: &Owner) -> Result<()> {
    if caller.checks() && !caller.privileged() && caller.uid != owner.uid {
        return Err(Errno::EPERM);
    }
    Ok(())
}
