//! Finding an entry of a directory.

use super::perm::may_search;
use crate::attr::Kind;
use crate::control;
use crate::directory::{ALONE, Directory, Entry, Hashed, Look};
use crate::errno::Errno;
use crate::inode::{Inode, Node};
use crate::name::{NAME_MAX, NameHash};
use crate::number::{CONTROL, ROOT};
use crate::volume::{Ctx, Load, Step, Stop};
use hearth_sync::epoch::Guard;

/// What a walk ends with: the inode, or only what names it.
pub(crate) trait Found<'g>: Copy {
    /// What `name` means in `parent`.
    fn find(cx: &Ctx<'_>, parent: &'g Node, name: &[u8], g: &'g Guard) -> Step<Self>;

    fn of(node: &'g Node) -> Self;

    fn kind(self) -> Kind;

    /// The inode.
    fn node(self, cx: &Ctx<'_>, g: &'g Guard) -> Step<&'g Node>;
}

impl<'g> Found<'g> for &'g Node {
    #[inline]
    fn find(cx: &Ctx<'_>, parent: &'g Node, name: &[u8], g: &'g Guard) -> Step<Self> {
        lookup(cx, parent, name, g)
    }

    fn of(node: &'g Node) -> Self {
        node
    }

    fn kind(self) -> Kind {
        Inode::kind(self)
    }

    fn node(self, _: &Ctx<'_>, _: &'g Guard) -> Step<&'g Node> {
        Ok(self)
    }
}

/// What a name means, without a look at the inode behind an entry: who only asks whether a name is
/// there, or of what kind, is not disturbed by changes of that inode.
#[derive(Clone, Copy)]
pub(crate) enum Named<'g> {
    /// What has no entry: `.`, `..`, `/`, the control directory.
    Node(&'g Node),
    /// An entry and the directory that it is in.
    Entry(&'g Node, &'g Entry),
}

impl Named<'_> {
    pub fn is_dir(self) -> bool {
        self.kind() == Kind::Directory
    }
}

impl<'g> Found<'g> for Named<'g> {
    fn find(cx: &Ctx<'_>, parent: &'g Node, name: &[u8], g: &'g Guard) -> Step<Self> {
        named(cx, parent, name, g)
    }

    fn of(node: &'g Node) -> Self {
        Named::Node(node)
    }

    fn kind(self) -> Kind {
        match self {
            Named::Node(node) => node.kind(),
            Named::Entry(_, entry) => entry.kind(),
        }
    }

    fn node(self, cx: &Ctx<'_>, g: &'g Guard) -> Step<&'g Node> {
        match self {
            Named::Node(node) => Ok(node),
            Named::Entry(parent, entry) => cx.core.entry_node(parent, entry, g),
        }
    }
}

/// The inode that `name` means in `parent`, `.` and `..` included. Takes no lock and writes nothing
/// shared.
pub(crate) fn lookup<'g>(
    cx: &Ctx<'_>,
    parent: &'g Node,
    name: &[u8],
    g: &'g Guard,
) -> Step<&'g Node> {
    named(cx, parent, name, g)?.node(cx, g)
}

/// What `name` means in `parent`; see [`lookup`].
// Always: `lookup` is then as short as if it asked for inodes only.
#[inline(always)]
fn named<'g>(cx: &Ctx<'_>, parent: &'g Node, name: &[u8], g: &'g Guard) -> Step<Named<'g>> {
    let directory = parent.directory().ok_or(Errno::ENOTDIR)?;
    may_search(cx.caller, parent, g)?;
    if name.len() > NAME_MAX {
        let removed = parent.meta.is_nameless();
        return Err(if removed {
            Errno::ENOENT
        } else {
            Errno::ENAMETOOLONG
        }
        .into());
    }
    match name {
        b"." => return Ok(Named::Node(parent)),
        b".." => return above(cx, parent, directory, g).map(Named::Node),
        _ => {}
    }
    if parent.number() == ROOT && name == control::NAME {
        return cx.core.node(CONTROL, g).map(Named::Node);
    }
    match find(
        parent,
        Hashed {
            name,
            hash: cx.core.hash(name),
        },
        g,
    )? {
        Some(entry) => Ok(Named::Entry(parent, entry)),
        None => Err(Errno::ENOENT.into()),
    }
}

/// The directory above `here`. The one above a removed directory may be gone as well, and its
/// number may be another's: then there is none.
fn above<'g>(cx: &Ctx<'_>, here: &Node, directory: &Directory, g: &'g Guard) -> Step<&'g Node> {
    let above = cx.core.node(directory.parent(), g);
    let removed = here.meta.is_nameless();
    match above {
        _ if removed && directory.orphaned() == ALONE => Err(Errno::ENOENT.into()),
        Err(Stop::Load(_)) => Err(Stop::Load(Load::Above(here.number()))),
        above if !removed => above,
        Ok(node) if node.generation() == directory.orphaned() => Ok(node),
        _ => Err(Errno::ENOENT.into()),
    }
}

/// The entry of a plain name.
pub(crate) fn find<'g>(parent: &'g Node, at: Hashed<'_>, g: &'g Guard) -> Step<Option<&'g Entry>> {
    let directory = parent.directory().ok_or(Errno::ENOTDIR)?;
    match directory.lookup(at.name, at.hash, g) {
        Look::Hit(entry) => Ok(Some(entry)),
        Look::Absent => Ok(None),
        Look::Unknown => Err(unknown(parent, at.name)),
    }
}

/// What to load when a name is unknown.
pub(crate) fn unknown(parent: &Node, name: &[u8]) -> Stop {
    Stop::Load(Load::Entry {
        dir: parent.number(),
        name: name.into(),
    })
}

/// The name with its hash.
pub(crate) fn hashed<'n>(cx: &Ctx<'_>, name: &'n [u8]) -> Hashed<'n> {
    let hash: NameHash = cx.core.hash(name);
    Hashed { name, hash }
}
