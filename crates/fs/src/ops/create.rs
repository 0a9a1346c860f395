//! Making inodes: files, directories, symbolic links, device nodes, unlinked files.

use super::lookup::{find, miss_entry};
use super::perm::{EXEC, WRITE, may, may_create};
use crate::acl::Acl;
use crate::attr::{Kind, Time};
use crate::data::Data;
use crate::directory::{Directory, Lookup};
use crate::errno::Errno;
use crate::flags;
use crate::hashed::{Hashed, check_name};
use crate::inode::{Body, Fields, Inode, InodeExt, InodeRef, PaddedBytes, XattrsAcls};
use crate::number::is_control_name;
use crate::ops::ctx::Ctx;
use crate::superblock::{Attempt, Fetch, Stop};
use crate::watch::NameChange;
use hearth_sync::epoch::Guard;

/// The object to make.
pub(crate) enum New<'a> {
    File,
    /// An unlinked file, and whether it may get a name.
    Nameless {
        linkable: bool,
    },
    Directory,
    Symlink(&'a [u8]),
    /// Fifo, socket or device with its number.
    Special(Kind, u32),
}

impl New<'_> {
    fn kind(&self) -> Kind {
        match self {
            New::File | New::Nameless { .. } => Kind::File,
            New::Directory => Kind::Directory,
            New::Symlink(_) => Kind::Symlink,
            New::Special(kind, _) => *kind,
        }
    }
}

/// Makes a name in `parent`; `EEXIST` if it exists. Returns a reference to the new inode.
pub(crate) fn create(
    cx: &Ctx<'_>,
    parent: &Inode,
    at: Hashed<'_>,
    new: &New<'_>,
    mode: u16,
    g: &Guard,
) -> Attempt<InodeRef> {
    check_new_name(parent, &at)?;
    if find(parent, at, g)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    create_absent(cx, parent, at, new, mode, g)
}

/// Whether a new object may have this name.
#[inline(always)]
fn check_new_name(parent: &Inode, at: &Hashed<'_>) -> Result<(), Errno> {
    if parent.meta.is_unlinked() {
        // Checked before the name is looked up, as in Linux.
        return Err(Errno::ENOENT);
    }
    check_name(at)?;
    match is_control_name(parent.number(), at.name) {
        true => Err(Errno::EEXIST),
        false => Ok(()),
    }
}

/// [`create`] of a name that the caller has just looked up and not found. Another thread may have
/// made it since, so the name is looked up once more under the lock of its bucket.
pub(crate) fn create_absent(
    cx: &Ctx<'_>,
    parent: &Inode,
    at: Hashed<'_>,
    new: &New<'_>,
    mode: u16,
    g: &Guard,
) -> Attempt<InodeRef> {
    check_new_name(parent, &at)?;
    let directory = parent.directory().ok_or(Errno::ENOTDIR)?;
    cx.begin_change(parent)?;
    may_create(cx.caller, parent, g)?;
    if let New::Special(kind @ (Kind::Char | Kind::Block), rdev) = *new
        && cx.caller.checks()
        && !cx.caller.privileged()
        // A whiteout does not count as a device: Linux lets every user make it.
        && (kind, rdev) != (Kind::Char, 0)
    {
        return Err(Errno::EPERM.into());
    }
    match new {
        New::Symlink(target) => check_target(target)?,
        New::Directory if !parent.has_room_for_directory() => return Err(Errno::EMLINK.into()),
        _ => {}
    }
    let _parent = cx.pin_inode(parent, g)?;
    let now = cx.sb.now();
    let inode = make(cx, parent, new, (mode, now), g)?;
    match insert(cx, (parent, directory), at, (&inode, now), g) {
        Ok(needs_growth) => {
            if needs_growth {
                directory.grow_some(|| parent.entries(), g);
                cx.sb.recount(directory, g);
            }
            cx.entry_changed(parent, at.name);
            Ok(inode)
        }
        Err(stop) => {
            discard(cx, inode, g);
            Err(stop)
        }
    }
}

/// Makes an unlinked file (`O_TMPFILE`) with the attributes that `parent` gives it. `linkable`: it
/// may get a name. As in tmpfs, `parent` may have been removed: it gets no name in there.
pub(crate) fn tmpfile(
    cx: &Ctx<'_>,
    parent: &Inode,
    mode: u16,
    linkable: bool,
    g: &Guard,
) -> Attempt<InodeRef> {
    parent.directory().ok_or(Errno::ENOTDIR)?;
    cx.begin_change(parent)?;
    may(cx.caller, parent, WRITE | EXEC, g)?;
    let new = New::Nameless { linkable };
    let inode = make(cx, parent, &new, (mode, cx.sb.now()), g)?;
    cx.sb.record_new(&inode, g);
    Ok(inode)
}

