//! Changing attributes: chmod, chown, utimes, truncate.

use super::io::set_size;
use super::perm::{WRITE, may, may_own};
use super::privilege::{drop_capability, drop_capability_held, is_member, keeps_setgid};
use super::reserve;
use crate::attr::{SetAttr, SetTime, Time};
use crate::data::MAX_SIZE;
use crate::errno::Errno;
use crate::flags;
use crate::inode::{Fields, GrowthLock, Inode, InodeExt, Owner, TOUCHED, XattrsAcls};
use crate::number::is_control;
use crate::ops::ctx::Ctx;
use crate::quota::Owners;
use crate::superblock::Attempt;
use hearth_sync::epoch::Guard;
use hearth_sync::lock;
use hearth_sync::object::WriteGuard;

/// Makes all changes in `set`, or none. `opened`: the file is open for writing, so its size may be
/// set whatever its mode says.
pub(crate) fn setattr(
    cx: &Ctx<'_>,
    inode: &Inode,
    set: &SetAttr,
    opened: bool,
    g: &Guard,
) -> Attempt<()> {
    // Who empties a control file is about to write to it, also to end that the volume is read-only.
    if !(is_control(inode.number()) && set.size.is_some()) {
        cx.begin_change(inode)?;
    }
    check_times_of_fixed(cx, inode, set)?;
    setattr_acknowledged(cx, inode, set, opened, g)
}

/// What a kernel in front does not check, because it does not know the flags: the times of an
/// immutable inode, and those of an append-only one unless both become those of now.
fn check_times_of_fixed(cx: &Ctx<'_>, inode: &Inode, set: &SetAttr) -> Attempt<()> {
    let flags = inode.meta.owner().flags;
    if cx.caller.checks() || flags & (flags::IMMUTABLE | flags::APPEND) == 0 || set.size.is_some() {
        // Programs of the library are checked with everything else, and so is a size.
        return Ok(());
    }
    let is_touched = match (set.atime, set.mtime, set.ctime) {
        (None, None, _) => return Ok(()),
        // Not a program's: the kernel says that the inode has changed, and the time that it has.
        (None, Some(SetTime::At(time)), Some(_)) if time == inode.fields().mtime => return Ok(()),
        (Some(SetTime::Now), Some(SetTime::Now), _) => true,
        // A kernel that keeps times itself has taken its own now.
        (Some(SetTime::Now), Some(SetTime::At(time)), Some(now)) => time == now,
        _ => false,
    };
    match is_touched && flags & flags::IMMUTABLE == 0 {
        true => Ok(()),
        false => Err(Errno::EPERM.into()),
    }
}

/// [`setattr`] although the volume has become read-only since: a kernel in front has acknowledged
/// the change.
pub(crate) fn setattr_acknowledged(
    cx: &Ctx<'_>,
    inode: &Inode,
    set: &SetAttr,
    opened: bool,
    g: &Guard,
) -> Attempt<()> {
    cx.begin_acknowledged(inode)?;
    let _kept = cx.pin_inode(inode, g)?;
    let size = set.size.filter(|_| !is_control(inode.number()));
    if let (Some(size), true) = (size, is_size_alone(set)) {
        check(cx, inode, set, opened, g)?;
        return set_size_alone(cx, inode, size, opened, g);
    }
    let change = inode.meta.change.lock();
    check(cx, inode, set, opened, g)?;
    let gives = set.uid.is_some() || set.gid.is_some();
    // A thread that grows the file holds this lock when it enters the gate.
    let growth = size.map(|_| inode.meta.growth.lock());
    // Writers inside would charge the old owner.
    let closed = (gives && inode.data().is_some()).then(|| inode.gate.write(inode.percpu()));
    let before = gives.then(|| inode.meta.read());
    if gives {
        give(cx, inode, set, g)?;
    }
    if let (Some(size), Some(growth)) = (size, &growth)
        && let Err(stop) = resize(cx, inode, (size, opened), growth, closed.as_ref(), g)
    {
        if let Some(before) = &before {
            take_back(cx, inode, before, g);
        }
        return Err(stop);
    }
    if (gives || size.is_some() || set.kill_suidgid) && !inode.is_dir() {
        drop_capability_held(cx, inode, &change, g);
    }
    if let Some(stamp) = set.ctime {
        // Programs cannot set it: a kernel that keeps times itself sends what its clock said.
        cx.sb.objects.clock.kernel_stamped(stamp);
    }
    // Writers, who take no lock of this, only raise the time: an earlier one stays earlier.
    let is_overtaken = match set.mtime {
        Some(SetTime::NoEarlier(time)) => time <= inode.fields().mtime,
        _ => false,
    };
    let now = cx.sb.now();
    if let Some(mode) = set.mode {
        chmod_acl(cx, inode, mode, g);
    }
    let sets_mtime = set.mtime.is_some() && !is_overtaken;
    let times = set.atime.is_some() || sets_mtime;
    if times || set.mode.is_some() || set.uid.is_some() || set.gid.is_some() || set.kill_suidgid {
        cx.sb.let_ctime_go_back(inode, now);
        // The per-core times of the last change are merged in before a new time replaces them.
        let folded = sets_mtime.then(|| inode.fields());
        let mut taken = None;
        if let Some(SetTime::NoEarlier(_)) = set.mtime.filter(|_| sets_mtime) {
            taken = Some(inode.percpu().take_max(TOUCHED));
        } else if folded.is_some() {
            inode.percpu().reset_max(TOUCHED, 0);
        }
        let kind = inode.kind();
        if folded.is_some() {
            cx.sb.record_untouched(inode);
        }
        cx.sb.change_attrs(inode, |fields| {
            if let Some(folded) = folded {
                (fields.mtime, fields.ctime) = (folded.mtime, folded.ctime);
            }
            // A write that came before `record_untouched` has its time in no other record.
            let touched = taken.map(|taken| Time::from_nanos(taken.max(inode.touched())));
            fields.mtime = fields.mtime.max(touched.unwrap_or(fields.mtime));
            apply(cx, fields, set, now);
            fields.ctime = fields.ctime.max(touched.unwrap_or(fields.ctime));
            if set.kill_suidgid && !gives && set.mode.is_none() {
                // A kernel in front decides with a change of owner, and not with a size.
                let member = match size {
                    Some(_) => is_member(cx.caller, fields.gid),
                    None => keeps_setgid(cx.caller, fields.gid),
                };
                fields.kill_suidgid(kind, member);
            }
        });
    }
    drop((closed, growth, change));
    cx.inode_changed(inode, set.size.map(|size| size..u64::MAX));
    Ok(())
}

