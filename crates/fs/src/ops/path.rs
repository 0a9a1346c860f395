//! From a directory up to the root: its name, and its path.

use super::list::list;
use super::lookup::{above, find, hashed};
use crate::attr::DirEntry;
use crate::directory::Directory;
use crate::errno::Errno;
use crate::inode::Inode;
use crate::number::ROOT;
use crate::ops::ctx::Ctx;
use crate::superblock::{Attempt, Stop};
use hearth_sync::epoch::Guard;

/// A directory on the way up.
struct Below<'g> {
    inode: &'g Inode,
    directory: &'g Directory,
    parent: &'g Inode,
    name: Vec<u8>,
}

/// The path from `root` to `inode`, which it had at one moment. `ENOENT` for a directory that was
/// removed, or does not lie below `root`.
pub(crate) fn path_of<'g>(
    cx: &Ctx<'_>,
    mut inode: &'g Inode,
    root: &Inode,
    g: &'g Guard,
) -> Attempt<Vec<u8>> {
    // No directory gets another parent meanwhile.
    let _still = cx.sb.names.rename.0.lock();
    if inode.meta.is_unlinked() {
        return Err(Errno::ENOENT.into());
    }
    let mut way = Vec::new();
    while inode.number() != root.number() {
        if inode.number() == ROOT {
            return Err(Errno::ENOENT.into());
        }
        let directory = inode.directory().ok_or(Errno::ENOTDIR)?;
        let parent = above(cx, inode, directory, g)?;
        let name = name_of(cx, (inode, directory), parent, g)?;
        way.push(Below {
            inode,
            directory,
            parent,
            name,
        });
        inode = parent;
    }
    if !is_whole(cx, &way, g)? {
        return Err(Stop::Restart);
    }
    let path = way.iter().rev().flat_map(|below| [b"/", &below.name[..]]);
    let path = path.collect::<Vec<_>>().concat();
    Ok(if path.is_empty() { b"/".to_vec() } else { path })
}

/// Whether all have these names at one moment. Listing their parents took longer, and they may have
/// been renamed in place since.
fn is_whole(cx: &Ctx<'_>, way: &[Below<'_>], g: &Guard) -> Attempt<bool> {
    let counts = way.iter().map(|below| below.directory.moves().peek());
    let counts: Vec<u32> = counts.collect();
    for Below {
        inode,
        parent,
        name,
        ..
    } in way
    {
        let entry = find(parent, hashed(cx, name), g)?;
        let id = entry.map(|entry| (entry.ino(), entry.generation()));
        if id != Some((inode.number(), inode.generation())) {
            return Ok(false);
        }
    }
    let mut noted = way.iter().zip(counts);
    Ok(noted.all(|(below, count)| !below.directory.moves().has_moved_since(count)))
}

/// The name of a directory in its parent. `ENOENT` if it was removed.
pub(crate) fn name_of(
    cx: &Ctx<'_>,
    (inode, directory): (&Inode, &Directory),
    parent: &Inode,
    g: &Guard,
) -> Attempt<Vec<u8>> {
    let count = directory.moves().peek();
    let mut name = None;
    let mut look = |entry: DirEntry<'_>| {
        if entry.ino == inode.number() && entry.name != b"." && entry.name != b".." {
            name = Some(entry.name.to_vec());
        }
        name.is_none()
    };
    list(cx, parent, 0, true, &mut look, g)?;
    match name {
        Some(name) => Ok(name),
        // It has left a bucket that was still to come for one that had been listed.
        None if directory.moves().has_moved_since(count) => Err(Stop::Restart),
        None => Err(Errno::ENOENT.into()),
    }
}
