//! From a path to a directory and a name, and to the inode behind them.
//!
//! The walk takes no lock: each step is a lookup under the epoch guard. A directory that moves to
//! another directory meanwhile could show a path that never was, through `..` or a missing name;
//! such answers count only if no directory that the walk passed through moved meanwhile
//! ([`Trail`]). Who finds what a path names, without `..`, does not ask.
//! After [`RESTARTS`] attempts the walk is made under the rename lock.

mod trail;

use crate::attr::Kind;
use crate::errno::Errno;
use crate::inode::{Body, Node};
use crate::ops::link::readlink;
use crate::ops::lookup::lookup;
use crate::stats::Event;
use crate::volume::{Ctx, Step, Stop};
use hearth_sync::epoch::Guard;
use std::cell::Cell;
use trail::Trail;

/// Symbolic links followed in one walk at most, as in Linux.
const LINKS: u32 = 40;
/// Attempts without a lock.
const RESTARTS: u32 = 3;

/// Where a walk begins and what bounds it.
#[derive(Clone, Copy)]
pub(crate) struct From<'x> {
    /// Where a relative path begins.
    pub start: &'x Node,
    /// What `/` means; `..` does not leave it.
    pub root: &'x Node,
}

/// Whether the last component is followed if it is a symbolic link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Always (`stat`, `open`).
    Yes,
    /// Only if a slash follows it (`lstat`).
    Slash,
    /// Not at all: the name itself is meant (`mkdir`, `unlink`, `rename`).
    Never,
}

/// Kind of the last component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Name,
    Dot,
    DotDot,
    /// The path is nothing but slashes.
    Root,
}

/// End of a walk.
#[derive(Clone, Copy)]
pub(crate) struct Walked<'x> {
    /// Directory of the last component.
    pub parent: &'x Node,
    /// Last component.
    pub name: &'x [u8],
    pub last: Last,
    /// What it means; `None` if the name is not there.
    node: Option<&'x Node>,
    /// Slashes followed the last component.
    pub slash: bool,
}

impl<'x> Walked<'x> {
    /// The inode: `ENOENT` if there is none, `ENOTDIR` if slashes follow something that is no
    /// directory.
    pub fn existing(&self) -> Result<&'x Node, Errno> {
        let node = self.node.ok_or(Errno::ENOENT)?;
        if self.slash && !node.is_dir() {
            Err(Errno::ENOTDIR)
        } else {
            Ok(node)
        }
    }

    /// The inode if there is one, whatever follows.
    pub fn found(&self) -> Option<&'x Node> {
        self.node
    }
}

/// Walks `path`.
pub(crate) fn walk<'x>(
    cx: &Ctx<'_>,
    from: From<'x>,
    path: &'x [u8],
    follow: Follow,
    g: &'x Guard,
) -> Step<Walked<'x>> {
    if path.is_empty() {
        return Err(Errno::ENOENT.into());
    }
    if path.len() >= libc::PATH_MAX as usize {
        return Err(Errno::ENAMETOOLONG.into());
    }
    for _ in 0..RESTARTS {
        let walker = Walker::new(cx, from.root, g);
        let walked = walker.run(from.start, path, follow);
        let doubtful = walker.up.get()
            || match &walked {
                Ok(walked) => walked.node.is_none(),
                Err(stop) => matches!(stop, Stop::Errno(Errno::ENOENT)),
            };
        if !doubtful || walker.trail.is_whole() {
            return walked;
        }
        cx.core.stats.event(Event::WalkRestart);
    }
    walk_slowly(cx, from, path, follow, g)
}

/// The same under the rename lock: no directory moves meanwhile.
#[cold]
fn walk_slowly<'x>(
    cx: &Ctx<'_>,
    from: From<'x>,
    path: &'x [u8],
    follow: Follow,
    g: &'x Guard,
) -> Step<Walked<'x>> {
    cx.core.stats.event(Event::WalkFallback);
    let _still = cx.core.rename.0.lock();
    let walker = Walker::new(cx, from.root, g);
    walker.run(from.start, path, follow)
}

