//! Operations on names, charged.

use super::Quotas;
use super::projects::Leave;
use crate::file::OpenHost;
use crate::identity::Identity;
use crate::node::Node;
use hearth::{
    Amounts, Attr, BLOCK, Caller, Errno, Kind, Owners, QuotaId, Resource, Result, StatFs,
};
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::RenameFlags;

/// An inode that may lose a name.
pub struct Victim {
    node: Arc<Node>,
    /// Tells of the inode when it has no name.
    fd: OwnedFd,
    /// Whether the kernel does not refer to it, so that the reference goes back.
    is_own: bool,
}

impl Quotas {
    /// Makes an inode of this kind in a directory: `make` with a reservation of it and of its first
    /// blocks.
    ///
    /// # Errors
    /// `EDQUOT`, `ENOSPC`, and those of `make`.
    pub fn make(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        kind: Kind,
        make: impl FnOnce() -> Result<Attr>,
    ) -> Result<Attr> {
        let _under_way = self.begin();
        let reserved = self.reserve_new(caller, parent, kind)?;
        match make() {
            Ok(attr) => {
                self.made(parent, reserved, &attr);
                Ok(attr)
            }
            Err(errno) => {
                self.charges.free(reserved.0, reserved.1);
                Err(errno)
            }
        }
    }

    /// [`Quotas::make`] for an open that makes a file, or opens one that is there.
    ///
    /// # Errors
    /// Those of [`Quotas::make`].
    pub fn make_open(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        make: impl FnOnce() -> Result<(Attr, OpenHost)>,
    ) -> Result<(Attr, OpenHost)> {
        let _under_way = self.begin();
        let reserved = self.reserve_new(caller, parent, Kind::File)?;
        match make() {
            Ok((attr, file)) => {
                match file.is_new {
                    true => self.made(parent, reserved, &attr),
                    false => {
                        self.charges.free(reserved.0, reserved.1);
                        self.found(parent, &attr);
                        self.settle_node(&file.node);
                    }
                }
                Ok((attr, file))
            }
            Err(errno) => {
                self.charges.free(reserved.0, reserved.1);
                Err(errno)
            }
        }
    }

    /// Runs a rename that leaves an inode of its own at the old name.
    ///
    /// # Errors
    /// `EDQUOT`, `ENOSPC`, and those of `rename`.
    pub fn leave_whiteout(
        &self,
        caller: &Caller<'_>,
        from: (&Arc<Node>, &[u8]),
        rename: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let reserved = self.reserve_new(caller, from.0, Kind::Char)?;
        let left = rename().map(|()| self.tree.lookup(0, from.0, from.1));
        match &left {
            Ok(Ok(attr)) => {
                self.made(from.0, reserved, attr);
                if self.tree.nodes.give_back(attr.ino, 1) {
                    self.tree.descriptors.remove(attr.ino);
                }
            }
            // It is there, though it could not be looked at. A count that goes on will meet it.
            Ok(Err(errno)) if !matches!(*errno, Errno::ENOENT | Errno::ESTALE) => {
                let (owners, [blocks, inodes]) = reserved;
                let counted = if self.counting.is_on() { inodes } else { 0 };
                self.charges.free(owners, [blocks, counted]);
            }
            // Others have taken it away already, or there is none.
            Ok(Err(_)) | Err(_) => self.charges.free(reserved.0, reserved.1),
        }
        left.map(drop)
    }

    fn reserve_new(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        kind: Kind,
    ) -> Result<(Owners, Amounts)> {
        let owners = self.owners_in(caller, parent)?;
        let amounts = [self.of_new(kind, parent), 1];
        if let Err(errno) = self.charges.charge(owners, amounts) {
            let resource = self.lacking(owners, amounts);
            self.refusals.note(&self.tree, parent, resource, errno);
            return Err(errno);
        }
        Ok((owners, amounts))
    }

