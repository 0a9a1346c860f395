//! Operations that would exceed a limit.
//!
//! The model first applies an operation as if there were no limits, and then compares usage before
//! and after. So a refusal is recognised by what the operation would have added, whichever it was.
//!
//! Pages of zeros that were preallocated or copied use space like any other.

use std::collections::BTreeSet;

use libc::{EDQUOT, ENOSPC, EXDEV, O_APPEND, O_NOATIME};

use crate::data::PAGE;
use crate::model::{Answer, Model, joined};
use crate::node::{Node, NodeId};
use crate::op::{Fd, Op};
use crate::outcome::Outcome;
use crate::payer::{Payer, Place, Resource, Usage};
use crate::quota::{Ledger, Met, Reason};
use crate::rule::Rule;

/// A limit that refuses a payer with the usage `used`.
struct Refusal {
    place: Place,
    used: u64,
    reason: Reason,
}

impl Model {
    /// Applies a rule for quotas; returns false if it is invalid or there are no quotas.
    pub fn rule(&mut self, rule: &Rule) -> bool {
        let usage = self.charged();
        let quota = self.quota.as_mut();
        quota.is_some_and(|quota| quota.put(rule, &usage))
    }

    /// Returns the quota report, if there are quotas.
    pub fn ledger(&self) -> Ledger {
        let quota = self.quota.as_ref();
        quota.map_or_else(Ledger::new, |quota| quota.ledger(&self.charged()))
    }

    /// Decides on an operation that returned `done` and led here from `before`: it stays, or is
    /// refused for lack of space.
    pub(crate) fn within_limits(
        &mut self,
        before: &Model,
        p: usize,
        op: &Op,
        done: Answer,
    ) -> Answer {
        if self.quota.is_none() {
            return done;
        }
        let is_done = matches!(&done, Ok(done) if *done != Outcome::Unspecified);
        if done == Err(EXDEV) {
            self.meet(Met::OtherProject);
        }
        if !is_done {
            return done;
        }
        let answer = match self.refusal(before, p, op) {
            Some(refusal) => self.as_far_as_it_fits(before, p, op, &done, refusal),
            None => {
                self.meet_growth(before);
                done
            }
        };
        self.settle();
        answer
    }

    fn as_far_as_it_fits(
        &mut self,
        before: &Model,
        p: usize,
        op: &Op,
        done: &Answer,
        mut refusal: Refusal,
    ) -> Answer {
        let mut reached: Option<(Model, Answer)> = None;
        for len in before.stops(p, op, done) {
            let last = reached.as_ref().map_or(before, |(model, _)| model);
            let mut trial = before.clone();
            let answer = trial.part(p, op, len as usize);
            trial.quota.clone_from(&last.quota);
            if let Some(first) = trial.refusal(last, p, op) {
                // Page by page, another payer may refuse than for the whole.
                refusal = first;
                break;
            }
            trial.settle();
            reached = Some((trial, answer));
        }
        if let Some((state, answer)) = reached {
            *self = state;
            self.meet(Met::Partly);
            return answer;
        }
        self.go_back(before, p, op);
        if let Some(quota) = &mut self.quota {
            quota.meet_refusal(refusal.place, refusal.used, refusal.reason);
        }
        Err(errno(refusal.place.0))
    }

    /// Returns the state of a page-by-page operation after each page; nothing for others.
    fn stops(&self, p: usize, op: &Op, done: &Answer) -> Vec<u64> {
        let (fd, at) = match op {
            Op::Write { fd, .. } | Op::WriteV { fd, .. } => (*fd, None),
            Op::WriteAt { fd, offset, .. } | Op::WriteVAt { fd, offset, .. } => {
                (*fd, Some(*offset))
            }
            Op::Copy { to, to_at, .. } => (*to, *to_at),
            _ => return Vec::new(),
        };
        let (Ok(begin), Ok(Outcome::Number(all))) = (self.begins(p, fd, at), done) else {
            return Vec::new();
        };
        let mut stops = Vec::new();
        let mut len = 0;
        while len < *all {
            len = (*all).min(len + PAGE - (begin + len) % PAGE);
            stops.push(len);
        }
        stops
    }

