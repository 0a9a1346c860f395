//! Removing entries: unlink and rmdir.

use super::create::miss_directory;
use super::lookup::{find, miss_entry};
use super::perm::may_delete;
use crate::attr::Kind;
use crate::directory::{Entry, Found, Locked, Lookup, Refused, Removal};
use crate::errno::Errno;
use crate::hashed::Hashed;
use crate::inode::Inode;
use crate::name::NAME_MAX;
use crate::number::is_control_name;
use crate::ops::ctx::Ctx;
use crate::superblock::{Attempt, RenameLock, Stop};
use crate::watch::{EventInode, NameChange};
use hearth_sync::epoch::Guard;
use hearth_sync::lock::LockGuard;

/// Removes a name that is not a directory's. A read-only volume refuses before the name is looked
/// up.
pub(crate) fn unlink(cx: &Ctx<'_>, parent: &Inode, at: Hashed<'_>, g: &Guard) -> Attempt<()> {
    cx.begin_change(parent)?;
    check_removable(parent, at.name)?;
    // Without the lock, so that threads at work beside a name that is not there are not disturbed.
    let seen = find(parent, at, g)?.ok_or(Errno::ENOENT)?;
    unlink_found(cx, parent, (at, Some(seen)), g)
}

/// [`unlink`] of a name that the caller has just looked up and found; with its entry, if it has
/// one.
pub(crate) fn unlink_found<'g>(
    cx: &Ctx<'_>,
    parent: &'g Inode,
    (at, seen): (Hashed<'_>, Option<&'g Entry>),
    g: &'g Guard,
) -> Attempt<()> {
    cx.begin_change(parent)?;
    check_removable(parent, at.name)?;
    let still = wait_for_walks(cx, parent, at, g);
    let _parent = cx.pin_inode(parent, g)?;
    let (locked, found, victim) = lock_victim(cx, parent, (at, seen), g)?;
    let _victim = cx.pin_inode(victim, g)?;
    may_delete(cx.caller, parent, victim, g)?;
    if victim.is_dir() {
        return Err(Errno::EISDIR.into());
    }
    take_out(cx, parent, (locked, found, victim), at, g);
    drop(still);
    let now = cx.sb.now();
    cx.sb.count_entry(parent, -1, false, now);
    cx.sb.change_links_at(victim, now, |links| links - 1);
    cx.entry_changed(parent, at.name);
    cx.inode_changed(victim, None);
    cx.sb.iput_final(victim, g);
    Ok(())
}

/// Removes an empty directory. A read-only volume refuses first, like in [`unlink`].
pub(crate) fn rmdir(cx: &Ctx<'_>, parent: &Inode, at: Hashed<'_>, g: &Guard) -> Attempt<()> {
    match at.name {
        b"." => return Err(Errno::EINVAL.into()),
        b".." => return Err(Errno::ENOTEMPTY.into()),
        _ => cx.begin_change(parent)?,
    }
    check_removable(parent, at.name)?;
    let still = wait_for_walks(cx, parent, at, g);
    let _parent = cx.pin_inode(parent, g)?;
    let seen = find_unoccupied(cx, parent, at, g)?;
    let (locked, found, victim) = lock_victim(cx, parent, (at, Some(seen)), g)?;
    let _victim = cx.pin_inode(victim, g)?;
    may_delete(cx.caller, parent, victim, g)?;
    let killing = begin_removal(victim, g)?;
    note_parent(victim, parent);
    take_out(cx, parent, (locked, found, victim), at, g);
    killing.finish();
    drop(still);
    let now = cx.sb.now();
    cx.sb.count_entry(parent, -1, true, now);
    cx.sb.change_links_at(victim, now, |_| 0);
    cx.entry_changed(parent, at.name);
    cx.sb.iput_final(victim, g);
    Ok(())
}

/// Waits for walks that want names to stay where they are, if there are any and `at` is the name of
/// something that walks pass: removed and made again all the time, it would spoil each of their
/// attempts.
#[inline]
fn wait_for_walks<'a>(
    cx: &'a Ctx<'_>,
    parent: &Inode,
    at: Hashed<'_>,
    g: &Guard,
) -> Option<LockGuard<'a, RenameLock, ()>> {
    match cx.sb.names.are_still() {
        true => wait_if_passed(cx, parent, at, g),
        false => None,
    }
}

