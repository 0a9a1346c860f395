//! Renaming: replace, no-replace, exchange, whiteout.
//!
//! Two buckets are locked in a fixed order, and changed in one write section of both, so every
//! reader sees the tree before or after the rename (C4). The move of a directory to another
//! directory also takes the volume's rename lock. Under it no ancestor changes while loops are
//! refused, and walks notice that `..` changed.

use super::ancestry::{check_not_above, is_at_or_above};
use super::create::{New, make};
use super::link::takes_in;
use super::lookup::{Named, find, miss_entry};
use super::perm::{WRITE, may, may_create, may_delete};
use super::remove::{check_kinds, check_replace, note_parent};
use crate::attr::{Kind, Target, Time};
use crate::directory::{Directory, Entry, EntryChange, Lookup, Pair, lock_pair};
use crate::errno::Errno;
use crate::hashed::{Hashed, check_name};
use crate::inode::{Inode, InodeExt, InodeRef, Recorded};
use crate::number::is_control_name;
use crate::ops::ctx::Ctx;
use crate::superblock::{Attempt, RenameLock, Stop, Superblock};
use crate::watch::{EventInode, NameChange, NamePlace};
use hearth_sync::epoch::Guard;
use hearth_sync::lock;

/// One end of a rename.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub parent: &'a Inode,
    pub at: Hashed<'a>,
}

const NOREPLACE: u32 = libc::RENAME_NOREPLACE;
const EXCHANGE: u32 = libc::RENAME_EXCHANGE;
const WHITEOUT: u32 = libc::RENAME_WHITEOUT;

/// Moves `from` to `to`; `flags` as of `renameat2(2)`.
pub(crate) fn rename(
    cx: &Ctx<'_>,
    from: End<'_>,
    to: End<'_>,
    flags: u32,
    g: &Guard,
) -> Attempt<()> {
    let known = NOREPLACE | EXCHANGE | WHITEOUT;
    if flags & !known != 0 || (flags & EXCHANGE != 0 && flags & (NOREPLACE | WHITEOUT) != 0) {
        return Err(Errno::EINVAL.into());
    }
    check_dots(from.at.name, Errno::EBUSY)?;
    let dots = match flags & NOREPLACE {
        0 => Errno::EBUSY,
        _ => Errno::EEXIST,
    };
    check_dots(to.at.name, dots)?;
    // Checked before either name is looked up.
    check_ends(cx, from, to)?;
    // A missing source decides before the target is read, so a thread that creates the target is
    // not disturbed.
    let source = find(from.parent, from.at, g)?.ok_or(Errno::ENOENT)?;
    let target = find(to.parent, to.at, g)?;
    rename_entries(cx, (from, source), (to, target), flags, g)
}

/// [`rename`] of names that the caller has just looked up, and of which it has found the first. The
/// flags are valid, and neither name is `.` or `..`. Another thread may have changed the names
/// since, so both are looked up once more under the locks of their buckets.
pub(crate) fn rename_found<'g>(
    cx: &Ctx<'_>,
    (from, source): (End<'_>, Named<'g>),
    (to, target): (End<'_>, Option<Named<'g>>),
    flags: u32,
    g: &'g Guard,
) -> Attempt<()> {
    check_ends(cx, from, to)?;
    // What has no entry is no name that the checks let through.
    let source = source.entry().ok_or(Errno::EBUSY)?;
    let target = target.and_then(Named::entry);
    rename_entries(cx, (from, source), (to, target), flags, g)
}

/// Whether names like these can be renamed.
fn check_ends(cx: &Ctx<'_>, from: End<'_>, to: End<'_>) -> Attempt<()> {
    cx.begin_change(from.parent)?;
    check_name(&from.at)?;
    check_name(&to.at)?;
    if is_control_name(from.parent.number(), from.at.name)
        || is_control_name(to.parent.number(), to.at.name)
    {
        return Err(Errno::EBUSY.into());
    }
    if from.parent.meta.is_unlinked() || to.parent.meta.is_unlinked() {
        return Err(Errno::ENOENT.into());
    }
    Ok(())
}

