//! Inode flags and project ids: `FS_IOC_GETFLAGS`, `FS_IOC_FSGETXATTR` and their setters.

use super::attr::recharge;
use super::perm::may_own;
use crate::attr::FsXAttr;
use crate::errno::Errno;
use crate::flags::{self, APPEND, IMMUTABLE, PROJINHERIT, SETTABLE, from_xflags, to_xflags};
use crate::inode::Inode;
use crate::number::is_control;
use crate::ops::ctx::Ctx;
use crate::superblock::Attempt;
use hearth_sync::epoch::Guard;

/// An id that no project has.
const NO_PROJECT: u32 = u32::MAX;
/// Flags that only privileged callers may change.
const FIXED: u32 = APPEND | IMMUTABLE;

/// Sets the `FS_*_FL` flags; `EOPNOTSUPP` for a flag without a meaning here.
pub(crate) fn set_flags(cx: &Ctx<'_>, inode: &Inode, new: u32, g: &Guard) -> Attempt<()> {
    set(cx, inode, new, None, g).map(drop)
}

/// `struct fsxattr` of the inode.
pub(crate) fn get_fsxattr(inode: &Inode) -> FsXAttr {
    let fields = inode.meta.read();
    FsXAttr {
        xflags: to_xflags(fields.flags),
        project: fields.project,
        ..FsXAttr::default()
    }
}

/// Sets flags and project id. Returns the project id of before.
pub(crate) fn set_fsxattr(cx: &Ctx<'_>, inode: &Inode, new: &FsXAttr, g: &Guard) -> Attempt<u32> {
    let flags = from_xflags(new.xflags).ok_or(Errno::EOPNOTSUPP)?;
    if new.extsize != 0 || new.cowextsize != 0 {
        return Err(Errno::EINVAL.into());
    }
    let only_flags = inode.meta.flags() & flags::DIRSYNC;
    set(cx, inode, flags | only_flags, Some(new.project), g)
}

fn set(cx: &Ctx<'_>, inode: &Inode, new: u32, project: Option<u32>, g: &Guard) -> Attempt<u32> {
    cx.begin_change(inode)?;
    if is_control(inode.number()) {
        // Their flags forbid the change.
        return Err(Errno::EPERM.into());
    }
    // As in XFS, a flag that only a directory can pass on is dropped elsewhere.
    let new = match inode.is_dir() {
        true => new,
        false => new & !PROJINHERIT,
    };
    let _kept = cx.pin_inode(inode, g)?;
    let _change = inode.meta.change.lock();
    let old = inode.meta.read();
    may_own(cx.caller, &inode.meta.owner())?;
    // The kernel does not see these flags before it sends the request, so the privilege is checked
    // for every origin.
    let changed = old.flags ^ new;
    if changed & FIXED != 0 && !cx.caller.privileged() {
        return Err(Errno::EPERM.into());
    }
    let moves = project.is_some_and(|project| project != old.project);
    let keeper = cx.caller.manages_volume_of(cx.sb.options.owner.0);
    if (moves || changed & PROJINHERIT != 0) && !keeper {
        return Err(Errno::EPERM.into());
    }
    if moves && project == Some(NO_PROJECT) {
        return Err(Errno::EINVAL.into());
    }
    if new & !SETTABLE != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let mut owners = old.owners();
    owners.project = project.unwrap_or(owners.project);
    let _closed = (owners != old.owners() && inode.data().is_some())
        .then(|| inode.gate.write(inode.percpu()));
    let account = match owners == old.owners() {
        true => old.account,
        false => recharge(cx, inode, owners, keeper, g)?,
    };
    cx.sb.note_project(owners.project);
    cx.sb.change_attrs_at(inode, cx.sb.now(), |fields| {
        fields.flags = new;
        fields.project = owners.project;
        fields.account = account;
    });
    cx.inode_changed(inode, None);
    Ok(old.project)
}
