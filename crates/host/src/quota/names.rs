//! Operations on names, charged.

use super::Quotas;
use super::amounts::Told;
use super::charged::Record;
use super::projects::Leave;
use crate::attributes;
use crate::errno::{Done, PassOn};
use crate::file::OpenHost;
use crate::identity::{Identity, device};
use crate::node::Node;
use crate::nodes::GivenBack;
use crate::pseudo::pseudo_filesystem;
use crate::reach::c_name;
use hearth::{
    Amounts, Attr, BLOCK, Caller, Errno, Kind, Owners, QuotaId, Resource, Result, StatFs,
};
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, StatxFlags, statx};

/// An inode that may lose a name.
pub struct Victim {
    node: Arc<Node>,
    /// Tells of the inode when it has no name.
    fd: OwnedFd,
    /// Whether the kernel does not refer to it, so that the reference goes back.
    is_own: bool,
}

impl Quotas {
    /// Makes an inode of this kind as a name of a directory: `make` with a reservation of it and of
    /// its first blocks.
    ///
    /// # Errors
    /// `EDQUOT`, `ENOSPC`, and those of `make`.
    pub fn make(
        &self,
        caller: &Caller<'_>,
        at: (&Arc<Node>, &[u8]),
        kind: Kind,
        make: impl FnOnce() -> Done<Attr>,
    ) -> Done<Attr> {
        let _under_way = self.begin();
        let reserved = self.reserve_new(caller, at.0, kind)?;
        let made = make().inspect_err(|_| self.charges.free(reserved.0, reserved.1))?;
        match &made {
            Ok(attr) => self.made(at.0, reserved, attr),
            Err(errno) => self.made_unseen(at, reserved, *errno),
        }
        Ok(made)
    }

    /// [`Quotas::make`] for an open that makes a file, or opens one that is there.
    ///
    /// # Errors
    /// Those of [`Quotas::make`].
    pub fn make_open(
        &self,
        caller: &Caller<'_>,
        at: (&Arc<Node>, &[u8]),
        make: impl FnOnce() -> Done<(Attr, OpenHost)>,
    ) -> Done<(Attr, OpenHost)> {
        let _under_way = self.begin();
        let reserved = self.reserve_new(caller, at.0, Kind::File)?;
        let made = make().inspect_err(|_| self.charges.free(reserved.0, reserved.1))?;
        match &made {
            Ok((attr, file)) if file.is_new => self.made(at.0, reserved, attr),
            Ok((attr, file)) => {
                self.charges.free(reserved.0, reserved.1);
                self.found(at.0, attr);
                self.settle_node(&file.node);
            }
            Err(errno) => self.made_unseen(at, reserved, *errno),
        }
        Ok(made)
    }