/// Renames what was found without a lock.
fn rename_entries<'g>(
    cx: &Ctx<'_>,
    (from, source): (End<'_>, &'g Entry),
    (to, target): (End<'_>, Option<&'g Entry>),
    flags: u32,
    g: &'g Guard,
) -> Attempt<()> {
    let (from_at, to_at) = (from.at, to.at);
    let across = from.parent.number() != to.parent.number();
    let directories = source.kind() == Kind::Directory
        || (flags & EXCHANGE != 0 && target.is_some_and(|t| t.kind() == Kind::Directory));
    // No ancestor changes while this lock is held. The inodes found under the bucket locks are
    // checked again for whether they need it, and whether they are those that were checked. A
    // rename in place takes it only where a path was not found beside such renames.
    let is_passed = |entry: &Entry| matches!(entry.kind(), Kind::Directory | Kind::Symlink);
    let are_passed = is_passed(source) || target.is_some_and(is_passed);
    let holds_tree = directories && across || are_passed && cx.sb.names.are_still();
    let tree = holds_tree.then(|| hold_tree(cx.sb));
    let mut checked = None;
    if across && directories {
        checked = Some(check_no_loop(cx, (from, from_at), (to, to_at), flags, g)?);
    } else if across && target.is_some_and(|t| t.kind() == Kind::Directory) {
        // This fails anyway, because a file cannot replace a directory; the check only finds the
        // errno that Linux prefers.
        check_not_above(cx, target, from.parent, errno_above(flags), g)?;
    }
    let _from = cx.pin_inode(from.parent, g)?;
    let _to = cx.pin_inode(to.parent, g)?;
    let (a, b) = (directory_of(from.parent)?, directory_of(to.parent)?);
    let pair = lock_pair(
        (a, from.parent.number(), from_at),
        (b, to.parent.number(), to_at),
        g,
    )
    .map_err(|_| Errno::ENOENT)?;
    let locked = LockedRename {
        cx,
        from,
        to,
        from_at,
        to_at,
        seen: [Some(source), target],
        flags,
        across,
        checked,
        g,
    };
    let needs_growth = locked.run(pair)?;
    drop(tree);
    if needs_growth {
        a.grow_some(|| from.parent.entries(), g);
        b.grow_some(|| to.parent.entries(), g);
        [a, b].iter().for_each(|side| cx.sb.recount(side, g));
    }
    Ok(())
}

/// Excludes renames that give directories other parents.
#[track_caller]
fn hold_tree(sb: &Superblock) -> lock::LockGuard<'_, RenameLock, ()> {
    sb.names.rename.0.lock()
}

/// A rename with both buckets locked.
struct LockedRename<'a> {
    cx: &'a Ctx<'a>,
    from: End<'a>,
    to: End<'a>,
    from_at: Hashed<'a>,
    to_at: Hashed<'a>,
    /// The entries that the two names had before they were locked.
    seen: [Option<&'a Entry>; 2],
    flags: u32,
    across: bool,
    /// What was checked for loops, under the rename lock; `None` where that is not held.
    checked: Option<Checked>,
    g: &'a Guard,
}

/// Number and generation of an inode.
type Id = (u64, u32);
/// The source of a rename, and the target if there is one.
type Checked = (Id, Option<Id>);

