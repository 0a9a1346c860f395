//! What is used: found by a walk, kept over a clean end, compared with the ledger.

use super::Quotas;
use super::amounts::Told;
use super::settle::is_used;
use super::walk::{Seen, Start};
use crate::attributes;
use crate::node::Node;
use hearth::{
    Amounts, BLOCK, CountedElsewhere, Errno, Kind, Owners, QuotaCheck, Result, SetProjectError,
    TreeChange,
};
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::Ordering::Relaxed;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, makedev, openat};
use std::collections::{BTreeMap, HashSet};

/// What a walk has found.
#[derive(Default)]
struct Sums {
    owners: BTreeMap<Owners, Amounts>,
    /// Inodes of several names.
    linked: HashSet<(u64, u64)>,
    inodes: u64,
}

impl Quotas {
    /// Counts the tree, in portions of whoever comes first.
    ///
    /// # Errors
    /// Those of the walk.
    pub fn count_all(&self) -> Result<()> {
        let root = self.tree.nodes.root();
        let start = self.start(self.tree.root(), root);
        self.walk(start, &mut |seen| self.count_seen(seen))?;
        self.count_moved()
    }

    /// Counts directories that were renamed during the walk, perhaps to where it had been.
    ///
    /// # Errors
    /// Those of the walk.
    pub fn count_moved(&self) -> Result<()> {
        loop {
            let moved = self.counting.take_moved();
            if moved.is_empty() {
                return Ok(());
            }
            for node in moved {
                if let Ok(reached) = self.tree.reach(&node) {
                    let start = self.start(reached.as_fd(), &node);
                    self.walk(start, &mut |seen| self.count_seen(seen))?;
                }
            }
        }
    }

    fn count_seen(&self, seen: &Seen<'_>) -> Result<()> {
        let (owners, amounts) = self.seen_amounts(seen);
        let is_new = self.counting.count_key(key(seen), || {
            self.charges.force(owners, amounts);
        });
        self.counted.fetch_add(u64::from(is_new), Relaxed);
        Ok(())
    }

    /// Owners and amounts of what a walk has come to.
    pub fn seen_amounts(&self, seen: &Seen<'_>) -> (Owners, Amounts) {
        let owners = Owners {
            uid: seen.stat.stx_uid,
            gid: seen.stat.stx_gid,
            project: seen.project,
        };
        let told = Told::by(seen.stat, seen.kind);
        let is_less = told.all() < told.size.div_ceil(BLOCK);
        if seen.kind != Kind::File || (!is_less && !self.is_xfs) {
            return (owners, self.amounts(told, seen.fd));
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (directory, name) = seen.at;
        let opened = match seen.fd {
            Some(_) => None,
            None => openat(directory, name, flags, Mode::empty()).ok(),
        };
        let Some(fd) = seen.fd.or(opened.as_ref().map(AsFd::as_fd)) else {
            return (owners, self.amounts(told, None));
        };
        let stat = self.without_dip(*seen.stat, fd, seen.kind, None);
        (owners, self.amounts(Told::by(&stat, seen.kind), Some(fd)))
    }

    /// A walk from here.
    fn start<'a>(&self, top: BorrowedFd<'a>, node: &Arc<Node>) -> Start<'a> {
        Start {
            top,
            member: self.membership(node),
            // Of what was set each inode has to be asked.
            opens_all: self.projects.any(),
        }
    }

    fn sum(&self) -> Result<Sums> {
        let mut sums = Sums::default();
        let late = self.late.by_key();
        let root = self.tree.nodes.root();
        self.walk(self.start(self.tree.root(), root), &mut |seen| {
            let is_linked = seen.kind != Kind::Directory && seen.stat.stx_nlink > 1;
            if is_linked && !sums.linked.insert(key(seen)) {
                return Ok(());
            }
            // What stays charged until it is told is no difference.
            let charged = late.get(&key(seen)).and_then(|node| {
                let record = *node.charged.record().lock();
                record.filter(|record| record.amounts != [0; 2])
            });
            let (owners, amounts) = match charged {
                Some(record) => (record.owners, record.amounts),
                None => self.seen_amounts(seen),
            };
            sums.add(owners, amounts);
            Ok(())
        })?;
        Ok(sums)
    }

    /// Charges what the host has allocated late, with the write-back of what was written before.
    fn settle_known(&self) {
        for node in self.tree.nodes.all() {
            self.learn_again(&node);
            self.settle_if_charged(&node);
        }
    }

    /// Inodes without a name that are open.
    fn sum_nameless(&self, sums: &mut Sums) -> u64 {
        let mut nameless = 0;
        for node in self.tree.nodes.all() {
            if !is_used(&node) {
                continue;
            }
            let Ok(mut touched) = self.touch(&node) else {
                continue;
            };
            let Ok(reached) = self.tree.reach(&node) else {
                continue;
            };
            self.settle(&mut touched, reached.as_fd());
            if attributes::stat(reached.as_fd()).is_ok_and(|stat| stat.stx_nlink == 0) {
                let record = touched.record();
                sums.add(record.owners, record.amounts);
                nameless += 1;
            }
        }
        nameless
    }

    /// Makes the ledger say what was found.
    fn repair(&self, ledger: &[(Owners, Amounts)], found: &BTreeMap<Owners, Amounts>) {
        let mut more = found.clone();
        for (owners, has) in ledger {
            let is = more.remove(owners).unwrap_or_default();
            let less = [0, 1].map(|at| has[at].saturating_sub(is[at]));
            self.charges.free(*owners, less);
            let missing = [0, 1].map(|at| is[at].saturating_sub(has[at]));
            self.charges.force(*owners, missing);
        }
        for (owners, amounts) in more {
            self.charges.force(owners, amounts);
        }
    }
}

impl Sums {
    fn add(&mut self, owners: Owners, [blocks, inodes]: Amounts) {
        let sum = self.owners.entry(owners).or_default();
        sum[0] += blocks;
        sum[1] += inodes;
        self.inodes += 1;
    }
}

fn key(seen: &Seen<'_>) -> (u64, u64) {
    let dev = makedev(seen.stat.stx_dev_major, seen.stat.stx_dev_minor);
    (dev, seen.stat.stx_ino)
}

impl CountedElsewhere for Quotas {
    fn check(&self, repair: bool) -> Result<QuotaCheck> {
        if self.counting.is_on() {
            return Err(Errno::EAGAIN);
        }
        self.settle_known();
        let mut sums = self.sum()?;
        let nameless = self.sum_nameless(&mut sums);
        let ledger = self.charges.by_owners();
        let found = sums.owners.iter().map(|(owners, sum)| (*owners, *sum));
        let check = QuotaCheck::compared(sums.inodes, nameless, &ledger, found);
        if repair {
            self.repair(&ledger, &sums.owners);
        }
        Ok(check)
    }

    fn set_project(
        &self,
        ino: u64,
        project: u32,
    ) -> std::result::Result<TreeChange, SetProjectError> {
        self.enter_project(ino, project)
    }

    fn project_of(&self, ino: u64) -> u32 {
        let Ok(node) = self.tree.nodes.get(ino) else {
            return 0;
        };
        // A thread that serves requests asks, so no system call is made.
        match self.tree.keeps_projects() {
            true => node.charged.project().unwrap_or(0),
            false => self.project(&node),
        }
    }
}