    /// Charges an inode of this kind, and its first blocks, which `caller` is about to make.
    ///
    /// # Errors
    /// `EDQUOT`, `ENOSPC`; `ESTALE` if the directory is gone.
    pub fn reserve_new(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        kind: Kind,
    ) -> Result<(Owners, Amounts)> {
        let owners = self.owners_in(caller, parent)?;
        let amounts = [self.of_new(kind, parent), 1];
        if let Err(errno) = self.charge(owners, amounts) {
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

    /// An inode was made in a directory.
    pub fn made(&self, parent: &Arc<Node>, reserved: (Owners, Amounts), attr: &Attr) {
        let Ok(node) = self.tree.nodes.get(attr.ino) else {
            return self.charges.free(reserved.0, reserved.1);
        };
        let mut before = None;
        if self.moving.is_on() {
            let mut moved = self.moving.moved();
            let key = (node.id.dev, node.id.ino);
            before = moved.add_new(key, node.kind, &parent.id);
        }
        self.found(parent, attr);
        self.learn_label(parent, reserved.1, attr);
        self.adopt(&node, reserved, attr, before);
    }

    /// An inode was made that could not be looked at, for the reason `why`: it has no record, and
    /// what is reserved is charged for it.
    pub fn made_unseen(
        &self,
        at: (&Arc<Node>, &[u8]),
        (owners, amounts): (Owners, Amounts),
        why: Errno,
    ) {
        // Others have taken it away already, or there is none.
        let is_gone = |errno: &Errno| matches!(*errno, Errno::ENOENT | Errno::ESTALE);
        if is_gone(&why) {
            return self.charges.free(owners, amounts);
        }
        // Without a descriptor, of which there may be none.
        let looked = self.tree.reach(at.0).and_then(|directory| {
            let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
            let stat = statx(&directory, c_name(at.1)?, flags, StatxFlags::BASIC_STATS);
            let stat = stat.pass_on()?;
            let is_pseudo = || pseudo_filesystem(&directory).is_some();
            let counts = !self.is_pseudo(&at.0.id, is_pseudo);
            Ok((attributes::kind(&stat)?, stat, counts))
        });
        let (kind, stat) = match looked {
            Ok((kind, stat, true)) => (kind, stat),
            Ok((.., false)) => return self.charges.free(owners, amounts),
            Err(errno) if is_gone(&errno) => return self.charges.free(owners, amounts),
            // What does not answer has given nothing back.
            Err(_) => return,
        };
        let key = (device(&stat), stat.stx_ino);
        if self.counting.is_on() && !self.counting.count_key(key, || {}) {
            // Whoever counted it has charged it.
            return self.charges.free(owners, amounts);
        }
        let mut before = None;
        if self.moving.is_on() {
            before = self.moving.moved().add_new(key, kind, &at.0.id);
        }
        let payers = Owners {
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            project: before.unwrap_or(owners.project),
        };
        // Whoever found it has charged what came behind its making.
        let [blocks, inodes] = self.amounts(Told::by(&stat, kind), None);
        let first = [blocks.min(amounts[0]), inodes];
        Record::of(owners, amounts).settle_to(&self.charges, payers, first);
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
    ///
    /// # Errors
    /// It cannot be looked at for want of descriptors or memory, so that what it has would stay
    /// charged.
    pub fn victim(&self, at: (&Arc<Node>, &[u8])) -> Result<Option<Victim>> {
        match self.seen_victim(at) {
            Err(errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)) => Err(errno),
            seen => Ok(seen.ok()),
        }
    }

    fn seen_victim(&self, (parent, name): (&Arc<Node>, &[u8])) -> Result<Victim> {
        let reached = self.tree.reach(parent)?;
        let found = self.tree.find(reached.as_fd(), name)?;
        let fd = found.fd.try_clone().map_err(Errno::from)?;
        let is_own = self.tree.nodes.known(&found.id).is_none();
        let attr = self.tree.take(parent, name, found)?;
        let node = self.tree.nodes.get(attr.ino)?;
        if !is_own {
            self.tree.nodes.give_back(attr.ino, 1);
        }
        let victim = Victim { node, fd, is_own };
        self.was_found(&victim.node, parent);
        match self.touch(&victim.node).map(drop) {
            Ok(()) => Ok(victim),
            Err(errno) => {
                self.leave_alone(&victim);
                Err(errno)
            }
        }
    }

    /// After it: what nobody uses any more is free.
    pub fn lost(&self, victim: Victim) {
        if let Ok(mut touched) = self.touch(&victim.node) {
            self.settle(&mut touched, victim.fd.as_fd());
        }
        self.leave_alone(&victim);
    }

    fn leave_alone(&self, victim: &Victim) {
        if victim.is_own {
            self.give_back(victim.node.number);
        }
    }

    /// Gives back a reference that was taken for a look.
    pub fn give_back(&self, number: u64) {
        if let Some(gone) = self.tree.nodes.give_back(number, 1) {
            self.tree.descriptors.remove(number);
            self.given_back(&gone);
        }
    }

    /// The kernel refers to an inode no more: without a name it is gone.
    pub fn given_back(&self, gone: &GivenBack) {
        if !gone.is_nameless {
            return;
        }
        let node = &gone.node;
        if let Some(record) = node.charged.record().lock().as_mut() {
            record.settle_to(&self.charges, record.owners, [0; 2]);
            self.ended(&node.id);
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
    pub fn keep_project(
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

    /// Gives an inode one more name. It stays in its project.
    ///
    /// # Errors
    /// `EXDEV` if the directory is of another one; that it stays cannot be kept; those of `link`.
    pub fn link<T>(
        &self,
        node: &Arc<Node>,
        at: (&Arc<Node>, &[u8]),
        link: impl FnOnce() -> Done<T>,
    ) -> Done<T> {
        let parent = at.0;
        let _under_way = self.begin();
        let project = self.project(node);
        self.may_enter(project, parent)?;
        // Before there is the name: a crash may follow.
        let leave = self.keep_project(&node.id, project, parent)?;
        if self.moving.is_on() {
            self.moving.moved().add_link(&node.id, project);
        }
        let done = self.settled(node, link);
        let is_done = done.is_ok() || self.projects.any() && self.may_lead_to(at, &node.id);
        if !is_done {
            return done;
        }
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
        done
    }

    /// Whether a name that was refused is there all the same, or may be: a server below may have
    /// done what it has answered with an error.
    pub fn may_lead_to(&self, (parent, name): (&Arc<Node>, &[u8]), id: &Identity) -> bool {
        let found = self.tree.reach(parent);
        match found.and_then(|directory| self.tree.find(directory.as_fd(), name)) {
            Ok(found) => found.id == *id,
            // A line that is kept for nothing does no harm.
            Err(errno) => matches!(
                errno,
                Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EIO | Errno::ETIMEDOUT
            ),
        }
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