    /// Returns where a write or a copy begins.
    fn begins(&self, p: usize, fd: Fd, at: Option<i64>) -> Answer<u64> {
        let file = self.file(p, fd)?;
        if file.flags & O_APPEND != 0 {
            return Ok(self.node(file.node).size());
        }
        Ok(at.map_or(file.offset, |at| at as u64))
    }

    /// Returns the first `len` bytes of a write or a copy.
    fn part(&mut self, p: usize, op: &Op, len: usize) -> Answer {
        match op {
            Op::Write { fd, data } => self.write(p, *fd, &data.bytes()[..len]),
            Op::WriteV { fd, parts } => self.write(p, *fd, &joined(parts)[..len]),
            Op::WriteAt { fd, data, offset } => {
                self.write_at(p, *fd, &data.bytes()[..len], *offset)
            }
            Op::WriteVAt { fd, parts, offset } => {
                self.write_at(p, *fd, &joined(parts)[..len], *offset)
            }
            Op::Copy {
                from,
                from_at,
                to,
                to_at,
                flags,
                ..
            } => self.copy(p, (*from, *from_at), (*to, *to_at), len, *flags),
            _ => unreachable!("nothing else stops on the way"),
        }
    }

    /// Returns whether an operation moves the access time of a symbolic link on its way. It does so
    /// also if it fails behind the link.
    pub fn reads_links(&self, p: usize, op: &Op) -> bool {
        self.reads(p, op, Node::is_symlink)
    }

    /// Returns whether an operation moves any access time.
    pub fn reads_anything(&self, p: usize, op: &Op) -> bool {
        self.reads(p, op, |_| true)
    }

    fn reads(&self, p: usize, op: &Op, counts: impl Fn(&Node) -> bool) -> bool {
        let mut after = self.clone();
        after.apply(p, op);
        let nodes = self.nodes.iter().filter(|(_, node)| counts(node));
        nodes
            .filter_map(|(id, node)| Some((node, after.nodes.get(id)?)))
            .any(|(before, after)| before.atime != after.atime)
    }

    /// Undoes all changes, except that symbolic links on the way, and the source of a copy, were
    /// read.
    fn go_back(&mut self, before: &Model, p: usize, op: &Op) {
        let after = std::mem::replace(self, before.clone());
        for (id, node) in &mut self.nodes {
            if node.is_symlink() {
                node.atime = after.nodes[id].atime;
            }
        }
        if let Op::Copy { from, .. } = op
            && let Ok(source) = self.file(p, *from).cloned()
            && source.flags & O_NOATIME == 0
        {
            self.node_mut(source.node).accessed();
        }
    }

    /// Returns who refuses the step from `before` to here.
    fn refusal(&self, before: &Model, p: usize, op: &Op) -> Option<Refusal> {
        let quota = before.quota.as_ref()?;
        if self.is_forced(p, op) {
            return None;
        }
        let usage = before.charged();
        let needs = self.needs(before);
        // A change of owner reserves pages first, everything else the inode.
        let order = match op {
            Op::Chown { .. } | Op::ChownFd { .. } => [Resource::Bytes, Resource::Inodes],
            _ => [Resource::Inodes, Resource::Bytes],
        };
        order.into_iter().find_map(|resource| {
            needs.iter().find_map(|(&payer, need)| {
                let place = (payer, resource);
                let used = usage.get(&payer).map_or(0, |used| used[resource as usize]);
                let reason = quota.refuses(place, used, need[resource as usize])?;
                Some(Refusal {
                    place,
                    used,
                    reason,
                })
            })
        })
    }

    /// Root gives files away whatever the limits of the new owners.
    fn is_forced(&self, p: usize, op: &Op) -> bool {
        match op {
            Op::SetProject { .. } => true,
            Op::Chown { .. } | Op::ChownFd { .. } => self.credentials(p).is_root(),
            _ => false,
        }
    }

