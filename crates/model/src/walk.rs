//! Path resolution.

use libc::{EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR};

use crate::model::{Answer, FREE, Model};
use crate::node::{Content, NodeId};
use crate::op::{CWD, Fd};
use crate::permission::EXEC;

pub(crate) const NAME_MAX: usize = 255;
pub(crate) const PATH_MAX: usize = 4096;
const SYMLINKS_MAX: u32 = 40;

/// The last component of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Last {
    Name(Vec<u8>),
    Dot,
    DotDot,
    /// The path is all slashes.
    Root,
}

/// A path walked up to its last component.
#[derive(Debug, Clone)]
pub(crate) struct Parent {
    pub dir: NodeId,
    pub last: Last,
    /// Slashes follow the last component.
    pub slash: bool,
}

/// A walk under way: counts the symlinks.
pub(crate) struct Walk {
    p: usize,
    at: NodeId,
    links: u32,
}

impl Model {
    /// Walks a path to the directory of its last component, which is not looked up.
    pub(crate) fn parent(&mut self, p: usize, dirfd: Fd, path: &[u8]) -> Answer<Parent> {
        let mut walk = self.start(p, dirfd, path)?;
        self.walk_to_parent(&mut walk, path)
    }

    /// Walks a path to its end; `follow` decides about a symlink there.
    pub(crate) fn lookup(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        follow: bool,
    ) -> Answer<NodeId> {
        let mut walk = self.start(p, dirfd, path)?;
        self.walk_to_end(&mut walk, path, follow)
    }

    /// Walks like [`lookup`](Self::lookup) for calls with `AT_EMPTY_PATH`: an empty path is `dirfd`
    /// itself.
    pub(crate) fn lookup_at(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        (follow, empty): (bool, bool),
    ) -> Answer<NodeId> {
        if path.is_empty() && empty {
            return match dirfd {
                CWD => Ok(self.process(p).cwd),
                fd => Ok(self.any_file(p, fd)?.node),
            };
        }
        self.lookup(p, dirfd, path, follow)
    }

    /// Returns the last component of a parent, if it exists.
    pub(crate) fn child(&self, dir: NodeId, name: &[u8]) -> Answer<Option<NodeId>> {
        let directory = self.node(dir).directory().ok_or(ENOTDIR)?;
        match (directory.removed, name.len() > NAME_MAX) {
            (true, false) => return Err(ENOENT),
            (false, true) => return Err(ENAMETOOLONG),
            (true, true) => return Err(FREE),
            (false, false) => {}
        }
        Ok(directory.entries.get(name).copied())
    }

    /// Walks the rest of a path before its last component. `open`, which treats the last component
    /// itself, uses it to follow a symlink found there.
    pub(crate) fn follow_into(
        &mut self,
        walk: &mut Walk,
        dir: NodeId,
        link: NodeId,
    ) -> Answer<Vec<u8>> {
        walk.at = dir;
        self.take_link(walk, link)
    }

    pub(crate) fn start(&self, p: usize, dirfd: Fd, path: &[u8]) -> Answer<Walk> {
        if path.is_empty() {
            return Err(ENOENT);
        }
        if path.len() >= PATH_MAX {
            return Err(ENAMETOOLONG);
        }
        let at = match dirfd {
            _ if path[0] == b'/' => self.process(p).root,
            CWD => self.process(p).cwd,
            fd => {
                let node = self.any_file(p, fd)?.node;
                if !self.node(node).is_dir() {
                    return Err(ENOTDIR);
                }
                node
            }
        };
        Ok(Walk { p, at, links: 0 })
    }

    pub(crate) fn walk_to_parent(&mut self, walk: &mut Walk, path: &[u8]) -> Answer<Parent> {
        if path.first() == Some(&b'/') {
            walk.at = self.process(walk.p).root;
        }
        let mut rest = skip_slashes(path);
        if rest.is_empty() {
            return Ok(Parent {
                dir: walk.at,
                last: Last::Root,
                slash: true,
            });
        }
        loop {
            self.may(walk.p, walk.at, EXEC)?;
            let end = rest.iter().position(|b| *b == b'/').unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            rest = skip_slashes(after);
            if rest.is_empty() {
                let slash = !after.is_empty();
                return Ok(Parent {
                    dir: walk.at,
                    last: last(name),
                    slash,
                });
            }
            let parent = Parent {
                dir: walk.at,
                last: last(name),
                slash: true,
            };
            walk.at = self.step(walk, &parent, true)?;
            if !self.node(walk.at).is_dir() {
                return Err(ENOTDIR);
            }
        }
    }

    fn walk_to_end(&mut self, walk: &mut Walk, path: &[u8], follow: bool) -> Answer<NodeId> {
        let parent = self.walk_to_parent(walk, path)?;
        let node = self.step(walk, &parent, follow || parent.slash)?;
        if parent.slash && !self.node(node).is_dir() {
            return Err(ENOTDIR);
        }
        Ok(node)
    }

    /// Steps from the directory of a component to what the component names.
    fn step(&mut self, walk: &mut Walk, parent: &Parent, follow: bool) -> Answer<NodeId> {
        let name = match &parent.last {
            Last::Root | Last::Dot => return Ok(parent.dir),
            Last::DotDot => return self.dot_dot(walk.p, parent.dir),
            Last::Name(name) => name,
        };
        let node = self.child(parent.dir, name)?.ok_or(ENOENT)?;
        if !follow || !self.node(node).is_symlink() {
            return Ok(node);
        }
        walk.at = parent.dir;
        let target = self.take_link(walk, node)?;
        self.walk_to_end(walk, &target, true)
    }

    /// Returns the parent of a directory as process `p` sees it. Whether a removed directory still
    /// knows a removed parent is up to the filesystem.
    pub(crate) fn dot_dot(&self, p: usize, dir: NodeId) -> Answer<NodeId> {
        if dir == self.process(p).root {
            return Ok(dir);
        }
        let parent = self.node(dir).directory().ok_or(ENOTDIR)?.parent;
        if self.is_removed(dir) && self.is_removed(parent) {
            Err(FREE)
        } else {
            Ok(parent)
        }
    }

    /// Reads a symlink that is being followed.
    fn take_link(&mut self, walk: &mut Walk, link: NodeId) -> Answer<Vec<u8>> {
        walk.links += 1;
        if walk.links > SYMLINKS_MAX {
            return Err(ELOOP);
        }
        self.node_mut(link).accessed();
        match &self.node(link).content {
            Content::Symlink(target) => Ok(target.clone()),
            _ => Err(EACCES),
        }
    }
}

fn skip_slashes(path: &[u8]) -> &[u8] {
    let slashes = path.iter().take_while(|b| **b == b'/').count();
    &path[slashes..]
}

fn last(name: &[u8]) -> Last {
    match name {
        b"." => Last::Dot,
        b".." => Last::DotDot,
        name => Last::Name(name.to_vec()),
    }
}
