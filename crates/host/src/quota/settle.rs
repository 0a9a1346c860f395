//! Touching an inode before an operation, and settling it after.

use super::Quotas;
use super::amounts::Told;
use super::charged::{ChargedLock, Record};
use crate::attributes;
use crate::identity::Identity;
use crate::node::Node;
use crate::pseudo::pseudo_filesystem;
use hearth::{Amounts, Attr, Caller, Errno, Kind, Owners, Result};
use hearth_sync::lock::LockGuard;
use hearth_sync::primitive::{Arc, thread};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::Statx;
use std::time::Duration;

/// An inode whose record is locked for an operation.
pub struct Touched<'n> {
    pub node: &'n Arc<Node>,
    guard: LockGuard<'n, ChargedLock, Option<Record>>,
}

/// How often a refused charge is tried again while inodes without a name are held.
const FORGET_LOOKS: u32 = 10;
const FORGET_PAUSE: Duration = Duration::from_millis(1);

const TOUCHED: &str = "a touched inode has a record";

impl Touched<'_> {
    /// The record.
    pub fn record(&mut self) -> &mut Record {
        self.guard.as_mut().expect(TOUCHED)
    }
}

impl Quotas {
    /// Locks the record of an inode, which is made of what the host says if there is none.
    ///
    /// # Errors
    /// `ESTALE` if the inode is gone.
    pub fn touch<'n>(&self, node: &'n Arc<Node>) -> Result<Touched<'n>> {
        // Before the lock of this record: that of another is taken for it.
        let late = self.take_late(node);
        let mut guard = node.charged.record().lock();
        if let Some(held) = late {
            match guard.as_ref() {
                // Another operation was first, and took what is told for what is charged.
                Some(record) => {
                    self.charges.free(held.owners, held.amounts);
                    self.charges.force(record.began.0, record.began.1);
                }
                None => {
                    *guard = Some(held);
                    self.late.add(node);
                }
            }
        }
        if guard.is_none() {
            let reached = self.tree.reach(node)?;
            let stat = self.stat(reached.as_fd(), node.kind, None)?;
            let (owners, amounts) = self.told(node, reached.as_fd(), &stat);
            if amounts != [0; 2] {
                self.counting.count(&node.id, || {
                    self.charges.force(owners, amounts);
                });
            }
            *guard = Some(Record::of(owners, amounts));
        }
        Ok(Touched { node, guard })
    }

    /// Charges owners for blocks and inodes.
    ///
    /// # Errors
    /// `EDQUOT`, `ENOSPC`: also after a while for what has no name and is used no more, of which
    /// the kernel tells by a FORGET behind the last use.
    pub fn charge(&self, owners: Owners, amounts: Amounts) -> Result<()> {
        let mut charged = self.charges.charge(owners, amounts);
        for _ in 0..FORGET_LOOKS {
            if charged.is_ok() || !self.tree.nodes.has_held() {
                break;
            }
            thread::sleep(FORGET_PAUSE);
            charged = self.charges.charge(owners, amounts);
        }
        charged
    }

    /// Charges or frees the difference to what the host says now.
    pub fn settle(&self, touched: &mut Touched<'_>, fd: BorrowedFd<'_>) {
        let node = touched.node;
        let gone = (touched.record().owners, [0; 2]);
        let least = touched.record().take_least();
        let (owners, amounts) = match self.stat(fd, node.kind, least) {
            Ok(stat) => match self.told(node, fd, &stat) {
                gone @ (_, [0, 0]) => gone,
                (owners, told) => (owners, touched.record().believed(told, stat.stx_size)),
            },
            Err(Errno::ESTALE) => gone,
            // What does not answer has given nothing back.
            Err(_) => return,
        };
        if amounts == [0; 2] {
            self.ended(&node.id);
        }
        touched.record().settle_to(&self.charges, owners, amounts);
    }

    /// The inode is gone: another one may have its number.
    pub fn ended(&self, id: &Identity) {
        self.counting.forget(id);
        self.projects.unset(id);
    }

    /// Runs an operation that allocates nothing and frees at most `spare` blocks, which may be
    /// unknown, and settles the inode.
    ///
    /// # Errors
    /// `ESTALE` if the inode is gone, and those of `run`.
    pub fn freeing<T>(
        &self,
        node: &Arc<Node>,
        spare: impl FnOnce() -> Option<u64>,
        run: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut touched = self.touch(node)?;
        touched.record().spare = spare();
        touched.record().known.forget();
        let done = run();
        self.settle_touched(&mut touched);
        done
    }

    /// Settles an inode that an operation without a lock on it has changed.
    pub fn settle_node(&self, node: &Arc<Node>) {
        if let Ok(mut touched) = self.touch(node) {
            self.settle_touched(&mut touched);
        }
    }

    /// Settles an inode if it has a record.
    pub fn settle_if_charged(&self, node: &Arc<Node>) {
        if !self.has_record(node) {
            return;
        }
        let Ok(mut touched) = self.touch(node) else {
            return;
        };
        // The kernel may have forgotten this node, and the inode may have come back as another one:
        // then the record of that has all of it.
        let known = self.tree.nodes.known(&node.id);
        if known.is_none_or(|known| Arc::ptr_eq(&known, node)) {
            self.settle_touched(&mut touched);
        }
    }

    fn settle_touched(&self, touched: &mut Touched<'_>) {
        let node = touched.node;
        match self.tree.reach(node) {
            Ok(reached) => self.settle(touched, reached.as_fd()),
            Err(Errno::ESTALE) => {
                let owners = touched.record().owners;
                touched.record().settle_to(&self.charges, owners, [0; 2]);
                // Its project is kept: it may only have been renamed behind the mount.
                self.counting.forget(&node.id);
            }
            Err(_) => {}
        }
    }

    /// The mount has ended, and with it what was still open: a kernel that was cut off tells of no
    /// close. A file without a name goes with this process.
    pub fn close_all(&self) {
        for node in self.tree.nodes.all() {
            if !is_used(&node) || !self.has_record(&node) {
                continue;
            }
            let Ok(reached) = self.tree.reach(&node) else {
                continue;
            };
            let Ok(mut touched) = self.touch(&node) else {
                continue;
            };
            match attributes::stat(reached.as_fd()) {
                Ok(stat) if stat.stx_nlink == 0 => {
                    let owners = touched.record().owners;
                    touched.record().settle_to(&self.charges, owners, [0; 2]);
                    self.ended(&node.id);
                }
                _ => self.settle(&mut touched, reached.as_fd()),
            }
        }
    }

    fn has_record(&self, node: &Arc<Node>) -> bool {
        node.charged.record().lock().is_some()
    }

    /// What the host says that an inode uses, and who pays.
    fn told(&self, node: &Arc<Node>, fd: BorrowedFd<'_>, stat: &Statx) -> (Owners, Amounts) {
        let owners = Owners {
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            project: self.project(node),
        };
        let is_gone = stat.stx_nlink == 0 && !is_used(node);
        match is_gone || self.is_pseudo(&node.id, || pseudo_filesystem(fd).is_some()) {
            true => (owners, [0; 2]),
            false => (owners, self.amounts(Told::by(stat, node.kind), Some(fd))),
        }
    }

    /// The owners of what `caller` makes in a directory.
    ///
    /// # Errors
    /// `ESTALE` if the directory is gone.
    pub fn owners_in(&self, caller: &Caller<'_>, parent: &Arc<Node>) -> Result<Owners> {
        let reached = self.tree.reach(parent)?;
        let stat = attributes::stat(reached.as_fd())?;
        let own = || rustix::process::getegid().as_raw();
        let (uid, gid) = match self.tree.rights.switches() {
            true => (caller.uid, caller.gid),
            false => (rustix::process::geteuid().as_raw(), own()),
        };
        let inherits = u32::from(stat.stx_mode) & libc::S_ISGID != 0;
        Ok(Owners {
            uid,
            gid: if inherits { stat.stx_gid } else { gid },
            project: self.membership(parent).of_new(),
        })
    }

    /// Makes the reservation of a new inode the charge of what was made. `before`: the project that
    /// a walk has moved it from already.
    pub fn adopt(
        &self,
        node: &Arc<Node>,
        reserved: (Owners, Amounts),
        attr: &Attr,
        before: Option<u32>,
    ) {
        let (owners, amounts) = reserved;
        let mut made = Record::of(owners, amounts);
        let mut record = node.charged.record().lock();
        let real = Owners {
            uid: attr.uid,
            gid: attr.gid,
            project: self.project(node),
        };
        let reached = || {
            self.tree
                .reach(node)
                .is_ok_and(|at| pseudo_filesystem(at).is_some())
        };
        let told = match self.is_pseudo(&node.id, reached) {
            true => [0; 2],
            false => {
                let asks = self.is_xfs && attr.blocks > 0;
                let at = asks.then(|| self.tree.reach(node).ok()).flatten();
                self.amounts(Told::by_attr(attr), at.as_ref().map(AsFd::as_fd))
            }
        };
        // That walk charged the new project, and took as much from the old one.
        let paid = |owners: Owners| Owners {
            project: before.unwrap_or(owners.project),
            ..owners
        };
        if node.kind == Kind::Directory {
            self.counting.made(&node.id);
        }
        let is_counted = self.counting.is_on() && !self.counting.count(&node.id, || {});
        match &*record {
            // Whoever counted it has charged it.
            _ if is_counted => self.charges.free(owners, amounts),
            Some(first) => {
                let (owners, amounts) = first.began;
                made.settle_to(&self.charges, paid(owners), amounts);
            }
            None => made.settle_to(&self.charges, paid(real), told),
        }
        if record.is_none() {
            *record = Some(Record::of(real, told));
        }
    }
}

/// Whether somebody may use an inode without a name: it is open, or held until the kernel gives it
/// back, which it does not while a descriptor by `O_PATH` refers to it.
pub fn is_used(node: &Node) -> bool {
    node.is_open() || node.may_reopen()
}