/// Whether only the size changes: then changes of other attributes need not wait.
fn is_size_alone(set: &SetAttr) -> bool {
    let size = SetAttr {
        size: set.size,
        ..SetAttr::default()
    };
    *set == size
}

fn set_size_alone(cx: &Ctx<'_>, inode: &Inode, size: u64, opened: bool, g: &Guard) -> Attempt<()> {
    let growth = inode.meta.growth.lock();
    resize(cx, inode, (size, opened), &growth, None, g)?;
    drop(growth);
    drop_capability(cx, inode, g);
    cx.inode_changed(inode, Some(size..u64::MAX));
    Ok(())
}

/// Sets the size and the times. As in ext4 and XFS, `truncate` to the present size changes no
/// times, and `ftruncate` (`opened`) does.
fn resize(
    cx: &Ctx<'_>,
    inode: &Inode,
    (size, opened): (u64, bool),
    growth: &lock::LockGuard<'_, GrowthLock, ()>,
    closed: Option<&WriteGuard<'_>>,
    g: &Guard,
) -> Attempt<()> {
    if set_size(cx, inode, size, growth, closed, g)? || opened {
        cx.sb.touch(inode, cx.sb.now());
        // The new times are recorded with a write-back.
        cx.sb.note_dirty(inode);
    }
    Ok(())
}

/// Charges the new owners and records them at once: what is freed from here on is theirs.
fn give(cx: &Ctx<'_>, inode: &Inode, set: &SetAttr, g: &Guard) -> Attempt<()> {
    let mut fields = inode.meta.read();
    let (uid, gid) = (set.uid.unwrap_or(fields.uid), set.gid.unwrap_or(fields.gid));
    (fields.uid, fields.gid) = (uid, gid);
    let account = recharge(cx, inode, fields.owners(), cx.caller.privileged(), g)?;
    let kind = inode.kind();
    cx.sb.change_attrs(inode, |fields| {
        // At once: no other thread may see the bits set for a new owner.
        let member = keeps_setgid(cx.caller, fields.gid);
        fields.kill_suidgid(kind, member);
        (fields.uid, fields.gid, fields.account) = (uid, gid, account);
    });
    Ok(())
}

/// Charges the owners of `before` again, whatever their limits: a later part of the change failed.
fn take_back(cx: &Ctx<'_>, inode: &Inode, before: &Fields, g: &Guard) {
    let ledger = &cx.sb.quotas.ledger;
    let (account, amounts) = (inode.meta.account(), charged(cx, inode));
    let back = ledger.transfer(account, before.owners(), amounts, true, g);
    cx.sb.change_attrs(inode, |fields| {
        (fields.uid, fields.gid, fields.perm) = (before.uid, before.gid, before.perm);
        fields.account = back.unwrap_or(account);
    });
}

