//! Which directories are ancestors of another. The result holds as long as the rename lock is held.

use crate::directory::{Directory, Entry};
use crate::errno::Errno;
use crate::inode::Inode;
use crate::ops::ctx::Ctx;
use crate::superblock::{Attempt, Fetch, Stop};
use hearth_sync::epoch::Guard;

/// Refuses a target at or above `source` with `errno`.
pub(crate) fn check_not_above(
    cx: &Ctx<'_>,
    target: Option<&Entry>,
    source: &Inode,
    errno: Errno,
    g: &Guard,
) -> Attempt<()> {
    match target {
        Some(target) if is_at_or_above(cx, target.ino(), source, g)? => Err(errno.into()),
        _ => Ok(()),
    }
}

/// Whether directory `ino` is `below` or one of its ancestors.
pub(crate) fn is_at_or_above(cx: &Ctx<'_>, ino: u64, below: &Inode, g: &Guard) -> Attempt<bool> {
    let mut here = below.number();
    let mut child: Option<(u64, &Directory)> = None;
    loop {
        let inode = cx.sb.inode(here, g).map_err(|stop| match (stop, child) {
            // An ancestor was removed: a path to this directory does not exist any more.
            (Stop::Errno(_), _) => Stop::Errno(Errno::ENOENT),
            // The child may have another parent by the time this one is fetched.
            (Stop::Miss(_), Some((child, _))) => Stop::miss(Fetch::Above(child)),
            (other, _) => other,
        })?;
        // The child was removed, and the number of its parent may be another's.
        if child.is_some_and(|(_, child)| child.dead_parent() != 0) {
            return Err(Errno::ENOENT.into());
        }
        if here == ino {
            return Ok(true);
        }
        if here == crate::number::ROOT {
            return Ok(false);
        }
        let directory = inode.directory().ok_or(Errno::ENOTDIR)?;
        child = Some((here, directory));
        here = directory.parent();
    }
}