impl<'a> LockedRename<'a> {
    fn run(&self, mut pair: Pair<'a>) -> Attempt<bool> {
        let (cx, g) = (self.cx, self.g);
        let source = self.look(&mut pair, false)?.ok_or(Errno::ENOENT)?;
        let target = self.look(&mut pair, true)?;
        self.check_same(source, target)?;
        let _source = cx.pin_inode(source, g)?;
        let _target = target.map(|t| cx.pin_inode(t, g)).transpose()?;
        if target.is_some() && self.flags & NOREPLACE != 0 {
            return Err(Errno::EEXIST.into());
        }
        if self.flags & EXCHANGE != 0 {
            let target = target.ok_or(Errno::ENOENT)?;
            return self.exchange(pair, source, target);
        }
        if target.is_some_and(|t| t.number() == source.number()) {
            return Ok(false);
        }
        self.check_lock(source.is_dir())?;
        may_delete(cx.caller, self.from.parent, source, g)?;
        match target {
            Some(target) => may_delete(cx.caller, self.to.parent, target, g)?,
            None => may_create(cx.caller, self.to.parent, g)?,
        }
        if let Some(target) = target {
            check_kinds(source, target)?;
        }
        self.check_new_parent(source)?;
        check_project(source, self.to.parent)?;
        self.check_room(self.to.parent, source, target)?;
        let killing = match target {
            // The target is the parent of the source: it is never empty, and its bucket is locked
            // here.
            Some(t) if t.number() == self.from.parent.number() => {
                return Err(Errno::ENOTEMPTY.into());
            }
            Some(target) => check_replace(source, target, g)?,
            None => None,
        };
        let whiteout = self.whiteout()?;
        if let Some(inode) = &whiteout {
            cx.sb.record_new(inode, g);
        }
        let left = whiteout.as_ref().map(|inode| inode.target());
        let here = EntryChange {
            at: self.from_at,
            to: left,
        };
        let there = EntryChange {
            at: self.to_at,
            to: Some(source.target()),
        };
        self.tell_names(source, target, left);
        if let Some(target) = target {
            note_parent(target, self.to.parent);
        }
        let needs_growth = self.apply(pair, source, None, here, there);
        if let Some(killing) = killing {
            killing.finish();
        }
        self.settle(source, target, whiteout.is_some());
        if let Some(whiteout) = whiteout {
            // Its name may be gone again. Then this is the last reference, and ends it.
            cx.sb.release(whiteout, g);
        }
        Ok(needs_growth)
    }

    /// Applies the rename. Who notes where a moved directory is notices by its `moves`, also where
    /// it stays in its parent. Only the locks of its names exclude other writers of `moves`, so
    /// `pair` is released after that write section: it is a parameter and outlives `moving`.
    fn apply(
        &self,
        mut pair: Pair<'_>,
        source: &Inode,
        exchanged: Option<&Inode>,
        here: EntryChange<'_>,
        there: EntryChange<'_>,
    ) -> bool {
        self.record_names(&pair, &here, &there);
        let source_dir = source.directory();
        let other = exchanged.and_then(|inode| inode.directory());
        let moving = [source_dir, other].map(|moved| moved.map(|it| it.moves().write()));
        if self.checked.is_none() {
            return pair.apply(here, there, self.g);
        }
        if let (Some(directory), Some(moving)) = (source_dir, &moving[0]) {
            let parent = self.to.parent.number();
            directory.set_parent(parent);
            self.cx.sb.record_parent(source, parent, moving.version());
        }
        if let (Some(inode), Some(moving)) = (exchanged, &moving[1])
            && let Some(directory) = inode.directory()
        {
            let parent = self.from.parent.number();
            directory.set_parent(parent);
            self.cx.sb.record_parent(inode, parent, moving.version());
        }
        pair.apply(here, there, self.g)
    }

    fn record_names(&self, pair: &Pair<'_>, here: &EntryChange<'_>, there: &EntryChange<'_>) {
        let Some(log) = self.cx.sb.log() else { return };
        for (second, parent, change) in [
            (false, self.from.parent, here),
            (true, self.to.parent, there),
        ] {
            parent.meta.note_recorded(Recorded::Apart);
            let dir = (parent.number(), parent.generation());
            log.append_name(
                dir,
                change.at.name,
                pair.note_logged(second, log),
                change.to,
            );
        }
    }

