//! Changing attributes: chmod, chown, utimes, truncate.

use super::io::set_size;
use super::perm::{WRITE, may, may_own};
use super::privilege::{drop_capability, drop_capability_held, keeps_setgid};
use super::promise;
use crate::attr::{SetAttr, SetTime, Time};
use crate::errno::Errno;
use crate::flags;
use crate::inode::{Extra, Fields, GrowthLock, Node, NodeExt, Owner, TOUCHED};
use crate::number::is_control;
use crate::quota::Owners;
use crate::volume::{Ctx, MAX_SIZE, Step};
use hearth_sync::epoch::Guard;
use hearth_sync::lock;
use hearth_sync::object::WriteGuard;

/// Changes what `set` names, all of it or nothing. `opened`: the file is open for writing, so its
/// size may be set whatever its mode says.
pub(crate) fn setattr(
    cx: &Ctx<'_>,
    node: &Node,
    set: &SetAttr,
    opened: bool,
    g: &Guard,
) -> Step<()> {
    cx.core.check_writable()?;
    setattr_acknowledged(cx, node, set, opened, g)
}

/// The same although the volume has become read-only since a kernel in front acknowledged what it
/// is about.
pub(crate) fn setattr_acknowledged(
    cx: &Ctx<'_>,
    node: &Node,
    set: &SetAttr,
    opened: bool,
    g: &Guard,
) -> Step<()> {
    let _kept = cx.keep(node, g)?;
    let size = set.size.filter(|_| !is_control(node.number()));
    if let (Some(size), true) = (size, is_size_alone(set)) {
        check(cx, node, set, opened, g)?;
        return set_size_alone(cx, node, size, opened, g);
    }
    let change = node.meta.change.lock();
    check(cx, node, set, opened, g)?;
    let gives = set.uid.is_some() || set.gid.is_some();
    // Who grows the file holds this one when it comes to the gate.
    let growth = size.map(|_| node.meta.growth.lock());
    // Writers inside would charge the old owner.
    let closed = (gives && node.data().is_some()).then(|| node.gate.write(node.percpu()));
    let before = gives.then(|| node.meta.read());
    if gives {
        give(cx, node, set, g)?;
    }
    if let (Some(size), Some(growth)) = (size, &growth)
        && let Err(stop) = resize(cx, node, (size, opened), growth, closed.as_ref(), g)
    {
        if let Some(before) = &before {
            take_back(cx, node, before, g);
        }
        return Err(stop);
    }
    if (gives || size.is_some() || set.kill_suidgid) && !node.is_dir() {
        drop_capability_held(cx, node, &change, g);
    }
    let now = cx.core.now();
    if let Some(mode) = set.mode {
        chmod_acl(node, mode, g);
    }
    let times = set.atime.is_some() || set.mtime.is_some();
    if times || set.mode.is_some() || set.uid.is_some() || set.gid.is_some() || set.kill_suidgid {
        // What per-core parts say of the last change is folded in before a new time replaces it.
        let folded = set.mtime.is_some().then(|| node.fields());
        if folded.is_some() {
            node.percpu().reset_max(TOUCHED, 0);
        }
        let kind = node.kind();
        node.meta.update(|fields| {
            if let Some(folded) = folded {
                (fields.mtime, fields.ctime) = (folded.mtime, folded.ctime);
            }
            apply(cx, fields, set, now);
            if set.kill_suidgid && !gives && set.mode.is_none() {
                let member = keeps_setgid(cx.caller, fields.gid);
                fields.kill_suidgid(kind, member);
            }
        });
    }
    drop((closed, growth, change));
    cx.node_changed(node, set.size.map(|size| size..u64::MAX));
    Ok(())
}

/// Whether nothing but the size changes, for which nobody has to wait who changes something else.
fn is_size_alone(set: &SetAttr) -> bool {
    let size = SetAttr {
        size: set.size,
        ..SetAttr::default()
    };
    *set == size
}

fn set_size_alone(cx: &Ctx<'_>, node: &Node, size: u64, opened: bool, g: &Guard) -> Step<()> {
    let growth = node.meta.growth.lock();
    resize(cx, node, (size, opened), &growth, None, g)?;
    drop(growth);
    drop_capability(cx, node, g);
    cx.node_changed(node, Some(size..u64::MAX));
    Ok(())
}

/// Sets the size and the times. As in ext4 and XFS, `truncate` to the size that a file has moves no
/// times, and `ftruncate` (`opened`) does.
fn resize(
    cx: &Ctx<'_>,
    node: &Node,
    (size, opened): (u64, bool),
    growth: &lock::LockGuard<'_, GrowthLock, ()>,
    closed: Option<&WriteGuard<'_>>,
    g: &Guard,
) -> Step<()> {
    if set_size(cx, node, size, growth, closed, g)? || opened {
        node.touch(cx.core.now());
    }
    Ok(())
}

/// Charges the new owners and writes them down at once: what is freed from here on is theirs.
fn give(cx: &Ctx<'_>, node: &Node, set: &SetAttr, g: &Guard) -> Step<()> {
    let mut fields = node.meta.read();
    let (uid, gid) = (set.uid.unwrap_or(fields.uid), set.gid.unwrap_or(fields.gid));
    (fields.uid, fields.gid) = (uid, gid);
    let account = recharge(cx, node, fields.owners(), cx.caller.privileged(), g)?;
    let kind = node.kind();
    node.meta.update(|fields| {
        // At once: nobody may see it set for a new owner.
        let member = keeps_setgid(cx.caller, fields.gid);
        fields.kill_suidgid(kind, member);
        (fields.uid, fields.gid, fields.account) = (uid, gid, account);
    });
    Ok(())
}