#[cold]
#[inline(never)]
fn wait_if_passed<'a>(
    cx: &'a Ctx<'_>,
    parent: &Inode,
    at: Hashed<'_>,
    g: &Guard,
) -> Option<LockGuard<'a, RenameLock, ()>> {
    let entry = find(parent, at, g).ok().flatten()?;
    let is_passed = matches!(entry.kind(), Kind::Directory | Kind::Symlink);
    is_passed.then(|| cx.sb.names.rename.0.lock())
}

/// The entry of a name. Refuses a directory with entries, and a name that is not there, without
/// taking a lock, so that threads at work in it or beside it are not disturbed.
fn find_unoccupied<'g>(
    cx: &Ctx<'_>,
    parent: &'g Inode,
    at: Hashed<'_>,
    g: &'g Guard,
) -> Attempt<&'g Entry> {
    let entry = find(parent, at, g)?.ok_or(Errno::ENOENT)?;
    let victim = cx.sb.entry_inode(parent, entry, g)?;
    let occupied = victim
        .directory()
        .is_some_and(|inside| inside.has_entries(g));
    if occupied {
        may_delete(cx.caller, parent, victim, g)?;
        return Err(Errno::ENOTEMPTY.into());
    }
    Ok(entry)
}

/// Makes sure that directory `victim` is and stays empty. A thread at work in it may wait for a
/// bucket that this thread holds, so its buckets are only tried.
pub(crate) fn begin_removal<'g>(victim: &'g Inode, g: &'g Guard) -> Attempt<Removal<'g>> {
    let directory = victim.directory().ok_or(Errno::ENOTDIR)?;
    directory.begin_removal(g).map_err(|refused| match refused {
        Refused::NotEmpty => Stop::Errno(Errno::ENOTEMPTY),
        Refused::Busy => Stop::Restart,
        Refused::Unknown => miss_directory(victim),
    })
}

/// Whether `parent` can have a name like this that can be removed.
fn check_removable(parent: &Inode, name: &[u8]) -> Result<(), Errno> {
    if !parent.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    match is_control_name(parent.number(), name) {
        true => Err(Errno::EBUSY),
        false => Ok(()),
    }
}

/// The locked bucket of a name, its entry and its inode.
// Always inlined, like `take_out`: what is locked is large to be handed on.
#[inline(always)]
fn lock_victim<'g>(
    cx: &Ctx<'_>,
    parent: &'g Inode,
    (at, seen): (Hashed<'_>, Option<&'g Entry>),
    g: &'g Guard,
) -> Attempt<(Locked<'g>, Found<'g>, &'g Inode)> {
    let directory = parent.directory().ok_or(Errno::ENOTDIR)?;
    let locked = directory.lock(at, g).map_err(|_| Errno::ENOENT)?;
    match locked.find_old(at, seen, g) {
        Ok(found) => {
            let victim = cx.sb.entry_inode(parent, found.entry, g)?;
            Ok((locked, found, victim))
        }
        Err(Lookup::Unknown) => Err(miss_entry(parent, at.name)),
        Err(_) => Err(Errno::ENOENT.into()),
    }
}

/// Takes the name of `victim` out and releases its bucket.
#[inline(always)]
fn take_out(
    cx: &Ctx<'_>,
    parent: &Inode,
    (locked, found, victim): (Locked<'_>, Found<'_>, &Inode),
    at: Hashed<'_>,
    g: &Guard,
) {
    cx.sb.record_name(parent, &locked, at, None);
    let what = || (EventInode::of(victim), victim.kind());
    cx.tell_name(parent, at.name, what, || NameChange::Remove);
    locked.remove(found, at, g);
}

/// Notes that directory `victim` had this parent, before its name is gone and its bucket is open:
/// then the parent may be removed too, and its number reused, before the link count of `victim` is
/// written. Nothing can refuse the removal any more.
pub(crate) fn note_parent(victim: &Inode, parent: &Inode) {
    if let Some(directory) = victim.directory() {
        directory.set_dead_parent(parent.generation());
    }
}

/// Whether the entry that a rename replaces may be replaced by `source`; returns the directory that
/// ends with it.
pub(crate) fn check_replace<'g>(
    source: &Inode,
    target: &'g Inode,
    g: &'g Guard,
) -> Attempt<Option<Removal<'g>>> {
    check_kinds(source, target)?;
    if target.is_dir() {
        begin_removal(target, g).map(Some)
    } else {
        Ok(None)
    }
}

/// A directory replaces only a directory, and anything else only anything else.
pub(crate) fn check_kinds(source: &Inode, target: &Inode) -> Result<(), Errno> {
    match (source.is_dir(), target.is_dir()) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        _ => Ok(()),
    }
}
