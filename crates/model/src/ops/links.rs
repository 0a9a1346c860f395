//! link, readlink, unlink, rmdir.

use libc::{AT_EMPTY_PATH, AT_REMOVEDIR, AT_SYMLINK_FOLLOW};
use libc::{EBUSY, EINVAL, EISDIR, ENAMETOOLONG, ENOENT, ENOTDIR, ENOTEMPTY, EPERM, EXDEV};

use crate::bytes::Bytes;
use crate::model::{Answer, Model};
use crate::node::{Content, NodeId, libc_flags};
use crate::op::{CWD, Fd};
use crate::outcome::Outcome;
use crate::permission::{READ, WRITE};
use crate::walk::{Last, PATH_MAX, Parent};

impl Model {
    pub(crate) fn link(
        &mut self,
        p: usize,
        (old_dirfd, old): (Fd, &[u8]),
        (new_dirfd, new): (Fd, &[u8]),
        flags: i32,
    ) -> Answer {
        if flags & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(EINVAL);
        }
        let empty = flags & AT_EMPTY_PATH != 0;
        if old.len() >= PATH_MAX {
            return Err(ENAMETOOLONG);
        }
        if empty && !old.starts_with(b"/") && old_dirfd != CWD && !self.credentials(p).is_root() {
            // Linux allows others this with exactly the credentials that opened the file; a library
            // may be more generous.
            if self.any_file(p, old_dirfd)?.opener != (p, self.process(p).identity) {
                return Ok(Outcome::Unspecified);
            }
        }
        let node = self.lookup_at(p, old_dirfd, old, (flags & AT_SYMLINK_FOLLOW != 0, empty))?;
        let (dir, name) = self.place(p, new_dirfd, new, false)?;
        if self.protects_hardlinks && !self.owns(p, node) && !self.could_have_made(p, node) {
            return Err(EPERM);
        }
        self.may_create(p, dir, false)?;
        let source = self.node(node);
        if source.append_only() || source.immutable() || source.is_dir() {
            return Err(EPERM);
        }
        if source.nlink == 0 && !source.linkable {
            return Err(ENOENT);
        }
        self.check_project(node, dir)?;
        self.enter(dir, name, node);
        self.node_mut(node).linkable = false;
        Ok(Outcome::Done)
    }

    /// A directory that passes its project on accepts only inodes of that project.
    pub(crate) fn check_project(&self, id: NodeId, dir: NodeId) -> Answer<()> {
        let (node, dir) = (self.node(id), self.node(dir));
        let hands_on = dir.flags & libc_flags::PROJINHERIT != 0;
        match hands_on && dir.project != node.project {
            true => Err(EXDEV),
            false => Ok(()),
        }
    }

    /// A plain file without privileges that the process may read and write.
    fn could_have_made(&self, p: usize, id: NodeId) -> bool {
        let node = self.node(id);
        let privileged = node.perm & 0o4000 != 0 || node.perm & 0o2010 == 0o2010;
        node.pages().is_some() && !privileged && self.may(p, id, READ | WRITE).is_ok()
    }

    pub(crate) fn read_link(&mut self, p: usize, dirfd: Fd, path: &[u8]) -> Answer {
        let node = self.lookup_at(p, dirfd, path, (false, true))?;
        let Content::Symlink(target) = self.node(node).content.clone() else {
            return Err(if path.is_empty() { ENOENT } else { EINVAL });
        };
        self.node_mut(node).accessed();
        Ok(Outcome::Data(Bytes(target)))
    }

    pub(crate) fn unlink_at(&mut self, p: usize, dirfd: Fd, path: &[u8], flags: i32) -> Answer {
        match flags {
            0 => {
                let parent = self.parent(p, dirfd, path)?;
                self.unlink(p, parent)
            }
            AT_REMOVEDIR => {
                let parent = self.parent(p, dirfd, path)?;
                self.remove_dir(p, parent)
            }
            _ => Err(EINVAL),
        }
    }

    fn unlink(&mut self, p: usize, parent: Parent) -> Answer {
        let Last::Name(name) = parent.last else {
            return Err(EISDIR);
        };
        let node = self.child(parent.dir, &name)?.ok_or(ENOENT)?;
        if parent.slash {
            return Err(if self.node(node).is_dir() {
                EISDIR
            } else {
                ENOTDIR
            });
        }
        self.may_delete(p, parent.dir, node, false)?;
        self.leave(parent.dir, &name);
        Ok(Outcome::Done)
    }

    fn remove_dir(&mut self, p: usize, parent: Parent) -> Answer {
        let name = match parent.last {
            Last::DotDot => return Err(ENOTEMPTY),
            Last::Dot => return Err(EINVAL),
            Last::Root => return Err(EBUSY),
            Last::Name(name) => name,
        };
        let node = self.child(parent.dir, &name)?.ok_or(ENOENT)?;
        self.may_delete(p, parent.dir, node, true)?;
        if !self.is_empty(node) {
            return Err(ENOTEMPTY);
        }
        self.leave(parent.dir, &name);
        self.bury(node);
        Ok(Outcome::Done)
    }

    pub(crate) fn is_empty(&self, dir: u64) -> bool {
        self.node(dir)
            .directory()
            .is_none_or(|d| d.entries.is_empty())
    }

    /// An unlinked directory: a process that holds it finds it empty and cannot fill it.
    pub(crate) fn bury(&mut self, dir: u64) {
        let node = self.node_mut(dir);
        node.nlink = 0;
        node.directory_mut()
            .expect("only directories are buried")
            .removed = true;
    }
}