/// Charged blocks, including reserved ones, and the inode itself.
fn charged(cx: &Ctx<'_>, inode: &Inode) -> [u64; 2] {
    [inode.blocks() + reserve::count(cx.sb, inode), 1]
}

/// Moves the charges of `inode` to other owners, and returns the account that pays from now on. The
/// caller holds `change`, has closed the gate of a file, and stores the account number. `EBUSY`: a
/// kernel in front has acknowledged writes that the limits of the new owners could refuse.
pub(crate) fn recharge(
    cx: &Ctx<'_>,
    inode: &Inode,
    owners: Owners,
    force: bool,
    g: &Guard,
) -> Attempt<u32> {
    match cx.sb.payer(inode)? {
        None => Ok(inode.meta.account()),
        Some(account) => {
            if inode.data().is_some() && cx.sb.would_lose_writes(inode, owners, g) {
                return Err(Errno::EBUSY.into());
            }
            let ledger = &cx.sb.quotas.ledger;
            Ok(ledger.transfer(account, owners, charged(cx, inode), force, g)?)
        }
    }
}

fn apply(cx: &Ctx<'_>, fields: &mut Fields, set: &SetAttr, now: Time) {
    let time = |present: Time, t: Option<SetTime>| match t {
        None => present,
        Some(SetTime::Now) => now,
        Some(SetTime::At(time)) => time,
        Some(SetTime::NoEarlier(time)) => time.max(present),
    };
    fields.uid = set.uid.unwrap_or(fields.uid);
    fields.gid = set.gid.unwrap_or(fields.gid);
    if let Some(mode) = set.mode {
        fields.perm = mode & 0o7777;
        if !keeps_setgid(cx.caller, fields.gid) {
            fields.perm &= !(libc::S_ISGID as u16);
        }
    }
    fields.atime = time(fields.atime, set.atime);
    fields.mtime = time(fields.mtime, set.mtime);
    fields.ctime = set.ctime.unwrap_or(now);
}

/// `setattr_prepare` and `may_setattr` of Linux.
fn check(cx: &Ctx<'_>, inode: &Inode, set: &SetAttr, opened: bool, g: &Guard) -> Attempt<()> {
    let owner = inode.meta.owner();
    let fixed = owner.flags & (flags::IMMUTABLE | flags::APPEND) != 0;
    let touch = (set.atime, set.mtime) == (Some(SetTime::Now), Some(SetTime::Now));
    let times = set.atime.is_some() || set.mtime.is_some();
    // A kernel keeps times itself and sends them with writes; only times that a user set count
    // here.
    let explicit = times && !touch && cx.caller.checks();
    if (set.mode.is_some() || set.uid.is_some() || set.gid.is_some() || explicit) && fixed {
        return Err(Errno::EPERM.into());
    }
    if let Some(size) = set.size {
        check_size(cx, inode, size, opened, &owner, g)?;
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
    // A chown clears setuid and setgid even if it changes no id, and that is a change of mode.
    let member = cx.caller.in_group(owner.gid);
    let strips = set.kill_suidgid && owner.strips_suidgid(inode.kind(), member);
    if set.mode.is_some() || explicit || strips {
        may_own(cx.caller, &owner)?;
    }
    if touch && !owns {
        may(cx.caller, inode, WRITE, g)?;
    }
    Ok(())
}

fn check_size(
    cx: &Ctx<'_>,
    inode: &Inode,
    size: u64,
    opened: bool,
    owner: &Owner,
    g: &Guard,
) -> Attempt<()> {
    if inode.is_dir() {
        return Err(Errno::EISDIR.into());
    }
    if inode.data().is_none() && !is_control(inode.number()) {
        return Err(Errno::EINVAL.into());
    }
    if size > MAX_SIZE {
        return Err(Errno::EFBIG.into());
    }
    if !opened {
        may(cx.caller, inode, WRITE, g)?;
    }
    if owner.flags & (flags::APPEND | flags::IMMUTABLE) != 0 {
        return Err(Errno::EPERM.into());
    }
    Ok(())
}

/// The group bits of the mode are the mask of an access ACL; the rest of the ACL follows the mode.
fn chmod_acl(cx: &Ctx<'_>, inode: &Inode, mode: u16, g: &Guard) {
    if inode.meta.owner().has_acl()
        && let Some(extra) = inode.extra(g)
        && let Some(acl) = &extra.access
    {
        let access = Some(acl.chmod_masq(mode));
        let extra = extra.clone();
        cx.sb
            .change_extra(inode, XattrsAcls { access, ..extra }, |_| {}, g);
    }
}
