//! Which directories are ancestors of another. The result holds as long as the rename lock is held.

use crate::directory::Entry;
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
    let mut child = here;
    loop {
        if here == ino {
            return Ok(true);
        }
        if here == crate::number::ROOT {
            return Ok(false);
        }
        let inode = cx.sb.inode(here, g).map_err(|stop| match stop {
            // An ancestor was removed: a path to this directory does not exist any more.
            Stop::Errno(_) => Stop::Errno(Errno::ENOENT),
            // The child may have another parent by the time this one is fetched.
            Stop::Miss(_) if here != child => Stop::miss(Fetch::Above(child)),
            other => other,
        })?;
        child = here;
        here = inode.directory().ok_or(Errno::ENOTDIR)?.parent();
    }
}
