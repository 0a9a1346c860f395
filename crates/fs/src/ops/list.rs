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

/// How far a listing has come.
pub(crate) struct Progress {
    /// Cookie of the last entry that was taken; 0 at the start.
    pub reached: u64,
    /// How many more entries are asked for; 0 when there were enough, or a few more than that.
    pub left: usize,
}

impl Progress {
    /// A listing behind `cookie`, of everything.
    pub fn behind(cookie: u64) -> Progress {
        Progress {
            reached: cookie,
            left: usize::MAX,
        }
    }
}

/// Passes all entries to `f`, until it returns false, and leaves the access time alone.
pub(crate) fn list_all(
    cx: &Ctx<'_>,
    inode: &Inode,
    f: &mut dyn FnMut(DirEntry<'_>) -> bool,
    g: &Guard,
) -> Attempt<()> {
    list(cx, inode, &mut Progress::behind(0), true, f, g)
}

/// Passes the entries behind what was reached to `f`, `.` and `..` first, until it returns false or
/// there were as many as asked for. An entry that exists throughout comes exactly once, whatever is
/// added and removed meanwhile (C6). `ENOENT` if the directory was removed. A restarted step, after
/// the directory was evicted in the middle, begins behind the last entry that `f` took.
// Always inlined, and what it counts is here while entries are passed on: then `f` is inlined and
// all is in registers.
#[inline(always)]
pub(crate) fn list(
    cx: &Ctx<'_>,
    inode: &Inode,
    progress: &mut Progress,
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
        if progress.reached < next {
            if !f(DirEntry {
                ino,
                kind: Kind::Directory,
                name,
                cookie: next,
            }) {
                return Ok(());
            }
            progress.reached = next;
        }
    }
    let (mut reached, mut left) = (progress.reached, progress.left);
    let was_complete = directory.list(reached, g, |entries| {
        let mut taken = entries;
        for (before, entry) in entries.iter().enumerate() {
            if !f(entry.listed()) {
                taken = &entries[..before];
                break;
            }
        }
        if let Some(last) = taken.last() {
            reached = last.cookie();
        }
        left = left.saturating_sub(taken.len());
        let is_refused = taken.len() < entries.len();
        if is_refused {
            // It has not ended because there were enough.
            left = left.max(1);
        }
        !is_refused && left > 0
    });
    *progress = Progress { reached, left };
    // Evicted meanwhile.
    match was_complete {
        true => Ok(()),
        false => Err(miss_directory(inode)),
    }
}