    /// What there is none left of, where a new inode was refused.
    fn lacking(&self, owners: Owners, [blocks, inodes]: Amounts) -> Resource {
        let alone = [0, inodes];
        if blocks == 0 || self.charges.charge(owners, alone).is_err() {
            return Resource::Inodes;
        }
        self.charges.free(owners, alone);
        Resource::Blocks
    }

    fn made(&self, parent: &Arc<Node>, reserved: (Owners, Amounts), attr: &Attr) {
        let Ok(node) = self.tree.nodes.get(attr.ino) else {
            return self.charges.free(reserved.0, reserved.1);
        };
        let mut before = None;
        if self.moving.is_on() {
            let mut moved = self.moving.moved();
            before = moved.add_new(&node.id, node.kind, &parent.id);
        }
        self.found(parent, attr);
        self.learn_label(parent, reserved.1, attr);
        self.adopt(&node, reserved, attr, before);
    }

    /// An inode was found in a directory.
    pub fn found(&self, parent: &Arc<Node>, attr: &Attr) {
        if self.projects.any()
            && let Ok(node) = self.tree.nodes.get(attr.ino)
        {
            self.was_found(&node, parent);
        }
    }

    /// Before a name is removed or replaced: what it means, with its record.
    pub fn victim(&self, parent: &Arc<Node>, name: &[u8]) -> Option<Victim> {
        let reached = self.tree.reach(parent).ok()?;
        let found = self.tree.find(reached.as_fd(), name).ok()?;
        let fd = found.fd.try_clone().ok()?;
        let is_own = self.tree.nodes.known(&found.id).is_none();
        let attr = self.tree.take(parent, name, found).ok()?;
        let node = self.tree.nodes.get(attr.ino).ok()?;
        if !is_own {
            self.tree.nodes.give_back(attr.ino, 1);
        }
        let victim = Victim { node, fd, is_own };
        self.was_found(&victim.node, parent);
        drop(self.touch(&victim.node));
        Some(victim)
    }

    /// After it: what nobody has open any more is free.
    pub fn lost(&self, victim: Option<Victim>) {
        let Some(Victim { node, fd, is_own }) = victim else {
            return;
        };
        if let Ok(mut touched) = self.touch(&node) {
            self.settle(&mut touched, fd.as_fd());
        }
        if is_own && self.tree.nodes.give_back(node.number, 1) {
            self.tree.descriptors.remove(node.number);
        }
    }

    /// Whether a project keeps an inode from moving into a directory, as `EXDEV` tells.
    ///
    /// # Errors
    /// `EXDEV`.
    pub fn may_enter(&self, project: u32, to: &Arc<Node>) -> Result<()> {
        if self.tree.keeps_projects() {
            // The filesystem says so itself.
            return Ok(());
        }
        let there = self.project(to);
        match there != 0 && there != project {
            true => Err(Errno::EXDEV),
            false => Ok(()),
        }
    }