    /// Sets counts, times and links after a plain rename.
    fn settle(&self, source: &Inode, target: Option<&Inode>, whiteout: bool) {
        let (cx, g, now) = (self.cx, self.g, self.cx.sb.now());
        let is_dir = source.is_dir();
        if !whiteout && std::ptr::eq(self.from.parent, self.to.parent) {
            // It has as many names as before.
            cx.sb.count_entry(self.to.parent, 0, false, now);
        } else {
            self.count_moved(is_dir, whiteout, now);
        }
        cx.sb.change_links_at(source, now, |links| links);
        self.tell(source);
        if let Some(target) = target {
            if source.state.has_unrecorded()
                && let Some(log) = cx.sb.log()
            {
                // The new contents must be there when the old ones are gone.
                log.unwritten.note_first(source.number());
            }
            cx.sb.count_entry(self.to.parent, -1, target.is_dir(), now);
            cx.sb
                .change_links_at(target, now, |links| match target.is_dir() {
                    true => 0,
                    false => links - 1,
                });
            cx.inode_changed(target, None);
            cx.sb.iput_final(target, g);
        }
    }

    /// Counts the name in the directory that it has left, and in the one that it has now.
    #[inline(never)]
    fn count_moved(&self, is_dir: bool, whiteout: bool, now: Time) {
        let sb = self.cx.sb;
        if whiteout {
            sb.count_entry(self.from.parent, 0, false, now);
            if is_dir {
                sb.count_entry(self.from.parent, -1, true, now);
                sb.count_entry(self.from.parent, 1, false, now);
            }
        } else {
            sb.count_entry(self.from.parent, -1, is_dir, now);
        }
        sb.count_entry(self.to.parent, 1, is_dir, now);
    }

    fn exchange(&self, pair: Pair<'_>, source: &Inode, target: &Inode) -> Attempt<bool> {
        let (cx, g) = (self.cx, self.g);
        if source.number() == target.number() {
            return Ok(false);
        }
        self.check_lock(source.is_dir() || target.is_dir())?;
        may_delete(cx.caller, self.from.parent, source, g)?;
        may_delete(cx.caller, self.to.parent, target, g)?;
        self.check_new_parent(source)?;
        self.check_new_parent(target)?;
        check_project(source, self.to.parent)?;
        check_project(target, self.from.parent)?;
        self.check_room(self.to.parent, source, Some(target))?;
        self.check_room(self.from.parent, target, Some(source))?;
        let here = EntryChange {
            at: self.from_at,
            to: Some(target.target()),
        };
        let there = EntryChange {
            at: self.to_at,
            to: Some(source.target()),
        };
        self.tell_names(source, Some(target), None);
        let needs_growth = self.apply(pair, source, Some(target), here, there);
        let now = cx.sb.now();
        for (parent, gone, come) in [
            (self.from.parent, source, target),
            (self.to.parent, target, source),
        ] {
            cx.sb.count_entry(parent, -1, gone.is_dir(), now);
            cx.sb.count_entry(parent, 1, come.is_dir(), now);
            cx.sb.change_links_at(gone, now, |links| links);
        }
        self.tell(source);
        cx.inode_changed(target, None);
        Ok(needs_growth)
    }

    /// Tells listeners, with both buckets locked. `whiteout` is what the old name will mean.
    fn tell_names(&self, source: &Inode, target: Option<&Inode>, whiteout: Option<Target>) {
        let (parent, name) = (self.from.parent, self.from.at.name);
        let what = |inode: &Inode| (EventInode::of(inode), inode.kind());
        self.cx.tell_name(
            parent,
            name,
            || what(source),
            || NameChange::Rename {
                to: NamePlace::new(EventInode::of(self.to.parent), self.to.at.name),
                displaced: target.map(what),
                exchange: self.flags & EXCHANGE != 0,
            },
        );
        if let Some(made) = whiteout {
            self.cx.tell_name(
                parent,
                name,
                || (made.into(), made.kind),
                || NameChange::Create,
            );
        }
    }

    fn tell(&self, source: &Inode) {
        self.cx.entry_changed(self.from.parent, self.from.at.name);
        self.cx.entry_changed(self.to.parent, self.to.at.name);
        self.cx.inode_changed(source, None);
    }

