//! Making inodes and names: what `open`, `mkdir`, `mknod` and `symlink` share, and these calls.

use std::collections::BTreeMap;

use libc::{EEXIST, EINVAL, ENAMETOOLONG, ENOENT, EPERM};

use crate::data::Pages;
use crate::model::{Answer, Model, new_node};
use crate::node::{Content, Directory, NodeId, libc_flags};
use crate::op::Fd;
use crate::outcome::{Kind, Outcome};
use crate::walk::Last;

/// Flags that a new inode inherits from its directory.
const INHERITED: u32 = libc_flags::NODUMP | libc_flags::NOATIME | libc_flags::PROJINHERIT;

impl Model {
    pub(crate) fn make_dir(&mut self, p: usize, dirfd: Fd, path: &[u8], mode: u32) -> Answer {
        let (dir, name) = self.place(p, dirfd, path, true)?;
        self.may_create(p, dir, false)?;
        let content = Content::Directory(Directory {
            entries: BTreeMap::new(),
            parent: dir,
            removed: false,
        });
        let node = self.make(p, dir, content, mode & 0o1777);
        self.enter(dir, name, node);
        Ok(Outcome::Done)
    }

    pub(crate) fn make_node(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        mode: u32,
        rdev: u32,
    ) -> Answer {
        let kind = match mode & libc::S_IFMT {
            0 => Kind::File,
            libc::S_IFDIR => return Err(EPERM),
            _ => Kind::from_mode(mode).ok_or(EINVAL)?,
        };
        let content = match kind {
            Kind::Fifo => Content::Fifo,
            Kind::Socket => Content::Socket,
            Kind::Char => Content::Char(rdev),
            Kind::Block => Content::Block(rdev),
            Kind::File => Content::File(Pages::default()),
            Kind::Directory | Kind::Symlink => return Err(EINVAL),
        };
        let (dir, name) = self.place(p, dirfd, path, false)?;
        self.may_create(p, dir, false)?;
        let whiteout = kind == Kind::Char && rdev == 0;
        if matches!(kind, Kind::Char | Kind::Block) && !whiteout && !self.credentials(p).is_root() {
            return Err(EPERM);
        }
        let node = self.make(p, dir, content, mode & 0o7777);
        self.enter(dir, name, node);
        Ok(Outcome::Done)
    }

    pub(crate) fn symlink(&mut self, p: usize, target: &[u8], dirfd: Fd, path: &[u8]) -> Answer {
        if target.is_empty() {
            return Err(ENOENT);
        }
        if target.len() >= 4096 {
            return Err(ENAMETOOLONG);
        }
        let (dir, name) = self.place(p, dirfd, path, false)?;
        self.may_create(p, dir, false)?;
        let node = self.make(p, dir, Content::Symlink(target.to_vec()), 0o777);
        self.enter(dir, name, node);
        Ok(Outcome::Done)
    }

    /// Where a new name goes. Only a directory may have a slash behind its name.
    pub(crate) fn place(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        directory: bool,
    ) -> Answer<(NodeId, Vec<u8>)> {
        let parent = self.parent(p, dirfd, path)?;
        let Last::Name(name) = parent.last else {
            return Err(EEXIST);
        };
        match self.child(parent.dir, &name)? {
            Some(_) => Err(EEXIST),
            None if parent.slash && !directory => Err(ENOENT),
            None => Ok((parent.dir, name)),
        }
    }

    /// Returns a new inode without a name, with what it inherits from process and directory.
    pub(crate) fn make(&mut self, p: usize, dir: NodeId, content: Content, mode: u32) -> NodeId {
        let parent = self.node(dir).clone();
        let credentials = self.credentials(p).clone();
        let mut node = new_node(content, mode as u16, credentials.uid, credentials.gid);
        if parent.perm & 0o2000 != 0 {
            node.gid = parent.gid;
            if node.is_dir() {
                node.perm |= 0o2000;
            } else if node.perm & 0o2010 == 0o2010 && !self.keeps_setgid(p, parent.gid) {
                node.perm &= !0o2000;
            }
        }
        node.flags = parent.flags & INHERITED;
        if !node.is_dir() {
            node.flags &= !libc_flags::PROJINHERIT;
        }
        if parent.flags & libc_flags::PROJINHERIT != 0 {
            node.project = parent.project;
        }
        match &parent.default_acl {
            _ if node.is_symlink() => {}
            None => node.perm &= !(self.process(p).umask as u16),
            Some(default) => {
                (node.perm, node.acl) = default.inherit(node.perm);
                node.default_acl = node.is_dir().then(|| default.clone());
            }
        }
        self.add_node(node)
    }

    /// Gives an inode a name; updates `..` of a directory and all link counts.
    pub(crate) fn enter(&mut self, dir: NodeId, name: Vec<u8>, id: NodeId) {
        let node = self.node_mut(id);
        match node.directory_mut() {
            Some(directory) => {
                directory.parent = dir;
                node.nlink = node.nlink.max(2);
                self.node_mut(dir).nlink += 1;
            }
            None => node.nlink += 1,
        }
        let parent = self.node_mut(dir);
        parent.modified();
        parent
            .directory_mut()
            .expect("names live in directories")
            .entries
            .insert(name, id);
    }

    /// Removes a name and updates link counts; the inode stays.
    pub(crate) fn leave(&mut self, dir: NodeId, name: &[u8]) -> NodeId {
        let parent = self.node_mut(dir);
        parent.modified();
        let entries = &mut parent
            .directory_mut()
            .expect("names live in directories")
            .entries;
        let id = entries.remove(name).expect("the caller has looked it up");
        if self.node(id).is_dir() {
            self.node_mut(dir).nlink -= 1;
        } else {
            self.node_mut(id).nlink -= 1;
        }
        id
    }
}
