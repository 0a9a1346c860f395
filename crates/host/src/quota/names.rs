//! Operations on names, charged.

use super::walk::{Seen, Start};
use super::{Membership, Quotas};
use crate::file::OpenHost;
use crate::identity::Identity;
use crate::node::Node;
use hearth::{Amounts, Attr, Caller, Errno, Kind, Owners, Resource, Result, StatFs, TreeChange};
use hearth::{BLOCK, QuotaId};
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::RenameFlags;
use std::collections::HashSet;

/// An inode that may lose a name.
pub struct Victim {
    node: Arc<Node>,
    /// Tells of the inode when it has no name.
    fd: OwnedFd,
    /// Whether the kernel does not refer to it, so that the reference goes back.
    is_own: bool,
}

impl Quotas {
    /// Makes an inode in a directory: `make` with a reservation of it and of `blocks`.
    ///
    /// # Errors
    /// `EDQUOT`, `ENOSPC`, and those of `make`.
    pub fn make(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        blocks: u64,
        make: impl FnOnce() -> Result<Attr>,
    ) -> Result<Attr> {
        let reserved = self.reserve_new(caller, parent, [blocks, 1])?;
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
        let reserved = self.reserve_new(caller, parent, [0, 1])?;
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

    fn reserve_new(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        amounts: Amounts,
    ) -> Result<(Owners, Amounts)> {
        let owners = self.owners_in(caller, parent)?;
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
        self.found(parent, attr);
        match self.tree.nodes.get(attr.ino) {
            Ok(node) => self.adopt(&node, reserved, attr),
            Err(_) => self.charges.free(reserved.0, reserved.1),
        }
    }

    /// An inode was found in a directory.
    pub fn found(&self, parent: &Arc<Node>, attr: &Attr) {
        if self.projects.any()
            && let Ok(node) = self.tree.nodes.get(attr.ino)
        {
            self.was_found(&node.id, &node.charged, parent);
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
        self.was_found(&victim.node.id, &victim.node.charged, parent);
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

    /// Checks a rename against projects. Returns what leaves its project, and shall keep it.
    ///
    /// # Errors
    /// `EXDEV`.
    pub fn check_rename(
        &self,
        (from, name): (&Arc<Node>, &[u8]),
        (to, new_name): (&Arc<Node>, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        if !self.projects.any() || self.tree.keeps_projects() {
            return Ok(());
        }
        let reached = self.tree.reach(from)?;
        let found = self.tree.find(reached.as_fd(), name)?;
        let project = self.project_of_found(&found, from);
        self.may_enter(project, to)?;
        if flags.contains(RenameFlags::EXCHANGE) {
            let reached = self.tree.reach(to)?;
            let other = self.tree.find(reached.as_fd(), new_name)?;
            self.may_enter(self.project_of_found(&other, to), from)?;
        } else if project != self.project(to) {
            // It belongs to its project wherever it is.
            self.projects.set(&found.id, project);
        }
        Ok(())
    }

    /// A directory that has moved is counted where it is.
    pub fn renamed(&self, to: &Arc<Node>, new_name: &[u8]) {
        if !self.counting.is_on() {
            return;
        }
        let Ok(reached) = self.tree.reach(to) else {
            return;
        };
        if let Ok(found) = self.tree.find(reached.as_fd(), new_name)
            && let Some(node) = self.tree.nodes.known(&found.id)
            && node.kind == Kind::Directory
        {
            self.counting.moved(node);
        }
    }

    /// Makes the directory that programs know by this number, and all below, a project.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, those of the walk.
    pub fn enter_project(&self, ino: u64, project: u32) -> Result<TreeChange> {
        let tree = &self.tree;
        let root = tree.nodes.root();
        let is = |id: &Identity| tree.shown(id.dev, id.ino) == ino;
        let top = match is(&root.id) {
            true => Arc::clone(root),
            false => tree.nodes.find(is).ok_or(Errno::ENOENT)?,
        };
        if top.kind != Kind::Directory {
            return Err(Errno::ENOTDIR);
        }
        let reached = tree.reach(&top)?;
        let before = self.membership(&top);
        let mut done = TreeChange::default();
        let mut linked = HashSet::new();
        if !tree.keeps_projects() {
            // Who looks something up below from now on finds the new project.
            self.projects.set(&top.id, project);
        }
        let start = Start {
            top: reached.as_fd(),
            member: before,
            opens_all: true,
        };
        self.walk(start, &mut |seen| {
            let Some(id) = seen.id else { return Ok(()) };
            if *id != top.id {
                self.projects.unset(id);
            }
            let is_linked = seen.kind != Kind::Directory && seen.stat.stx_nlink > 1;
            // By another of its names.
            let was_moved = is_linked && !linked.insert((id.dev, id.ino));
            let moved = match was_moved {
                true => Ok(()),
                false => self.move_to_project(seen, id, project),
            };
            match moved {
                // Before Linux 6.17 only files and directories can be told.
                Err(Errno::EOPNOTSUPP) if *id != top.id => done.kept += 1,
                Err(errno) => return Err(errno),
                Ok(()) if seen.project == project => done.kept += 1,
                Ok(()) => done.changed += 1,
            }
            Ok(())
        })?;
        Ok(done)
    }

    /// Charges what a walk has come to to another project, which the filesystem keeps if it can.
    fn move_to_project(&self, seen: &Seen<'_>, id: &Identity, project: u32) -> Result<()> {
        let set = || match seen.fd {
            Some(fd) if self.tree.keeps_projects() => self.tree.set_project(fd, seen.kind, project),
            _ => Ok(()),
        };
        let root = self.tree.nodes.root();
        // Whoever finds it meanwhile must not learn the project of before: so it is known, and its
        // record is locked.
        let takes = self.tree.keeps_projects() && self.tree.opens_handles_of(id) && *id != root.id;
        let taken = takes.then(|| self.tree.nodes.take(*id, seen.kind, None));
        let known = match *id == root.id {
            true => Some(Arc::clone(root)),
            false => taken.clone().or_else(|| self.tree.nodes.known(id)),
        };
        let moved = self.move_known(seen, known, project, set);
        if let Some(node) = taken
            && self.tree.nodes.give_back(node.number, 1)
        {
            self.tree.descriptors.remove(node.number);
        }
        moved
    }

    fn move_known(
        &self,
        seen: &Seen<'_>,
        known: Option<Arc<Node>>,
        project: u32,
        set: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let Some(node) = known else {
            set()?;
            let (from, amounts) = self.seen_amounts(seen);
            // Forced: a tree becomes a project even above its limits.
            let _ = self
                .charges
                .transfer(from, Owners { project, ..from }, amounts, true);
            return Ok(());
        };
        node.charged.learn(Membership::inherited(seen.project));
        let mut touched = match self.touch(&node) {
            Err(Errno::ESTALE) => return Ok(()),
            touched => touched?,
        };
        set()?;
        node.charged.set_membership(Membership {
            project,
            passes_on: !self.tree.keeps_projects() || node.kind == Kind::Directory && project != 0,
        });
        if let Some(fd) = seen.fd {
            self.settle(&mut touched, fd);
        }
        Ok(())
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
