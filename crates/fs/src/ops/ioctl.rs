//! Inode flags and project ids: `FS_IOC_GETFLAGS`, `FS_IOC_FSGETXATTR` and their setters.

use super::attr::recharge;
use super::perm::may_own;
use crate::attr::FsXAttr;
use crate::errno::Errno;
use crate::flags::{self, APPEND, IMMUTABLE, PROJINHERIT, SETTABLE, from_xflags, to_xflags};
use crate::inode::{Node, NodeExt};
use crate::number::is_control;
use crate::volume::{Ctx, Step};
use hearth_sync::epoch::Guard;

/// No project has this id.
const NO_PROJECT: u32 = u32::MAX;
/// What only the privileged may change.
const FIXED: u32 = APPEND | IMMUTABLE;

/// Sets the `FS_*_FL` flags; `EOPNOTSUPP` for one that means nothing here.
pub(crate) fn set_flags(cx: &Ctx<'_>, node: &Node, new: u32, g: &Guard) -> Step<()> {
    set(cx, node, new, None, g)
}

/// `struct fsxattr` of the inode.
pub(crate) fn get_fsxattr(node: &Node) -> FsXAttr {
    let fields = node.meta.read();
    FsXAttr {
        xflags: to_xflags(fields.flags),
        project: fields.project,
        ..FsXAttr::default()
    }
}

/// Sets flags and project id.
pub(crate) fn set_fsxattr(cx: &Ctx<'_>, node: &Node, new: &FsXAttr, g: &Guard) -> Step<()> {
    let flags = from_xflags(new.xflags).ok_or(Errno::EOPNOTSUPP)?;
    if new.extsize != 0 || new.cowextsize != 0 {
        return Err(Errno::EINVAL.into());
    }
    let only_flags = node.meta.flags() & flags::DIRSYNC;
    set(cx, node, flags | only_flags, Some(new.project), g)
}

fn set(cx: &Ctx<'_>, node: &Node, new: u32, project: Option<u32>, g: &Guard) -> Step<()> {
    cx.core.check_writable()?;
    if is_control(node.number()) {
        // Their flags keep them where they are.
        return Err(Errno::EPERM.into());
    }
    // As XFS: what only a directory can hand on means nothing elsewhere.
    let new = match node.is_dir() {
        true => new,
        false => new & !PROJINHERIT,
    };
    let _kept = cx.keep(node, g)?;
    let _change = node.meta.change.lock();
    let old = node.meta.read();
    may_own(cx.caller, &node.meta.owner())?;
    // The kernel does not see our flags before it asks, so the privilege is checked whatever the
    // door.
    let changed = old.flags ^ new;
    if changed & FIXED != 0 && !cx.caller.privileged() {
        return Err(Errno::EPERM.into());
    }
    // Linux lets the owner of a file take it out of its project, and so out of the project's limit.
    // Here the owner of the volume keeps its quotas.
    let moves = project.is_some_and(|project| project != old.project);
    let keeper = cx.caller.privileged() || cx.caller.uid == cx.core.owner.0;
    if (moves || changed & PROJINHERIT != 0) && !keeper {
        return Err(Errno::EPERM.into());
    }
    if project.is_some_and(|project| project != old.project && project == NO_PROJECT) {
        return Err(Errno::EINVAL.into());
    }
    if new & !SETTABLE != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let mut owners = old.owners();
    owners.project = project.unwrap_or(owners.project);
    let _closed =
        (owners != old.owners() && node.data().is_some()).then(|| node.gate.write(node.percpu()));
    let account = match owners == old.owners() {
        true => old.account,
        false => recharge(cx, node, owners, keeper, g)?,
    };
    cx.core.note_project(owners.project);
    node.change_meta(cx.core.now(), |fields| {
        fields.flags = new;
        fields.project = owners.project;
        fields.account = account;
    });
    cx.node_changed(node, None);
    Ok(())
}
