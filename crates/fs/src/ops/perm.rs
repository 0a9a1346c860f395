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
pub(crate) fn may(caller: &Caller<'_>, inode: &Inode, want: u32, g: &Guard) -> Result<()> {
    may_of(caller, inode, &inode.meta.owner(), want, g)
}

/// [`may`] for a caller that has read the owner.
#[inline]
fn may_of(caller: &Caller<'_>, inode: &Inode, owner: &Owner, want: u32, g: &Guard) -> Result<()> {
    if want & WRITE != 0 && owner.flags & flags::IMMUTABLE != 0 {
        return Err(Errno::EPERM);
    }
    if !caller.checks() {
        return Ok(());
    }
    may_access(caller, inode, owner, want, g)
}

/// Whether names may be looked up in `directory`: [`may`] with [`EXEC`], checked for every
/// component of every path. For root the owner is not read.
#[inline]
pub(crate) fn may_search(caller: &Caller<'_>, directory: &Inode, g: &Guard) -> Result<()> {
    if !caller.checks() || caller.privileged() {
        return Ok(());
    }
    may_access(caller, directory, &directory.meta.owner(), EXEC, g)
}

/// [`may`] for `access(2)`, which ignores inode flags and checks callers of every origin.
pub(crate) fn may_access(
    caller: &Caller<'_>,
    inode: &Inode,
    owner: &Owner,
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
            None => return may_access(caller, inode, &inode.meta.owner(), want, g),
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
pub(crate) fn may_create(caller: &Caller<'_>, parent: &Inode, g: &Guard) -> Result<()> {
    if parent.meta.is_unlinked() {
        return Err(Errno::ENOENT);
    }
    may(caller, parent, WRITE | EXEC, g)
}

/// Whether the entry for `victim` may be removed from directory `parent` (`may_delete` of Linux).
pub(crate) fn may_delete(
    caller: &Caller<'_>,
    parent: &Inode,
    victim: &Inode,
    g: &Guard,
) -> Result<()> {
    let dir = parent.meta.owner();
    may_of(caller, parent, &dir, WRITE | EXEC, g)?;
    let file = victim.meta.owner();
    if dir.flags & flags::APPEND != 0 {
        return Err(Errno::EPERM);
    }
    let sticky = caller.checks()
        && u32::from(dir.perm) & libc::S_ISVTX != 0
        && !caller.privileged()
        && caller.uid != file.uid
        && caller.uid != dir.uid;
    if sticky || file.flags & (flags::IMMUTABLE | flags::APPEND) != 0 {
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