/// The owners of `before` pay again, whatever their limits are: a later part of the change failed.
fn take_back(cx: &Ctx<'_>, node: &Node, before: &Fields, g: &Guard) {
    let ledger = &cx.core.ledger;
    let (account, amounts) = (node.meta.account(), charged(cx, node));
    let back = ledger.transfer(account, before.owners(), amounts, true, g);
    node.meta.update(|fields| {
        (fields.uid, fields.gid, fields.perm) = (before.uid, before.gid, before.perm);
        fields.account = back.unwrap_or(account);
    });
}

/// Blocks, kept and promised, and the inode itself.
fn charged(cx: &Ctx<'_>, node: &Node) -> [u64; 2] {
    [node.blocks() + promise::count(cx.core, node), 1]
}

/// Moves what `node` is charged for to other owners, and answers the account that pays from now on.
/// The caller holds `change`, has closed the gate of a file, and writes the number down. `EBUSY`: a
/// kernel in front has acknowledged writes that the limits of the new owners could refuse.
pub(crate) fn recharge(
    cx: &Ctx<'_>,
    node: &Node,
    owners: Owners,
    force: bool,
    g: &Guard,
) -> Step<u32> {
    match cx.core.payer(node)? {
        None => Ok(node.meta.account()),
        Some(account) => {
            if node.data().is_some() && cx.core.would_lose_writes(node, owners, g) {
                return Err(Errno::EBUSY.into());
            }
            let ledger = &cx.core.ledger;
            Ok(ledger.transfer(account, owners, charged(cx, node), force, g)?)
        }
    }
}

fn apply(cx: &Ctx<'_>, fields: &mut Fields, set: &SetAttr, now: Time) {
    let time = |t: SetTime| match t {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    fields.uid = set.uid.unwrap_or(fields.uid);
    fields.gid = set.gid.unwrap_or(fields.gid);
    if let Some(mode) = set.mode {
        fields.perm = mode & 0o7777;
        if !keeps_setgid(cx.caller, fields.gid) {
            fields.perm &= !(libc::S_ISGID as u16);
        }
    }
    fields.atime = set.atime.map_or(fields.atime, time);
    fields.mtime = set.mtime.map_or(fields.mtime, time);
    fields.ctime = set.ctime.unwrap_or(now);
}

/// `setattr_prepare` and `may_setattr` of Linux.
fn check(cx: &Ctx<'_>, node: &Node, set: &SetAttr, opened: bool, g: &Guard) -> Step<()> {
    let owner = node.meta.owner();
    let fixed = owner.flags & (flags::IMMUTABLE | flags::APPEND) != 0;
    let touch = (set.atime, set.mtime) == (Some(SetTime::Now), Some(SetTime::Now));
    let times = set.atime.is_some() || set.mtime.is_some();
    // A kernel keeps times itself and sends them with writes; only what a user set counts as
    // setting them.
    let explicit = times && !touch && cx.caller.checks();
    if (set.mode.is_some() || set.uid.is_some() || set.gid.is_some() || explicit) && fixed {
        return Err(Errno::EPERM.into());
    }
    if let Some(size) = set.size {
        check_size(cx, node, size, opened, &owner, g)?;
    }
    if touch && owner.flags & flags::IMMUTABLE != 0 {
        return Err(Errno::EPERM.into());
    }
    if !cx.caller.checks() || cx.caller.privileged() {
        return Ok(());
    }
    let owns = cx.caller.uid == owner.uid;
    let gives_away = set.uid.is_some_and(|uid| !owns || uid != owner.uid);
    let wrong_group = set
        .gid
        .is_some_and(|gid| !owns || (gid != owner.gid && !cx.caller.in_group(gid)));
    if gives_away || wrong_group {
        return Err(Errno::EPERM.into());
    }
    // Even a chown that names nobody takes setuid and setgid away, which is a change of mode.
    let member = cx.caller.in_group(owner.gid);
    let strips = set.kill_suidgid && owner.strips_suidgid(node.kind(), member);
    if set.mode.is_some() || explicit || strips {
        may_own(cx.caller, &owner)?;
    }
    if touch && !owns {
        may(cx.caller, node, WRITE, g)?;
    }
    Ok(())
}

fn check_size(
    cx: &Ctx<'_>,
    node: &Node,
    size: u64,
    opened: bool,
    owner: &Owner,
    g: &Guard,
) -> Step<()> {
    if node.is_dir() {
        return Err(Errno::EISDIR.into());
    }
    if node.data().is_none() && !is_control(node.number()) {
        return Err(Errno::EINVAL.into());
    }
    if size > MAX_SIZE {
        return Err(Errno::EFBIG.into());
    }
    if !opened {
        may(cx.caller, node, WRITE, g)?;
    }
    if owner.flags & (flags::APPEND | flags::IMMUTABLE) != 0 {
        return Err(Errno::EPERM.into());
    }
    Ok(())
}

/// The group bits of the mode are the mask of an access ACL; the rest of the ACL follows the mode.
fn chmod_acl(node: &Node, mode: u16, g: &Guard) {
    if node.meta.owner().has_acl()
        && let Some(extra) = node.extra(g)
        && let Some(acl) = &extra.access
    {
        let access = Some(acl.chmod_masq(mode));
        let extra = extra.clone();
        node.set_extra(Extra { access, ..extra }, |_| {}, g);
    }
}
