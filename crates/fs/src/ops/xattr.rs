//! Extended attributes: `user.`, `trusted.`, `security.`, and the ACLs behind `system.posix_acl_*`.

use super::perm::{READ, WRITE, may, may_own};
use crate::acl::{ACL_ACCESS, ACL_DEFAULT, Acl};
use crate::attr::Kind;
use crate::errno::Errno;
use crate::flags;
use crate::inode::{Fields, Inode, XattrsAcls};
use crate::number::is_control;
use crate::ops::ctx::Ctx;
use crate::quota::{Charge, Resource};
use crate::superblock::{Attempt, Fetch, Stop};
use hearth_sync::epoch::Guard;

/// Longest value in bytes (`XATTR_SIZE_MAX`).
const VALUE_MAX: usize = 65_536;
/// Longest list of names in bytes (`XATTR_LIST_MAX`).
const LIST_MAX: usize = 65_536;
/// Most bytes of the names and values of one inode. Each change copies and records all of them, so
/// without a bound a caller could make every other caller wait, and use up the memory.
const TOTAL_MAX: usize = 512 << 10;

#[derive(PartialEq)]
enum Space {
    /// A namespace without support: refused after the permission check, as in Linux.
    Unknown,
    /// `system.` without the ACLs is not served; this is returned without a permission check.
    System,
    User,
    Trusted,
    Security,
    Access,
    Default,
}

/// The value of `name`; `ENODATA` if there is none.
pub(crate) fn get(cx: &Ctx<'_>, inode: &Inode, name: &[u8], g: &Guard) -> Attempt<Box<[u8]>> {
    let space = space_of(name)?;
    check_access(cx, inode, &space, READ, g)?;
    check_served(name, &space)?;
    let extra = inode.extra(g).ok_or(Errno::ENODATA)?;
    let acl = match space {
        Space::Access => &extra.access,
        Space::Default => &extra.default,
        _ => {
            let extra = in_memory(inode, g)?.ok_or(Errno::ENODATA)?;
            return Ok(extra.xattrs.get(name).ok_or(Errno::ENODATA)?.into());
        }
    };
    Ok(acl.as_ref().ok_or(Errno::ENODATA)?.to_xattr().into())
}

/// Sets `name`; `flags` as of `setxattr(2)`. `kill_sgid`: setting an access ACL also clears setgid.
pub(crate) fn set(
    cx: &Ctx<'_>,
    inode: &Inode,
    name: &[u8],
    value: &[u8],
    flags: i32,
    kill_sgid: bool,
    g: &Guard,
) -> Attempt<()> {
    check_request(name, value, flags)?;
    let space = space_of(name)?;
    let change = |extra: &mut XattrsAcls| {
        check_served(name, &space)?;
        let there = extra.xattrs.contains(name);
        if flags & libc::XATTR_CREATE != 0 && there {
            return Err(Errno::EEXIST);
        }
        if flags & libc::XATTR_REPLACE != 0 && !there {
            return Err(Errno::ENODATA);
        }
        let before = extra.xattrs.len();
        extra.xattrs.insert(name, value);
        let names: usize = extra.xattrs.names().map(|n| n.len() + 1).sum();
        // What a backend brought may be more: it may become less.
        let is_more = extra.xattrs.len() > before.max(TOTAL_MAX);
        match names > LIST_MAX || is_more {
            true => Err(Errno::ENOSPC),
            false => Ok(()),
        }
    };
    match space {
        Space::Access | Space::Default => {
            let acl = parse_acl(value)?;
            // Linux ignores the flags of an ACL.
            set_acl(cx, inode, &space, acl, kill_sgid, g)
        }
        _ => update(cx, inode, &space, change, g),
    }
}

/// Removes `name`; `ENODATA` if there is none.
pub(crate) fn remove(cx: &Ctx<'_>, inode: &Inode, name: &[u8], g: &Guard) -> Attempt<()> {
    let space = space_of(name)?;
    match space {
        // Removing an ACL that is not there is no error, as in Linux.
        Space::Access | Space::Default => set_acl(cx, inode, &space, Ok(None), false, g),
        _ => update(
            cx,
            inode,
            &space,
            |extra| {
                check_served(name, &space)?;
                let there = extra.xattrs.remove(name);
                there.then_some(()).ok_or(Errno::ENODATA)
            },
            g,
        ),
    }
}

