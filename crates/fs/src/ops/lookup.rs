//! Finding an entry of a directory.

use super::perm::may_search;
use crate::attr::Kind;
use crate::directory::{Directory, Entry, Lookup, NO_PARENT};
use crate::errno::Errno;
use crate::hashed::Hashed;
use crate::inode::{Inode, InodeInner};
use crate::name::NAME_MAX;
use crate::number::{CONTROL, is_control_name};
use crate::ops::ctx::Ctx;
use crate::superblock::{Attempt, Fetch, Stop};
use hearth_sync::epoch::Guard;

/// The end of a walk: an inode, or only its name.
pub(crate) trait WalkEnd<'g>: Copy {
    /// The end that a name leads to.
    fn of_named(cx: &Ctx<'_>, named: Named<'g>, g: &'g Guard) -> Attempt<Self>;

    fn kind(self) -> Kind;

    /// The inode.
    fn inode(self, cx: &Ctx<'_>, g: &'g Guard) -> Attempt<&'g Inode>;
}

impl<'g> WalkEnd<'g> for &'g Inode {
    #[inline(always)]
    fn of_named(cx: &Ctx<'_>, named: Named<'g>, g: &'g Guard) -> Attempt<Self> {
        named.inode(cx, g)
    }

    fn kind(self) -> Kind {
        InodeInner::kind(self)
    }

    fn inode(self, _: &Ctx<'_>, _: &'g Guard) -> Attempt<&'g Inode> {
        Ok(self)
    }
}

/// The target of a name, without reading the inode behind an entry: a caller that needs only
/// existence or kind is not disturbed by changes of that inode.
#[derive(Clone, Copy)]
pub(crate) enum Named<'g> {
    /// An inode without an entry: `.`, `..`, `/`, the control directory.
    Inode(&'g Inode),
    /// An entry and its directory.
    Entry(&'g Inode, &'g Entry),
}

impl<'g> Named<'g> {
    pub fn is_dir(self) -> bool {
        self.kind() == Kind::Directory
    }

    /// The entry, if there is one.
    pub fn entry(self) -> Option<&'g Entry> {
        match self {
            Named::Inode(_) => None,
            Named::Entry(_, entry) => Some(entry),
        }
    }
}

impl<'g> WalkEnd<'g> for Named<'g> {
    #[inline(always)]
    fn of_named(_: &Ctx<'_>, named: Named<'g>, _: &'g Guard) -> Attempt<Self> {
        Ok(named)
    }

    fn kind(self) -> Kind {
        match self {
            Named::Inode(inode) => inode.kind(),
            Named::Entry(_, entry) => entry.kind(),
        }
    }

    // Always inlined, like what it calls: each step of a walk ends here.
    #[inline(always)]
    fn inode(self, cx: &Ctx<'_>, g: &'g Guard) -> Attempt<&'g Inode> {
        match self {
            Named::Inode(inode) => Ok(inode),
            Named::Entry(parent, entry) => cx.sb.entry_inode(parent, entry, g),
        }
    }
}

/// The inode of `name` in `parent`, including `.` and `..`. Takes no lock and writes nothing
/// shared.
pub(crate) fn lookup<'g>(
    cx: &Ctx<'_>,
    parent: &'g Inode,
    name: &[u8],
    g: &'g Guard,
) -> Attempt<&'g Inode> {
    named(cx, parent, hashed(cx, name), g)?.inode(cx, g)
}

/// The target of a name in `parent`; see [`lookup`].
// Always inlined: `lookup` is then as short as if it looked for inodes only, and the hashed name
// stays in registers.
#[inline(always)]
pub(crate) fn named<'g>(
    cx: &Ctx<'_>,
    parent: &'g Inode,
    at: Hashed<'_>,
    g: &'g Guard,
) -> Attempt<Named<'g>> {
    // All names with a meaning begin with a dot.
    if at.name.first() == Some(&b'.')
        && let Some(found) = special(cx, parent, at.name, g)?
    {
        return Ok(Named::Inode(found));
    }
    let directory = parent.directory().ok_or(Errno::ENOTDIR)?;
    may_search(cx.caller, parent, g)?;
    let entry = plain(parent, directory, at, g)?;
    Ok(Named::Entry(parent, entry))
}

