//! Hard links and reading symbolic ones.

use super::lookup::{find, hashed, unknown};
use super::perm::{READ, WRITE, may_access, may_create};
use crate::attr::Kind;
use crate::caller::Caller;
use crate::control;
use crate::directory::{Change, Look};
use crate::errno::Errno;
use crate::flags;
use crate::home;
use crate::inode::{Body, Node, NodeExt};
use crate::name::check_name;
use crate::number::is_control;
use crate::volume::{Ctx, Step};
use hearth_sync::epoch::Guard;

/// Gives `node` another name. One without a name gets its first only if it was made so
/// (`O_TMPFILE`): what has lost its last name never has one again.
pub(crate) fn link(cx: &Ctx<'_>, node: &Node, parent: &Node, name: &[u8], g: &Guard) -> Step<()> {
    check_name(name)?;
    let directory = parent.directory().ok_or(Errno::ENOTDIR)?;
    let at = hashed(cx, name);
    if control::reserves(parent, name) || find(parent, at, g)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    cx.core.check_writable()?;
    // Before what is asked of the directory, as in Linux.
    if cx.core.protection.hardlinks {
        may_link(cx.caller, node, g)?;
    }
    may_create(cx.caller, parent, g)?;
    let is_fixed = node.meta.flags() & (flags::APPEND | flags::IMMUTABLE) != 0;
    if is_fixed || node.is_dir() || is_control(node.number()) {
        return Err(Errno::EPERM.into());
    }
    let _parent = cx.keep(parent, g)?;
    let _node = match node.meta.is_linkable() {
        true => cx.hold(node, g)?,
        false => cx.keep(node, g)?,
    };
    let locked = directory.lock(at, g).map_err(|_| Errno::ENOENT)?;
    match locked.find(at, g) {
        Look::Absent => {}
        Look::Hit(_) => return Err(Errno::EEXIST.into()),
        Look::Unknown => return Err(unknown(parent, name)),
    }
    let now = cx.core.now();
    // The count goes first: an inode whose last name goes meanwhile must not be freed.
    let is_first = node.meta.update(|fields| match fields.nlink {
        0 if !fields.linkable => Err(Errno::ENOENT),
        links if links >= cx.core.links_max => Err(Errno::EMLINK),
        // The last thing that Linux asks.
        _ if !takes_in(parent, fields.project) => Err(Errno::EXDEV),
        _ => {
            fields.nlink += 1;
            fields.ctime = now;
            Ok(std::mem::take(&mut fields.linkable))
        }
    })?;
    if is_first {
        cx.core.discount_nameless(node);
    }
    let to = node.target();
    if cx.core.home.evictable() {
        let entry = home::Change::Link {
            dir: parent.number(),
            name,
            to,
        };
        if let Err(errno) = cx.core.home.commit(&[entry]) {
            drop(locked);
            node.meta.update(|fields| {
                fields.nlink -= 1;
                fields.linkable = is_first && fields.nlink == 0;
            });
            cx.core.reap(node, g);
            return Err(errno.into());
        }
    }
    let crowded = locked.apply(Change { at, to: Some(to) }, g);
    parent.count_entry(1, false, now);
    if crowded {
        directory.grow_a_part(|| parent.entries(), g);
    }
    cx.entry_changed(parent, name);
    cx.node_changed(node, None);
    Ok(())
}

/// `may_linkat` of Linux with `fs.protected_hardlinks`. Asked of every door: a kernel asks by its
/// own setting, if at all.
fn may_link(caller: &Caller<'_>, node: &Node, g: &Guard) -> Result<(), Errno> {
    let owner = node.meta.owner();
    if caller.privileged() || caller.uid == owner.uid {
        return Ok(());
    }
    let mode = u32::from(owner.perm);
    let gains = mode & libc::S_ISUID != 0
        || mode & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP;
    if node.kind() != Kind::File
        || gains
        || may_access(caller, node, &owner, READ | WRITE, g).is_err()
    {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// Whether directory `parent` takes in what is of `project`: one that hands its own project on
/// takes in nothing else.
pub(crate) fn takes_in(parent: &Node, project: u32) -> bool {
    parent.meta.flags() & flags::PROJINHERIT == 0 || parent.meta.project() == project
}

/// Target of a symbolic link.
pub(crate) fn readlink<'g>(cx: &Ctx<'_>, node: &'g Node) -> Step<&'g [u8]> {
    if node.kind() != Kind::Symlink {
        // Said without a look at the contents, which a truncate may be changing.
        return Err(Errno::EINVAL.into());
    }
    match &node.body {
        Body::Symlink(target) => {
            super::io::touch_atime(cx, node, false);
            Ok(target)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}