/// All names, each followed by a NUL. `trusted.` only for privileged callers.
pub(crate) fn list(cx: &Ctx<'_>, inode: &Inode, g: &Guard) -> Attempt<Vec<u8>> {
    let mut names = Vec::new();
    let Some(extra) = in_memory(inode, g)? else {
        return Ok(names);
    };
    let mut push = |name: &[u8]| {
        names.extend_from_slice(name);
        names.push(0);
    };
    if extra.access.is_some() {
        push(ACL_ACCESS);
    }
    if extra.default.is_some() {
        push(ACL_DEFAULT);
    }
    for name in extra.xattrs.names() {
        if cx.caller.privileged() || !name.starts_with(b"trusted.") {
            push(name);
        }
    }
    Ok(names)
}

/// The extended attributes and ACLs, or a miss if only the backend knows them.
fn in_memory<'g>(inode: &'g Inode, g: &'g Guard) -> Attempt<Option<&'g XattrsAcls>> {
    // One look: they may leave memory after it.
    match inode.extra(g) {
        Some(extra) if extra.is_at_backend => Err(Stop::miss(Fetch::Attributes(inode.number()))),
        extra => Ok(extra),
    }
}

/// Replaces the extended attributes and ACLs by a changed copy.
fn update(
    cx: &Ctx<'_>,
    inode: &Inode,
    space: &Space,
    change: impl FnOnce(&mut XattrsAcls) -> Result<(), Errno>,
    g: &Guard,
) -> Attempt<()> {
    cx.begin_change(inode)?;
    let _kept = cx.pin_inode(inode, g)?;
    let _change = inode.meta.change.lock();
    check_access(cx, inode, space, WRITE, g)?;
    let mut extra = in_memory(inode, g)?.cloned().unwrap_or_default();
    change(&mut extra)?;
    let extra_charge = charge(cx, inode, &extra, g)?;
    publish(cx, inode, extra, extra_charge, |_| {}, g);
    Ok(())
}

fn set_acl(
    cx: &Ctx<'_>,
    inode: &Inode,
    space: &Space,
    acl: Result<Option<Acl>, Errno>,
    kill_sgid: bool,
    g: &Guard,
) -> Attempt<()> {
    cx.begin_change(inode)?;
    let _kept = cx.pin_inode(inode, g)?;
    let _change = inode.meta.change.lock();
    let fixed = flags::IMMUTABLE | flags::APPEND;
    if *space == Space::Default && !inode.is_dir() && inode.kind() != Kind::Symlink {
        // For every caller: there is nothing to remove, and nothing can be set.
        return match acl {
            _ if inode.meta.flags() & fixed != 0 => Err(Errno::EPERM.into()),
            Ok(None) => Ok(()),
            _ => Err(Errno::EACCES.into()),
        };
    }
    check_access(cx, inode, space, WRITE, g)?;
    let acl = acl?;
    let mut extra = in_memory(inode, g)?.cloned().unwrap_or_default();
    if let Space::Default = space {
        extra.default = acl;
        let extra_charge = charge(cx, inode, &extra, g)?;
        publish(cx, inode, extra, extra_charge, |_| {}, g);
        return Ok(());
    }
    let mode = acl.as_ref().map(|acl| acl.equiv_mode());
    extra.access = acl.filter(|_| mode.is_some_and(|(_, minimal)| !minimal));
    let extra_charge = charge(cx, inode, &extra, g)?;
    let owner = inode.meta.owner();
    let stranger = cx.caller.checks() && !cx.caller.privileged() && !cx.caller.in_group(owner.gid);
    let change = |fields: &mut Fields| {
        if let Some((mode, _)) = mode {
            fields.perm = fields.perm & !0o777 | mode & 0o777;
        }
        if stranger || kill_sgid {
            fields.perm &= !(libc::S_ISGID as u16);
        }
    };
    publish(cx, inode, extra, extra_charge, change, g);
    Ok(())
}

/// Charges the blocks that `extra` needs beyond the present ones. Under `change`.
fn charge<'g>(
    cx: &Ctx<'g>,
    inode: &Inode,
    extra: &XattrsAcls,
    g: &'g Guard,
) -> Attempt<Option<Charge<'g>>> {
    let more = extra.blocks().saturating_sub(inode.extra_blocks());
    match cx.sb.payer(inode)? {
        Some(account) if more > 0 => {
            let ledger = &cx.sb.quotas.ledger;
            Ok(Some(ledger.charge(account, Resource::Blocks, more, g)?))
        }
        _ => Ok(None),
    }
}

