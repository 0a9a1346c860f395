//! `openat`.

use libc::{EEXIST, EINVAL, EISDIR, ELOOP, ENOENT, ENOTDIR, ENXIO, EPERM};
use libc::{
    O_ACCMODE, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOFOLLOW,
};
use libc::{O_PATH, O_RDONLY, O_TRUNC, O_WRONLY};

use crate::data::Pages;
use crate::model::{Answer, Model};
use crate::node::{Content, NodeId};
use crate::op::Fd;
use crate::outcome::{Kind, Outcome};
use crate::permission::{EXEC, READ, WRITE};
use crate::process::{OpenFile, Slot};
use crate::walk::Last;

/// The bit of `O_TMPFILE` that is not `O_DIRECTORY`.
const TMPFILE: i32 = libc::O_TMPFILE & !O_DIRECTORY;

impl Model {
    pub(crate) fn open(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        flags: i32,
        mode: u32,
    ) -> Answer {
        let flags = match flags & O_PATH {
            0 => flags,
            _ => flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
        };
        if flags & (O_CREAT | O_DIRECTORY) == O_CREAT | O_DIRECTORY {
            return Err(EINVAL);
        }
        let node = if flags & TMPFILE != 0 {
            self.open_unnamed(p, dirfd, path, flags, mode)?
        } else if flags & O_PATH != 0 {
            let node = self.lookup(p, dirfd, path, flags & O_NOFOLLOW == 0)?;
            self.wants_directory(node, flags & O_DIRECTORY != 0)?;
            Some(node)
        } else {
            self.open_named(p, dirfd, path, flags, mode)?
        };
        Ok(node.map_or(Outcome::Unspecified, |node| {
            Outcome::Fd(self.install(p, node, flags))
        }))
    }

    /// `None` in a removed directory: tmpfs makes a file there, others may not.
    fn open_unnamed(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        flags: i32,
        mode: u32,
    ) -> Answer<Option<NodeId>> {
        if flags & O_DIRECTORY == 0 || flags & O_ACCMODE == O_RDONLY {
            return Err(EINVAL);
        }
        let dir = self.lookup(p, dirfd, path, flags & O_NOFOLLOW == 0)?;
        self.wants_directory(dir, true)?;
        if self.is_removed(dir) {
            return Ok(None);
        }
        self.may(p, dir, WRITE | EXEC)?;
        let node = self.make(p, dir, Content::File(Pages::default()), mode & 0o7777);
        self.node_mut(node).linkable = flags & O_EXCL == 0;
        Ok(Some(node))
    }

    /// The walk of `open`: the last component may be created, and a symlink there may lead on.
    /// Returns `None` for opening a pipe or device, which is outside the filesystem.
    fn open_named(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        flags: i32,
        mode: u32,
    ) -> Answer<Option<NodeId>> {
        let create = flags & O_CREAT != 0;
        let exclusive = create && flags & O_EXCL != 0;
        let mut follow = flags & O_NOFOLLOW == 0 && !exclusive;
        let mut directory = flags & O_DIRECTORY != 0;
        let mut sticky;
        let mut walk = self.start(p, dirfd, path)?;
        let mut path = path.to_vec();
        let node = loop {
            let parent = self.walk_to_parent(&mut walk, &path)?;
            directory |= parent.slash;
            follow |= parent.slash;
            sticky = self.node(parent.dir).perm & 0o1000 != 0;
            let name = match parent.last {
                Last::Root | Last::Dot => break parent.dir,
                Last::DotDot => break self.dot_dot(p, parent.dir)?,
                Last::Name(name) => name,
            };
            if create && parent.slash {
                return self.slash_behind_new_name(parent.dir, &name);
            }
            let Some(node) = self.child(parent.dir, &name)? else {
                if !create {
                    return Err(ENOENT);
                }
                self.may(p, parent.dir, WRITE | EXEC)?;
                let node = self.make(
                    p,
                    parent.dir,
                    Content::File(Pages::default()),
                    mode & 0o7777,
                );
                self.enter(parent.dir, name, node);
                if flags & O_NOATIME != 0 && !self.owns(p, node) {
                    return Err(EPERM);
                }
                return Ok(Some(node));
            };
            if !self.node(node).is_symlink() || !follow {
                break node;
            }
            path = self.follow_into(&mut walk, parent.dir, node)?;
        };
        if exclusive {
            return Err(EEXIST);
        }
        if create && self.node(node).is_dir() {
            return Err(EISDIR);
        }
        self.wants_directory(node, directory)?;
        if create && sticky && self.node(node).pages().is_none() {
            // Linux's protection of pipes: EACCES instead of what it would be anyway.
            return Ok(None);
        }
        if !self.may_open(p, node, flags)? {
            return Ok(None);
        }
        // Only data can bypass a cache.
        if flags & O_DIRECT != 0 && self.node(node).pages().is_none() {
            return Err(EINVAL);
        }
        if flags & O_TRUNC != 0 && self.node(node).pages().is_some() {
            self.strip_privileges(p, node);
            self.set_size(node, 0);
            self.node_mut(node).modified();
        }
        Ok(Some(node))
    }

    /// EISDIR, unless a filesystem that checks the name first reports another error.
    fn slash_behind_new_name(&self, dir: NodeId, name: &[u8]) -> Answer<Option<NodeId>> {
        match self.child(dir, name) {
            Ok(Some(node)) if self.node(node).is_symlink() => Ok(None),
            Ok(_) => Err(EISDIR),
            Err(_) => Ok(None),
        }
    }

    /// Returns whether an existing inode may be opened in this way. `Ok(false)`: a pipe or a
    /// device.
    fn may_open(&self, p: usize, id: NodeId, flags: i32) -> Answer<bool> {
        let node = self.node(id);
        let kind = node.kind();
        let truncates = flags & O_TRUNC != 0;
        let mut want = match flags & O_ACCMODE {
            O_RDONLY => READ,
            O_WRONLY => WRITE,
            // Mode 3 as well, though the descriptor permits neither.
            _ => READ | WRITE,
        };
        if truncates {
            want |= WRITE;
        }
        match kind {
            Kind::Symlink => return Err(ELOOP),
            Kind::Directory if want & WRITE != 0 => return Err(EISDIR),
            Kind::Char | Kind::Block => return Ok(false),
            _ => {}
        }
        self.may(p, id, want)?;
        if node.append_only() {
            let rewrites = flags & O_ACCMODE != O_RDONLY && flags & O_APPEND == 0;
            if rewrites || (truncates && kind == Kind::File) {
                return Err(EPERM);
            }
        }
        if flags & O_NOATIME != 0 && !self.owns(p, id) {
            return Err(EPERM);
        }
        match kind {
            Kind::Socket => Err(ENXIO),
            kind => Ok(kind != Kind::Fifo),
        }
    }

    fn wants_directory(&self, node: NodeId, directory: bool) -> Answer<()> {
        if directory && !self.node(node).is_dir() {
            Err(ENOTDIR)
        } else {
            Ok(())
        }
    }

    /// A new open file description on the lowest free descriptor.
    fn install(&mut self, p: usize, node: NodeId, flags: i32) -> Fd {
        let file = self.number();
        let opener = (p, self.process(p).identity);
        let stays = flags & !(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC);
        self.files.insert(
            file,
            OpenFile {
                node,
                flags: stays,
                offset: 0,
                slots: 1,
                opener,
            },
        );
        let process = self.process_mut(p);
        let fd = process.free_fd(0);
        process.fds.insert(
            fd,
            Slot {
                file,
                cloexec: flags & O_CLOEXEC != 0,
            },
        );
        fd
    }
}
