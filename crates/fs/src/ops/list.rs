//! Listing a directory.

use crate::attr::{DirEntry, Kind};
use crate::errno::Errno;
use crate::inode::Inode;
use crate::ops::create::miss_directory;
use crate::ops::ctx::Ctx;
use crate::ops::io::touch_atime;
use crate::superblock::Attempt;
use hearth_sync::epoch::Guard;

/// Cookie after `.`.
const AFTER_DOT: u64 = 1;
/// Cookie after `..`; entries have cookies above it.
const AFTER_DOTS: u64 = 2;

/// Passes the entries after `cookie` (0: from the start) to `f`, `.` and `..` first, until it
/// returns false. An entry that exists throughout comes exactly once, whatever is added and removed
/// meanwhile (C6). `ENOENT` if the directory was removed. A restarted step, after the directory was
/// evicted in the middle, begins after the last entry that `f` took.
pub(crate) fn list(
    cx: &Ctx<'_>,
    inode: &Inode,
    cookie: u64,
    noatime: bool,
    mut f: impl FnMut(DirEntry<'_>) -> bool,
    g: &Guard,
) -> Attempt<()> {
    let directory = inode.directory().ok_or(Errno::ENOTDIR)?;
    if !directory.is_complete() {
        return Err(miss_directory(inode));
    }
    if inode.meta.is_unlinked() {
        return Err(Errno::ENOENT.into());
    }
    touch_atime(cx, inode, noatime)?;
    let dots = [
        (b"." as &[u8], inode.number(), AFTER_DOT),
        (b"..", directory.parent(), AFTER_DOTS),
    ];
    for (name, ino, next) in dots {
        if cookie < next
            && !f(DirEntry {
                ino,
                kind: Kind::Directory,
                name,
                cookie: next,
            })
        {
            return Ok(());
        }
    }
    let from = cookie.max(AFTER_DOTS);
    let was_complete = directory.list(from, g, |entry| f(entry.listed()));
    // Evicted meanwhile.
    match was_complete {
        true => Ok(()),
        false => Err(miss_directory(inode)),
    }
}
