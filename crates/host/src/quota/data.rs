//! Operations on contents and attributes, charged.

use super::allocated::BTRFS;
use super::settle::Touched;
use super::{Membership, Quotas};
use crate::file::OpenHost;
use crate::node::Node;
use crate::ops::projects::PROJINHERIT;
use hearth::{Caller, Errno, FsXAttr, Kind, Owners, Resource, Result, SetAttr, WriteAt, flags};
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, BorrowedFd};

/// Modes of `fallocate` that allocate nothing.
const FREES: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_COLLAPSE_RANGE;

impl Quotas {
    /// Runs an operation that allocates nothing, and settles the inode.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn settled<T>(&self, node: &Arc<Node>, run: impl FnOnce() -> Result<T>) -> Result<T> {
        self.touch(node)?.record().known.forget();
        let done = run();
        self.settle_node(node);
        done
    }

    /// Runs an operation that may allocate in a range of an open file, or of its beginning: `run`
    /// gets how much of it there is room for.
    ///
    /// # Errors
    /// `EDQUOT`, `ENOSPC`, and those of `run`.
    pub fn allocate<T>(
        &self,
        node: &Arc<Node>,
        fd: BorrowedFd<'_>,
        range: (u64, u64),
        in_part: bool,
        run: impl FnOnce(u64) -> Result<T>,
    ) -> Result<T> {
        let mut touched = self.touch(node)?;
        let done = self.reserve(&mut touched, fd, range, in_part).and_then(run);
        // A copy of shared blocks brings holes as well.
        touched.record().known.forget();
        self.wrote(&mut touched);
        self.settle(&mut touched, fd);
        done
    }

    /// Writes to an open file.
    ///
    /// # Errors
    /// As [`Quotas::allocate`].
    pub fn write(
        &self,
        file: &OpenHost,
        place: WriteAt,
        data: &[u8],
        run: impl FnOnce(&[u8]) -> Result<usize>,
    ) -> Result<usize> {
        let fd = file.fd()?;
        let mut touched = self.touch(&file.node)?;
        let off = match place {
            WriteAt::At(off) => off,
            // Appends come one after the other, by the record's lock.
            WriteAt::End | WriteAt::EndFrom(_) => crate::attributes::stat(fd.as_fd())?.stx_size,
        };
        let range = (off, data.len() as u64);
        let done = self
            .reserve(&mut touched, fd.as_fd(), range, true)
            .and_then(|fits| run(&data[..fits as usize]));
        if let Ok(written) = done {
            self.wrote_data(&mut touched, off, written);
        }
        self.wrote(&mut touched);
        self.settle(&mut touched, fd.as_fd());
        done
    }

    /// `fallocate(2)`.
    ///
    /// # Errors
    /// As [`Quotas::allocate`].
    pub fn fallocate(
        &self,
        file: &OpenHost,
        mode: i32,
        range: (u64, u64),
        run: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let is_insert = mode & libc::FALLOC_FL_INSERT_RANGE != 0;
        let bytes = range.0..range.0.saturating_add(range.1);
        match mode & FREES != 0 || is_insert {
            true => {
                let gone = || match is_insert {
                    true => Some(0),
                    false => self.in_range(&file.node, bytes),
                };
                self.freeing(&file.node, gone, run)
            }
            false => {
                let fd = file.fd()?;
                let fd = fd.as_fd();
                let mut touched = self.touch(&file.node)?;
                let done = self.reserve(&mut touched, fd, range, false);
                let done = done.and_then(|_| run());
                touched.record().known.forget();
                self.wrote(&mut touched);
                self.settle(&mut touched, fd);
                done
            }
        }
    }

    /// Changes attributes. New owners pay for everything, or nothing is changed.
    ///
    /// # Errors
    /// `EDQUOT`, `ENOSPC`, and those of `run`.
    pub fn setattr<T>(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        set: &SetAttr,
        run: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if set.uid.is_none() && set.gid.is_none() {
            return match set.size {
                Some(size) => self.resize(node, size, run),
                None => run(),
            };
        }
        let mut touched = self.touch(node)?;
        let now = touched.record().owners;
        let wanted = Owners {
            uid: set.uid.unwrap_or(now.uid),
            gid: set.gid.unwrap_or(now.gid),
            ..now
        };
        self.give(&mut touched, wanted, caller.uid == 0, run)
    }

    /// Changes the size, which may allocate a block at the old end.
    fn resize<T>(&self, node: &Arc<Node>, size: u64, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let file = || {
            let reached = self.tree.reach(node).ok()?;
            let is_btrfs = self.magic_of(node.id.dev, reached.as_fd()) == BTRFS;
            let open = || self.tree.open_for_ioctl(reached.as_fd(), node.kind).ok();
            (is_btrfs && node.kind == Kind::File).then(open)?
        };
        match file() {
            Some(file) => {
                let mut touched = self.touch(node)?;
                let fd = file.as_fd();
                let done = self.reserve(&mut touched, fd, (size, 0), false);
                let done = done.and_then(|_| run());
                touched.record().known.forget();
                self.settle(&mut touched, fd);
                done
            }
            None => self.freeing(node, || self.in_range(node, size..u64::MAX), run),
        }
    }

    /// Charges new owners, and runs what makes them the owners.
    fn give<T>(
        &self,
        touched: &mut Touched<'_>,
        wanted: Owners,
        force: bool,
        run: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let record = touched.record();
        let amounts = record.amounts;
        self.charges
            .transfer(record.owners, wanted, amounts, force)?;
        record.owners = wanted;
        let done = run();
        // Also what was refused: the host says who owns it.
        let node = touched.node;
        if let Ok(reached) = self.tree.reach(node) {
            self.settle(touched, reached.as_fd());
        }
        done
    }

    /// Whether attributes of an inode of this kind are counted. XFS has room for any number.
    pub fn counts_attributes(&self, kind: Kind) -> bool {
        kind == Kind::File || self.is_xfs && kind == Kind::Directory
    }

    /// Sets an attribute with a value of `len` bytes, for which the host may take blocks.
    ///
    /// # Errors
    /// `EDQUOT`, `ENOSPC`, and those of `run`.
    pub fn setxattr(
        &self,
        node: &Arc<Node>,
        len: usize,
        run: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if !self.counts_attributes(node.kind) {
            return run();
        }
        let blocks = self.of_value(len);
        let mut touched = self.touch(node)?;
        let owners = touched.record().owners;
        self.charge(owners, [blocks, 0])?;
        touched.record().amounts[Resource::Blocks as usize] += blocks;
        touched.record().spare = Some(blocks);
        let done = run();
        if let Ok(reached) = self.tree.reach(node) {
            self.settle(&mut touched, reached.as_fd());
        }
        done
    }

    /// Flags as the host has them, with the project.
    pub fn fsxattr(&self, node: &Arc<Node>, found: Result<FsXAttr>) -> Result<FsXAttr> {
        if self.tree.keeps_projects() {
            return found;
        }
        let project = self.project(node);
        let mut found = match found {
            Err(Errno::ENOTTY | Errno::EOPNOTSUPP) if self.projects.any() => FsXAttr::default(),
            found => found?,
        };
        if project != 0 {
            found.project = project;
            if node.kind == Kind::Directory {
                found.xflags |= PROJINHERIT;
            }
        }
        Ok(found)
    }

    /// Sets the project, and with `run` the flags if they change.
    ///
    /// # Errors
    /// `EPERM` if `caller`, whom nobody has checked, does not own the inode, or may not change its
    /// project; `EINVAL`; it cannot be written down; and those of `run`.
    pub fn set_fsxattr(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        new: &FsXAttr,
        run: impl FnOnce(&FsXAttr) -> Result<()>,
    ) -> Result<()> {
        let mut touched = self.touch(node)?;
        let owners = touched.record().owners;
        let is_checked = self.tree.rights.are_checked();
        if !is_checked && caller.uid != 0 && caller.uid != owners.uid {
            return Err(Errno::EPERM);
        }
        let now = self.tree.get_fsxattr(node);
        let shown = self.fsxattr(node, now).unwrap_or_default();
        let inherits = (shown.xflags ^ new.xflags) & PROJINHERIT != 0;
        let changes_inherit = inherits && node.kind == Kind::Directory;
        // What is allocated ahead by a hint is nobody's, so who has limits sets none.
        let old = now.unwrap_or_default();
        let hints = |of: &FsXAttr| (of.extsize, of.cowextsize);
        let changes_hints = hints(&old) != hints(new);
        let projects = (owners.project, new.project);
        self.charges
            .may_change_project(caller, projects, changes_inherit || changes_hints)?;
        let wanted = Owners {
            project: new.project,
            ..owners
        };
        // Forced: who may do this may fill a project beyond its limit.
        self.charges
            .transfer(owners, wanted, touched.record().amounts, true)?;
        touched.record().owners = wanted;
        let done = match self.tree.keeps_projects() {
            true => run(new),
            false => self.set_beside(node, (now.unwrap_or_default(), new), run),
        };
        if done.is_ok() && self.tree.keeps_projects() {
            node.charged.set_membership(Membership {
                project: new.project,
                passes_on: new.xflags & PROJINHERIT != 0,
            });
        } else if done.is_ok() && wanted != owners {
            node.charged
                .set_membership(Membership::inherited(new.project));
        }
        if let Ok(reached) = self.tree.reach(node) {
            self.settle(&mut touched, reached.as_fd());
        }
        done
    }

    /// Sets plain flags with `run`. Those of a directory say whether it passes its project on.
    ///
    /// # Errors
    /// `EPERM` if `caller` may not change that, and those of `run`.
    pub fn set_flags(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        flags: u32,
        run: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if node.kind != Kind::Directory {
            return run();
        }
        // Nobody else sets it meanwhile.
        let touched = self.touch(node)?;
        let now = self.tree.get_flags(node)?;
        let changes_inherit = (now ^ flags) & flags::PROJINHERIT != 0;
        self.charges
            .may_change_project(caller, (0, 0), changes_inherit)?;
        let done = run();
        drop(touched);
        self.learn_again(node);
        done
    }

    /// Writes the project down, where the filesystem has none, and sets flags if they change.
    fn set_beside(
        &self,
        node: &Node,
        (now, new): (FsXAttr, &FsXAttr),
        run: impl FnOnce(&FsXAttr) -> Result<()>,
    ) -> Result<()> {
        let mut flags = *new;
        flags.xflags &= !PROJINHERIT;
        flags.project = 0;
        let is_other = flags.xflags != now.xflags & !PROJINHERIT || flags.extsize != now.extsize;
        let before = self.projects.of(&node.id);
        if node.charged.project() != Some(new.project) {
            self.projects.set(&node.id, new.project)?;
        }
        let done = if is_other { run(&flags) } else { Ok(()) };
        if done.is_err() {
            // It is as before, whether that can be written down or not.
            match before {
                Some(project) => drop(self.projects.hold(&node.id, project)),
                None => self.projects.unset(&node.id),
            }
        }
        done
    }

    /// A file was closed: what lost its name meanwhile is free, what the host allocated late or
    /// ahead is counted.
    pub fn closed(&self, file: &OpenHost) {
        self.settle_if_charged(&file.node);
    }
}