// Always inlined: its one caller has all that it is given in registers.
#[inline(always)]
fn insert(
    cx: &Ctx<'_>,
    (parent, directory): (&Inode, &Directory),
    at: Hashed<'_>,
    (inode, now): (&InodeRef, Time),
    g: &Guard,
) -> Attempt<bool> {
    let locked = directory.lock(at, g).map_err(|_| Errno::ENOENT)?;
    let place = match locked.find(at, g) {
        Ok(place) => place,
        Err(Lookup::Unknown) => return Err(miss_entry(parent, at.name)),
        Err(_) => return Err(Errno::EEXIST.into()),
    };
    let to = inode.target();
    cx.sb.record_new(inode, g);
    cx.sb.record_name(parent, &locked, at, Some(to));
    cx.tell_name(
        parent,
        at.name,
        || (to.into(), to.kind),
        || NameChange::Create,
    );
    let needs_growth = locked.put(place, at, to, g);
    cx.sb
        .count_entry(parent, 1, to.kind == Kind::Directory, now);
    Ok(needs_growth)
}

/// A new inode with the attributes that `parent` and the caller give it, made at `now`.
pub(crate) fn make(
    cx: &Ctx<'_>,
    parent: &Inode,
    new: &New<'_>,
    (mode, now): (u16, Time),
    g: &Guard,
) -> Attempt<InodeRef> {
    cx.sb.check_room()?;
    // Only this is read of the parent: names and times lie on a cache line that changes of other
    // attributes write.
    let above = parent.meta.owner();
    let setgid = u32::from(above.perm) & libc::S_ISGID != 0;
    let mut fields = Fields::new(mode & 0o7777, cx.caller.uid, cx.caller.gid, now);
    if let New::Nameless { linkable } = *new {
        (fields.nlink, fields.linkable) = (0, linkable);
    }
    fields.flags = above.flags & flags::INHERITED;
    if fields.flags & flags::PROJINHERIT != 0 {
        fields.project = above.project;
    }
    if setgid {
        fields.gid = above.gid;
    }
    let kind = new.kind();
    if kind != Kind::Directory {
        // Only directories pass the flag on.
        fields.flags &= !flags::PROJINHERIT;
    }
    // Decided before the umask is applied: the umask may clear the group's execute bit, which
    // decides here.
    if setgid && kind == Kind::Directory {
        fields.perm |= libc::S_ISGID as u16;
    } else if setgid && strips_setgid(cx, &fields) {
        fields.perm &= !(libc::S_ISGID as u16);
    }
    let extra;
    (fields.perm, extra) = inherit_acl(cx, parent, kind, fields.perm, g);
    // Made where it stays: until then there is nothing to be dropped if something panics.
    let body = || match new {
        New::File | New::Nameless { .. } => Body::File(Data::new()),
        New::Directory => Body::Directory(Box::new(Directory::new(parent.number(), true))),
        New::Symlink(target) => Body::Symlink(PaddedBytes::new(target)),
        New::Special(_, rdev) => Body::Special(*rdev),
    };
    let hint = parent.meta.account();
    Ok(cx.sb.make_inode((kind, fields), body, extra, hint, g)?)
}

/// Applies the parent's default ACL to a mode, or the umask where there is none; returns the ACLs
/// of the new inode beside its mode.
// By value, like `inherit_default`: the other attributes need not be in memory for it.
#[inline(always)]
fn inherit_acl(
    cx: &Ctx<'_>,
    parent: &Inode,
    kind: Kind,
    perm: u16,
    g: &Guard,
) -> (u16, Option<Box<XattrsAcls>>) {
    if kind == Kind::Symlink {
        return (0o777, None);
    }
    match parent.default_acl(g) {
        Some(default) => inherit_default(default, kind, perm),
        None => (perm & !(cx.caller.umask & 0o777), None),
    }
}

#[cold]
#[inline(never)]
fn inherit_default(default: &Acl, kind: Kind, perm: u16) -> (u16, Option<Box<XattrsAcls>>) {
    let (perm, access) = default.create_masq(perm);
    let handed_on = (kind == Kind::Directory).then(|| default.clone());
    let extra = XattrsAcls {
        access,
        default: handed_on,
        ..XattrsAcls::default()
    };
    (perm, (!extra.is_empty()).then(|| Box::new(extra)))
}

/// Whether setgid is cleared: a caller outside the group may not make a group-executable setgid
/// file in a setgid directory.
fn strips_setgid(cx: &Ctx<'_>, fields: &Fields) -> bool {
    let bits = (libc::S_ISGID | libc::S_IXGRP) as u16;
    fields.perm & bits == bits
        && cx.caller.checks()
        && !cx.caller.privileged()
        && !cx.caller.in_group(fields.gid)
}

fn check_target(target: &[u8]) -> Result<(), Errno> {
    match target.len() {
        0 => Err(Errno::ENOENT),
        len if len > libc::PATH_MAX as usize - 1 => Err(Errno::ENAMETOOLONG),
        _ if target.contains(&0) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Discards an inode that never got its name.
pub(crate) fn discard(cx: &Ctx<'_>, inode: InodeRef, g: &Guard) {
    inode.meta.update(|fields| fields.nlink = 0);
    cx.sb.release(inode, g);
}

/// The stop for a missing directory: all of its entries are to be fetched.
pub(crate) fn miss_directory(inode: &Inode) -> Stop {
    Stop::miss(Fetch::Directory(inode.number()))
}