struct Walker<'c, 'x> {
    cx: &'c Ctx<'c>,
    root: &'x Node,
    links: Cell<u32>,
    /// Whether `..` was used.
    up: Cell<bool>,
    trail: Trail<'x>,
    g: &'x Guard,
}

impl<'c, 'x> Walker<'c, 'x> {
    fn new(cx: &'c Ctx<'c>, root: &'x Node, g: &'x Guard) -> Walker<'c, 'x> {
        Walker {
            cx,
            root,
            links: Cell::new(0),
            up: Cell::new(false),
            trail: Trail::new(),
            g,
        }
    }

    fn run(&self, start: &'x Node, path: &'x [u8], follow: Follow) -> Step<Walked<'x>> {
        let absolute = path.first() == Some(&b'/');
        let mut here = if absolute { self.root } else { start };
        let mut rest = skip_slashes(path);
        if rest.is_empty() {
            let root = Walked {
                parent: here,
                name: b"/",
                last: Last::Root,
                node: Some(here),
                slash: false,
            };
            return Ok(root);
        }
        self.trail.pass(here, None);
        loop {
            let end = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            rest = skip_slashes(after);
            if rest.is_empty() {
                return self.last(here, name, !after.is_empty(), follow);
            }
            let node = self.step(here, name)?;
            let (next, above) = match &node.body {
                Body::Symlink(_) => {
                    let walked = self.follow(here, node)?;
                    let above = (walked.last == Last::Name).then_some(walked.parent);
                    (walked.existing()?, above)
                }
                _ => (node, (!matches!(name, b"." | b"..")).then_some(here)),
            };
            if !next.is_dir() {
                return Err(Errno::ENOTDIR.into());
            }
            self.trail.pass(next, above);
            here = next;
        }
    }

    fn last(
        &self,
        parent: &'x Node,
        name: &'x [u8],
        slash: bool,
        follow: Follow,
    ) -> Step<Walked<'x>> {
        let node = match self.step(parent, name) {
            Ok(node) => Some(node),
            Err(Stop::Errno(Errno::ENOENT)) => None,
            Err(stop) => return Err(stop),
        };
        let follows = follow == Follow::Yes || (follow == Follow::Slash && slash);
        if let Some(link) = node.filter(|n| follows && n.kind() == Kind::Symlink) {
            if self.cx.core.protection.symlinks {
                may_follow(self.cx, parent, link)?;
            }
            let walked = self.follow(parent, link)?;
            return Ok(Walked {
                slash: walked.slash || slash,
                ..walked
            });
        }
        let last = match name {
            b"." => Last::Dot,
            b".." => Last::DotDot,
            _ => Last::Name,
        };
        Ok(Walked {
            parent,
            name,
            last,
            node,
            slash,
        })
    }

    fn step(&self, here: &'x Node, name: &[u8]) -> Step<&'x Node> {
        if name == b".." {
            self.up.set(true);
            if std::ptr::eq(here, self.root) {
                return lookup(self.cx, here, b".", self.g);
            }
        }
        lookup(self.cx, here, name, self.g)
    }

    fn follow(&self, parent: &'x Node, link: &'x Node) -> Step<Walked<'x>> {
        self.links.set(self.links.get() + 1);
        if self.links.get() > LINKS {
            return Err(Errno::ELOOP.into());
        }
        let target = readlink(self.cx, link)?;
        self.run(parent, target, Follow::Yes)
    }
}

/// `may_follow_link` of Linux with `fs.protected_symlinks`.
fn may_follow(cx: &Ctx<'_>, parent: &Node, link: &Node) -> Result<(), Errno> {
    let (directory, link) = (parent.meta.owner(), link.meta.owner());
    let open_to_all = libc::S_ISVTX | libc::S_IWOTH;
    let is_safe = !cx.caller.checks()
        || cx.caller.uid == link.uid
        || directory.uid == link.uid
        || u32::from(directory.perm) & open_to_all != open_to_all;
    if is_safe { Ok(()) } else { Err(Errno::EACCES) }
}

fn skip_slashes(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|&b| b != b'/').unwrap_or(path.len());
    &path[start..]
}