/// Replaces the extended attributes and ACLs, and the attributes that go with them; `extra_charge`
/// is the charge for the additional blocks. Under `change`.
pub(super) fn publish(
    cx: &Ctx<'_>,
    inode: &Inode,
    extra: XattrsAcls,
    extra_charge: Option<Charge<'_>>,
    change: impl FnOnce(&mut Fields),
    g: &Guard,
) {
    let (blocks, before) = (extra.blocks(), inode.extra_blocks());
    if !is_control(inode.number()) {
        inode.set_extra_blocks(blocks);
        if let Some(mut extra_charge) = extra_charge {
            extra_charge.spend(blocks - before);
        }
        let less = before.saturating_sub(blocks);
        let account = inode.meta.account();
        cx.sb.quotas.ledger.free(account, Resource::Blocks, less, g);
    }
    let now = cx.sb.now();
    cx.sb.let_ctime_go_back(inode, now);
    let changed = |fields: &mut Fields| {
        fields.ctime = now;
        change(fields);
    };
    cx.sb.change_extra(inode, extra, changed, g);
    cx.inode_changed(inode, None);
}

/// Errors of a request that do not depend on the inode.
pub(crate) fn check_request(name: &[u8], value: &[u8], flags: i32) -> Result<(), Errno> {
    if flags & !(libc::XATTR_CREATE | libc::XATTR_REPLACE) != 0 {
        return Err(Errno::EINVAL);
    }
    check_name(name)?;
    if value.len() > VALUE_MAX {
        Err(Errno::E2BIG)
    } else {
        Ok(())
    }
}

/// Names have 1 to 255 bytes, none of them NUL.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name.len() {
        _ if name.contains(&0) => Err(Errno::EINVAL),
        1..=255 => Ok(()),
        _ => Err(Errno::ERANGE),
    }
}

/// An ACL, or `EINVAL` inside for a well-formed but invalid one: Linux finds that out later.
fn parse_acl(value: &[u8]) -> Result<Result<Option<Acl>, Errno>, Errno> {
    match Acl::from_xattr(value) {
        Err(Errno::EINVAL) if Acl::is_well_formed(value) => Ok(Err(Errno::EINVAL)),
        acl => acl.map(Ok),
    }
}

/// The namespace must be served and the name must go on behind its prefix.
fn check_served(name: &[u8], space: &Space) -> Result<(), Errno> {
    if matches!(space, Space::Unknown | Space::System) {
        return Err(Errno::EOPNOTSUPP);
    }
    if name.ends_with(b".") && name.iter().filter(|b| **b == b'.').count() == 1 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

fn space_of(name: &[u8]) -> Result<Space, Errno> {
    check_name(name)?;
    let spaces = [
        (b"user." as &[u8], Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
        (b"system.", Space::System),
    ];
    match name {
        ACL_ACCESS => return Ok(Space::Access),
        ACL_DEFAULT => return Ok(Space::Default),
        _ => {}
    }
    for (prefix, space) in spaces {
        if name.starts_with(prefix) {
            return Ok(space);
        }
    }
    Ok(Space::Unknown)
}

/// `xattr_permission` of Linux.
fn check_access(cx: &Ctx<'_>, inode: &Inode, space: &Space, want: u32, g: &Guard) -> Attempt<()> {
    let writes = want == WRITE;
    let owner = inode.meta.owner();
    if writes && owner.flags & (flags::IMMUTABLE | flags::APPEND) != 0 {
        return Err(Errno::EPERM.into());
    }
    if !cx.caller.checks() {
        return Ok(());
    }
    match space {
        Space::Unknown => Ok(may(cx.caller, inode, want, g)?),
        Space::System => Ok(()),
        Space::Security => {
            if writes && !cx.caller.privileged() {
                Err(Errno::EPERM.into())
            } else {
                Ok(())
            }
        }
        Space::Trusted if cx.caller.privileged() => Ok(()),
        Space::Trusted if writes => Err(Errno::EPERM.into()),
        Space::Trusted => Err(Errno::ENODATA.into()),
        Space::User => {
            let plain = matches!(inode.kind(), Kind::File | Kind::Directory);
            if !plain {
                return Err(if writes { Errno::EPERM } else { Errno::ENODATA }.into());
            }
            let sticky = inode.is_dir() && u32::from(owner.perm) & libc::S_ISVTX != 0;
            if writes && sticky && !cx.caller.privileged() && cx.caller.uid != owner.uid {
                return Err(Errno::EPERM.into());
            }
            Ok(may(cx.caller, inode, want, g)?)
        }
        Space::Access | Space::Default => {
            if inode.kind() == Kind::Symlink {
                return Err(Errno::EOPNOTSUPP.into());
            }
            if writes {
                may_own(cx.caller, &owner)?;
            }
            Ok(())
        }
    }
}
