//! Hard links and reading symbolic ones.

use super::lookup::{find, miss_entry};
use super::perm::{READ, WRITE, may_access, may_create};
use crate::attr::Kind;
use crate::caller::Caller;
use crate::directory::Lookup;
use crate::errno::Errno;
use crate::flags;
use crate::hashed::{Hashed, check_name};
use crate::inode::{Body, Inode, InodeExt};
use crate::number::{is_control, is_control_name};
use crate::ops::ctx::Ctx;
use crate::superblock::Attempt;
use crate::watch::NameChange;
use hearth_sync::epoch::Guard;

/// Gives `inode` another name. An unlinked inode gets its first name only if it was made for that
/// (`O_TMPFILE`): an inode that has lost its last name never gets one again.
pub(crate) fn link(
    cx: &Ctx<'_>,
    inode: &Inode,
    parent: &Inode,
    at: Hashed<'_>,
    g: &Guard,
) -> Attempt<()> {
    check_name(&at)?;
    let directory = parent.directory().ok_or(Errno::ENOTDIR)?;
    if is_control_name(parent.number(), at.name) || find(parent, at, g)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    cx.begin_change(parent)?;
    // Before the checks of the directory, as in Linux.
    if cx.sb.options.protection.hardlinks {
        may_link(cx.caller, inode, g)?;
    }
    may_create(cx.caller, parent, g)?;
    let is_fixed = inode.meta.flags() & (flags::APPEND | flags::IMMUTABLE) != 0;
    if is_fixed || inode.is_dir() || is_control(inode.number()) {
        return Err(Errno::EPERM.into());
    }
    let _parent = cx.pin_inode(parent, g)?;
    let _node = match inode.meta.is_linkable() {
        true => Some(cx.pin_always(inode, g)?),
        false => cx.pin_inode(inode, g)?,
    };
    let locked = directory.lock(at, g).map_err(|_| Errno::ENOENT)?;
    let place = match locked.find(at, g) {
        Ok(place) => place,
        Err(Lookup::Unknown) => return Err(miss_entry(parent, at.name)),
        Err(_) => return Err(Errno::EEXIST.into()),
    };
    let now = cx.sb.now();
    cx.sb.let_ctime_go_back(inode, now);
    // The count goes first: an inode whose last name is removed meanwhile must not be freed.
    let is_first = cx.sb.change_attrs(inode, |fields| match fields.nlink {
        0 if !fields.linkable => Err(Errno::ENOENT),
        links if links >= cx.sb.options.links_max => Err(Errno::EMLINK),
        // The last check in Linux.
        _ if !takes_in(parent, fields.project) => Err(Errno::EXDEV),
        _ => {
            fields.nlink += 1;
            fields.ctime = now;
            Ok(std::mem::take(&mut fields.linkable))
        }
    })?;
    if is_first {
        cx.sb.discount_unlinked(inode);
    }
    let to = inode.target();
    cx.sb.record_name(parent, &locked, at, Some(to));
    cx.tell_name(
        parent,
        at.name,
        || (to.into(), to.kind),
        || NameChange::Create,
    );
    let needs_growth = locked.put(place, at, to, g);
    cx.sb.count_entry(parent, 1, false, now);
    if needs_growth {
        directory.grow_some(|| parent.entries(), g);
        cx.sb.recount(directory, g);
    }
    cx.entry_changed(parent, at.name);
    cx.inode_changed(inode, None);
    Ok(())
}

/// `may_linkat` of Linux with `fs.protected_hardlinks`. Checked for every origin: a kernel checks
/// by its own setting, if at all.
fn may_link(caller: &Caller<'_>, inode: &Inode, g: &Guard) -> Result<(), Errno> {
    let owner = inode.meta.owner();
    if caller.privileged() || caller.uid == owner.uid {
        return Ok(());
    }
    let mode = u32::from(owner.perm);
    let gains = mode & libc::S_ISUID != 0
        || mode & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP;
    if inode.kind() != Kind::File
        || gains
        || may_access(caller, inode, owner, READ | WRITE, g).is_err()
    {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// Whether directory `parent` accepts an inode of `project`: a directory that passes its own
/// project on accepts no other.
pub(crate) fn takes_in(parent: &Inode, project: u32) -> bool {
    parent.meta.flags() & flags::PROJINHERIT == 0 || parent.meta.project() == project
}

/// Target of a symbolic link.
pub(crate) fn readlink<'g>(cx: &Ctx<'_>, inode: &'g Inode) -> Attempt<&'g [u8]> {
    if inode.kind() != Kind::Symlink {
        // Decided without reading the contents, which a truncate may be changing.
        return Err(Errno::EINVAL.into());
    }
    match &inode.body {
        Body::Symlink(target) => {
            super::io::touch_atime(cx, inode, false)?;
            Ok(target)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}