    /// Returns what each payer has to pay in addition to `before`.
    fn needs(&self, before: &Model) -> Usage {
        let was_alive = before.alive();
        let mut needs = Usage::new();
        for id in self.alive() {
            let node = self.node(id);
            let old = before.nodes.get(&id).filter(|_| was_alive.contains(&id));
            for (nth, payer) in payers(node).into_iter().enumerate() {
                let paid = old.filter(|old| payers(old)[nth] == payer);
                let both = held(node).into_iter().zip(paid.map_or([0; 2], held));
                let need = needs.entry(payer).or_default();
                for (need, (has, had)) in need.iter_mut().zip(both) {
                    *need += has.saturating_sub(had);
                }
            }
        }
        needs
    }

    /// Returns what each payer pays for.
    fn charged(&self) -> Usage {
        let mut usage = Usage::new();
        for id in self.alive() {
            let node = self.node(id);
            for payer in payers(node) {
                let used = usage.entry(payer).or_default();
                for (used, more) in used.iter_mut().zip(held(node)) {
                    *used += more;
                }
            }
        }
        usage
    }

    /// Updates deadlines for the current usage.
    fn settle(&mut self) {
        let usage = self.charged();
        if let Some(quota) = &mut self.quota {
            quota.settle(&usage);
        }
    }

    fn meet(&mut self, met: Met) {
        if let Some(quota) = &mut self.quota {
            quota.meet(met);
        }
    }

    fn meet_growth(&mut self, before: &Model) {
        let usage = before.charged();
        for (payer, need) in self.needs(before) {
            for resource in Resource::ALL {
                let at = resource as usize;
                let used = usage.get(&payer).map_or(0, |used| used[at]);
                if let Some(quota) = &mut self.quota {
                    quota.meet_growth((payer, resource), used, need[at]);
                }
            }
        }
    }

    /// Returns inodes that have a name, a descriptor or a process in them.
    fn alive(&self) -> BTreeSet<NodeId> {
        let named = self.nodes.iter().filter(|(_, node)| node.nlink > 0);
        let mut alive: BTreeSet<NodeId> = named.map(|(id, _)| *id).collect();
        for process in self.processes.iter().flatten() {
            alive.extend([process.cwd, process.root]);
            let files = process
                .fds
                .values()
                .filter_map(|slot| self.files.get(&slot.file));
            alive.extend(files.map(|file| file.node));
        }
        alive
    }
}

fn payers(node: &Node) -> [Payer; 4] {
    [
        Payer::Volume,
        Payer::User(node.uid),
        Payer::Group(node.gid),
        Payer::Project(node.project),
    ]
}

/// Returns the usage of an inode, by [`Resource`].
fn held(node: &Node) -> [u64; 2] {
    let pages = node.pages().map_or(0, |pages| pages.allocated());
    [(pages + extra_pages(node)) * PAGE, 1]
}

fn errno(payer: Payer) -> i32 {
    match payer {
        Payer::Volume | Payer::Project(_) => ENOSPC,
        Payer::User(_) | Payer::Group(_) => EDQUOT,
    }
}

/// Names and values of up to 256 bytes are part of the inode; more of them fill pages.
fn extra_pages(node: &Node) -> u64 {
    let plain = node.xattrs.iter();
    let plain: usize = plain.map(|(name, value)| name.len() + value.len()).sum();
    let acls = [
        ("system.posix_acl_access", &node.acl),
        ("system.posix_acl_default", &node.default_acl),
    ];
    let acls = acls.into_iter().filter_map(|(name, acl)| {
        let value = acl.as_ref()?.serialise();
        Some(name.len() + value.len())
    });
    let bytes = (plain + acls.sum::<usize>()) as u64;
    match bytes {
        0..=256 => 0,
        more => more.div_ceil(PAGE),
    }
}