/// The entry of a name that begins with no dot in `parent`, whose names these are; the caller may
/// search it.
#[inline(always)]
pub(crate) fn plain<'g>(
    parent: &Inode,
    directory: &'g Directory,
    at: Hashed<'_>,
    g: &'g Guard,
) -> Attempt<&'g Entry> {
    match directory.lookup(&at, g) {
        Lookup::Hit(entry) => Ok(entry),
        Lookup::Negative => Err(absent(parent, at.name)),
        Lookup::Unknown => Err(unknown(parent, at.name)),
    }
}

/// Why there is no such name. A name that is too long is found nowhere, so its length is looked at
/// only now.
#[inline(always)]
fn absent(parent: &Inode, name: &[u8]) -> Stop {
    match name.len() > NAME_MAX {
        true => too_long(parent).into(),
        false => Errno::ENOENT.into(),
    }
}

#[cold]
#[inline(never)]
fn unknown(parent: &Inode, name: &[u8]) -> Stop {
    match name.len() > NAME_MAX {
        true => too_long(parent).into(),
        false => miss_entry(parent, name),
    }
}

#[cold]
fn too_long(parent: &Inode) -> Errno {
    match parent.meta.is_unlinked() {
        true => Errno::ENOENT,
        false => Errno::ENAMETOOLONG,
    }
}

/// The inode of a name that is in no table: `.`, `..`, the control directory.
#[inline(never)]
fn special<'g>(
    cx: &Ctx<'_>,
    parent: &'g Inode,
    name: &[u8],
    g: &'g Guard,
) -> Attempt<Option<&'g Inode>> {
    let directory = parent.directory().ok_or(Errno::ENOTDIR)?;
    may_search(cx.caller, parent, g)?;
    match name {
        b"." => Ok(Some(parent)),
        b".." => above(cx, parent, directory, g).map(Some),
        _ if is_control_name(parent.number(), name) => cx.sb.inode(CONTROL, g).map(Some),
        _ => Ok(None),
    }
}

/// The parent of `here`. That of a removed directory may be gone as well, and its number reused:
/// then there is none.
pub(crate) fn above<'g>(
    cx: &Ctx<'_>,
    here: &Inode,
    directory: &Directory,
    g: &'g Guard,
) -> Attempt<&'g Inode> {
    let above = cx.sb.inode(directory.parent(), g);
    // Looked at behind the number: whoever has reused that came after the name of `here` was gone,
    // which is after this was noted. The link count is written later.
    let removed = directory.dead_parent() != 0 || here.meta.is_unlinked();
    match above {
        _ if removed && directory.dead_parent() == NO_PARENT => Err(Errno::ENOENT.into()),
        Err(Stop::Miss(_)) => Err(Stop::miss(Fetch::Above(here.number()))),
        above if !removed => above,
        Ok(inode) if inode.generation() == directory.dead_parent() => Ok(inode),
        _ => Err(Errno::ENOENT.into()),
    }
}

/// The entry of a plain name.
pub(crate) fn find<'g>(
    parent: &'g Inode,
    at: Hashed<'_>,
    g: &'g Guard,
) -> Attempt<Option<&'g Entry>> {
    let directory = parent.directory().ok_or(Errno::ENOTDIR)?;
    match directory.lookup(&at, g) {
        Lookup::Hit(entry) => Ok(Some(entry)),
        Lookup::Negative => Ok(None),
        Lookup::Unknown => Err(miss_entry(parent, at.name)),
    }
}

/// The fetch of an unknown name.
#[cold]
pub(crate) fn miss_entry(parent: &Inode, name: &[u8]) -> Stop {
    Stop::miss(Fetch::Entry {
        dir: parent.number(),
        name: name.into(),
    })
}

/// The name with its hash.
#[inline]
pub(crate) fn hashed<'n>(cx: &Ctx<'_>, name: &'n [u8]) -> Hashed<'n> {
    cx.sb.hashed(name)
}