    fn look(&self, pair: &mut Pair<'a>, second: bool) -> Attempt<Option<&'a Inode>> {
        let (at, parent) = if second {
            (self.to_at, self.to.parent)
        } else {
            (self.from_at, self.from.parent)
        };
        let seen = self.seen[usize::from(second)];
        match pair.find(second, (at, seen), self.g) {
            Lookup::Hit(entry) => self.cx.sb.entry_inode(parent, entry, self.g).map(Some),
            Lookup::Negative => Ok(None),
            Lookup::Unknown => Err(miss_entry(parent, at.name)),
        }
    }

    /// Restarts if a directory has appeared since the look without locks that decided about the
    /// rename lock.
    fn check_lock(&self, directories: bool) -> Attempt<()> {
        if self.across && directories && self.checked.is_none() {
            return Err(Stop::Restart);
        }
        Ok(())
    }

    /// Restarts if the names mean other inodes than those that were checked for loops: a rename
    /// inside one directory takes no rename lock. The names no longer change, their buckets are
    /// locked.
    fn check_same(&self, source: &Inode, target: Option<&Inode>) -> Attempt<()> {
        let id = |inode: &Inode| (inode.number(), inode.generation());
        match self.checked {
            Some(checked) if checked != (id(source), target.map(id)) => Err(Stop::Restart),
            _ => Ok(()),
        }
    }

    /// Checks a directory that gets another parent. Such a rename changes the directory itself
    /// (`..`).
    fn check_new_parent(&self, inode: &Inode) -> Result<(), Errno> {
        match self.across && inode.is_dir() {
            true => may(self.cx.caller, inode, WRITE, self.g),
            false => Ok(()),
        }
    }

    /// Checks that `parent` may get a subdirectory, if `moved` is one and what it replaces is none.
    fn check_room(&self, parent: &Inode, moved: &Inode, old: Option<&Inode>) -> Result<(), Errno> {
        let is_one_more = self.across && moved.is_dir() && !old.is_some_and(|old| old.is_dir());
        match is_one_more && !parent.has_room_for_directory() {
            true => Err(Errno::EMLINK),
            false => Ok(()),
        }
    }

    fn whiteout(&self) -> Attempt<Option<InodeRef>> {
        if self.flags & WHITEOUT == 0 {
            return Ok(None);
        }
        let new = New::Special(Kind::Char, 0);
        let now = self.cx.sb.now();
        make(self.cx, self.from.parent, &new, (0, now), self.g).map(Some)
    }
}

/// Checks the project of a renamed inode. As in Linux, it is also checked within one directory, and
/// after all permissions.
fn check_project(inode: &Inode, parent: &Inode) -> Result<(), Errno> {
    match takes_in(parent, inode.meta.project()) {
        true => Ok(()),
        false => Err(Errno::EXDEV),
    }
}

fn check_dots(name: &[u8], dots: Errno) -> Result<(), Errno> {
    match name {
        b"." | b".." => Err(dots),
        _ => Ok(()),
    }
}

fn directory_of(inode: &Inode) -> Result<&Directory, Errno> {
    inode.directory().ok_or(Errno::ENOTDIR)
}

/// The errno for a target that is an ancestor of the source.
fn errno_above(flags: u32) -> Errno {
    if flags & EXCHANGE != 0 {
        Errno::EINVAL
    } else {
        Errno::ENOTEMPTY
    }
}

/// Refuses a directory as its own ancestor (`EINVAL`), and a target that is an ancestor of the
/// source (`ENOTEMPTY`). Needs the rename lock. Returns what the names meant.
fn check_no_loop(
    cx: &Ctx<'_>,
    (from, from_at): (End<'_>, Hashed<'_>),
    (to, to_at): (End<'_>, Hashed<'_>),
    flags: u32,
    g: &Guard,
) -> Attempt<Checked> {
    let source = find(from.parent, from_at, g)?.ok_or(Errno::ENOENT)?;
    if is_at_or_above(cx, source.ino(), to.parent, g)? {
        return Err(Errno::EINVAL.into());
    }
    let target = find(to.parent, to_at, g)?;
    check_not_above(cx, target, from.parent, errno_above(flags), g)?;
    let id = |entry: &Entry| (entry.ino(), entry.generation());
    Ok((id(source), target.map(id)))
}