    /// What gets a name in a directory of no project belongs to its own wherever it is: that is
    /// written down, where the directory says something else.
    ///
    /// # Errors
    /// It cannot be.
    fn keep_project(
        &self,
        id: &Identity,
        project: u32,
        to: &Arc<Node>,
    ) -> Result<Option<Leave<'_>>> {
        let leave = || self.projects.leave(id, project);
        Ok(self.leaves_project(project, to).then(leave).transpose()?)
    }

    /// Whether an inode of this project would be of another one by a name in this directory.
    pub fn leaves_project(&self, project: u32, to: &Arc<Node>) -> bool {
        !self.tree.keeps_projects() && project != self.project(to)
    }

    /// Checks a rename against projects. What leaves the tree of its project by it keeps it.
    ///
    /// # Errors
    /// `EXDEV`; what is kept cannot be.
    pub fn check_rename(
        &self,
        (from, name): (&Arc<Node>, &[u8]),
        (to, new_name): (&Arc<Node>, &[u8]),
        flags: RenameFlags,
    ) -> Result<[Option<Leave<'_>>; 2]> {
        if !self.projects.any() || self.tree.keeps_projects() {
            return Ok([None, None]);
        }
        let reached = self.tree.reach(from)?;
        let found = self.tree.find(reached.as_fd(), name)?;
        let project = self.project_of_found(&found, from);
        if self.moves_within(from, to) {
            return Ok([None, None]);
        }
        self.may_enter(project, to)?;
        let mut other_leaves = None;
        if flags.contains(RenameFlags::EXCHANGE) {
            let reached = self.tree.reach(to)?;
            let other = self.tree.find(reached.as_fd(), new_name)?;
            let of_other = self.project_of_found(&other, to);
            self.may_enter(of_other, from)?;
            other_leaves = self.keep_project(&other.id, of_other, from)?;
        }
        Ok([self.keep_project(&found.id, project, to)?, other_leaves])
    }

    /// A directory that has moved is counted where it is. What has moved to where a change of
    /// project has been is changed as well.
    pub fn renamed(&self, to: &Arc<Node>, new_name: &[u8]) {
        if !self.counting.is_on() && !self.moving.is_on() {
            return;
        }
        let Ok(reached) = self.tree.reach(to) else {
            return;
        };
        if let Ok(found) = self.tree.find(reached.as_fd(), new_name)
            && let Some(node) = self.tree.nodes.known(&found.id)
        {
            if node.kind == Kind::Directory {
                self.counting.moved(Arc::clone(&node));
            }
            if self.moving.is_on() {
                self.moving.moved().add_renamed(node, to);
            }
        }
    }

    /// Gives an inode one more name, in `parent`. It stays in its project.
    ///
    /// # Errors
    /// `EXDEV` if the directory is of another one; that it stays cannot be kept; those of `link`.
    pub fn link<T>(
        &self,
        node: &Arc<Node>,
        parent: &Arc<Node>,
        link: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let _under_way = self.begin();
        let project = self.project(node);
        self.may_enter(project, parent)?;
        // Before there is the name: a crash may follow.
        let leave = self.keep_project(&node.id, project, parent)?;
        if self.moving.is_on() {
            self.moving.moved().add_link(&node.id, project);
        }
        let done = self.settled(node, link)?;
        if let Some(leave) = leave {
            leave.made();
        }
        if self.moving.is_on() {
            self.moving.moved().add_renamed(Arc::clone(node), parent);
        }
        // A walk may have changed the project of either since. While the record is locked it does
        // not change that of the inode, and it looks for a name that came before.
        if let Ok(_touched) = self.touch(node)
            && self.leaves_project(self.project(node), parent)
        {
            // There is the name already; the log has heard of it.
            let _ = self.projects.hold(&node.id, self.project(node));
        }
        Ok(done)
    }

    /// The result of `statfs(2)`: inside a project with a hard limit, the project's numbers.
    pub fn statfs(&self, node: &Arc<Node>, all: StatFs) -> StatFs {
        let all = self.narrowed(all, QuotaId::VOLUME);
        match QuotaId::project(self.project(node)) {
            none if none.id == 0 => all,
            project => self.narrowed(all, project),
        }
    }

    /// The room that the limits of `who` leave.
    fn narrowed(&self, mut all: StatFs, who: QuotaId) -> StatFs {
        let unit = u64::from(all.frsize.max(1));
        let in_units = |blocks: u64| blocks.saturating_mul(BLOCK) / unit;
        // A filesystem in memory may have no size of its own.
        let is_sized = |of: u64, value: u64| if of == 0 { u64::MAX } else { value };
        let [blocks, inodes] = self.charges.limits(who);
        if let Some((limit, used)) = blocks {
            let (most, free) = (
                is_sized(all.blocks, all.blocks),
                is_sized(all.blocks, all.bavail),
            );
            all.blocks = most.min(in_units(limit));
            all.bfree = all.blocks.saturating_sub(in_units(used));
            all.bavail = free.min(in_units(limit.saturating_sub(used)));
        }
        if let Some((limit, used)) = inodes {
            let (most, free) = (
                is_sized(all.files, all.files),
                is_sized(all.files, all.ffree),
            );
            all.files = most.min(limit);
            all.ffree = free.min(limit.saturating_sub(used));
        }
        all
    }
}
