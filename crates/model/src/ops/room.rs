//! Operations that would pass a limit.
//!
//! The model first does an operation as if there were room, and then looks who uses more than
//! before. So what is refused is seen by what it would have brought, whatever operation it was.

use std::collections::{BTreeMap, BTreeSet};

use libc::{EDQUOT, ENOSPC, O_APPEND};
use libc::{FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_PUNCH_HOLE};

use crate::data::{PAGE, PageCount};
use crate::limits::Payer;
use crate::model::{Answer, Model, joined};
use crate::node::{Node, NodeId};
use crate::op::{Fd, Op};
use crate::outcome::Outcome;

/// A number that is only known to lie between two others: of a page of zeros the model may not know
/// whether the filesystem keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Between {
    least: u64,
    most: u64,
}

/// Inodes and pages.
type Amounts = [Between; 2];

/// Order in which resources are asked.
const INODES: usize = 0;
const PAGES: usize = 1;

enum Verdict {
    Fits,
    Refused(i32),
    Unknown,
}

impl Model {
    /// What becomes of an operation that succeeded and led here from `before`: it stays, or is
    /// refused for want of room, or cannot be told.
    pub(crate) fn within_limits(
        &mut self,
        before: &Model,
        p: usize,
        op: &Op,
        done: Answer,
    ) -> Answer {
        let is_done = done
            .as_ref()
            .is_ok_and(|done| *done != Outcome::Unspecified);
        if self.limits.is_empty() || !is_done {
            return done;
        }
        match self.verdict(before, p, op) {
            Verdict::Fits => done,
            Verdict::Unknown => Ok(Outcome::Unspecified),
            Verdict::Refused(errno) => self.as_far_as_it_fits(before, p, op, errno),
        }
    }

    fn as_far_as_it_fits(&mut self, before: &Model, p: usize, op: &Op, mut errno: i32) -> Answer {
        let (fd, data, at) = match op {
            Op::Write { fd, data } => (*fd, data.bytes(), None),
            Op::WriteV { fd, parts } => (*fd, joined(parts), None),
            Op::WriteAt { fd, data, offset } => (*fd, data.bytes(), Some(*offset)),
            Op::WriteVAt { fd, parts, offset } => (*fd, joined(parts), Some(*offset)),
            // How far it gets depends on the size of its pieces.
            Op::Copy { .. } => return Ok(Outcome::Unspecified),
            _ => {
                self.go_back(before);
                return Err(errno);
            }
        };
        let begin = before.write_begins(p, fd, at)?;
        let mut best: Option<(Model, Answer)> = None;
        let mut len = 0;
        while len < data.len() {
            let to_the_page = (PAGE - (begin + len as u64) % PAGE) as usize;
            len = data.len().min(len + to_the_page);
            let mut trial = before.clone();
            let part = &data[..len];
            let answer = match at {
                None => trial.write(p, fd, part),
                Some(at) => trial.write_at(p, fd, part, at),
            };
            match trial.verdict(before, p, op) {
                Verdict::Fits => best = Some((trial, answer)),
                Verdict::Unknown => return Ok(Outcome::Unspecified),
                // Page by page, another may refuse than refuses the whole.
                Verdict::Refused(first) => {
                    errno = first;
                    break;
                }
            }
        }
        match best {
            Some((state, answer)) => {
                *self = state;
                answer
            }
            None => {
                self.go_back(before);
                Err(errno)
            }
        }
    }

    /// The file whose pages an allocation takes before it does anything, and how many.
    fn preallocated(&self, p: usize, op: &Op) -> Option<(NodeId, PageCount)> {
        let Op::Allocate {
            fd, offset, len, ..
        } = op
        else {
            return None;
        };
        let file = self.file(p, *fd).ok()?.node;
        let (first, end) = (*offset as u64 / PAGE, (*offset + *len) as u64);
        let pages = self.node(file).pages()?.absent(first..end.div_ceil(PAGE));
        Some((file, pages))
    }

    /// Where a write begins.
    fn write_begins(&self, p: usize, fd: Fd, at: Option<i64>) -> Answer<u64> {
        let file = self.file(p, fd)?;
        if file.flags & O_APPEND != 0 {
            return Ok(self.node(file.node).pages().map_or(0, |pages| pages.size()));
        }
        Ok(at.map_or(file.offset, |at| at as u64))
    }

    /// Nothing has changed, but that symbolic links on the way were read.
    fn go_back(&mut self, before: &Model) {
        let after = std::mem::replace(self, before.clone());
        for (id, node) in &mut self.nodes {
            if node.is_symlink() {
                node.atime = after.nodes[id].atime;
            }
        }
    }

    fn verdict(&self, before: &Model, p: usize, op: &Op) -> Verdict {
        if self.is_forced(p, op) || brings_nothing(op) {
            return Verdict::Fits;
        }
        let taken = before.preallocated(p, op);
        let used = before.used_by_all();
        let mut needs: BTreeMap<Payer, Amounts> = BTreeMap::new();
        let was_alive = before.alive();
        for id in self.alive() {
            let old = before.nodes.get(&id).filter(|_| was_alive.contains(&id));
            let pages = taken
                .filter(|(file, _)| *file == id)
                .map(|(_, pages)| pages);
            self.need(id, old, pages, &mut needs);
        }
        // Moving to other owners asks for pages first, everything else begins with the inode.
        let order = match op {
            Op::Chown { .. } | Op::ChownFd { .. } => [PAGES, INODES],
            _ => [INODES, PAGES],
        };
        for at in order {
            for (payer, need) in &needs {
                let Some(limit) = self.limit(*payer, at).filter(|_| need[at].most > 0) else {
                    continue;
                };
                let used = used.get(payer).copied().unwrap_or_default()[at];
                if used.most + need[at].most <= limit {
                    continue;
                }
                return match need[at].least > 0 && used.least + need[at].least > limit {
                    true => Verdict::Refused(errno(*payer)),
                    false => Verdict::Unknown,
                };
            }
        }
        Verdict::Fits
    }

    /// Root gives files away whatever the limits of those who get them say.
    fn is_forced(&self, p: usize, op: &Op) -> bool {
        match op {
            Op::SetProject { .. } => true,
            Op::Chown { .. } | Op::ChownFd { .. } => self.credentials(p).is_root(),
            _ => false,
        }
    }

    fn limit(&self, payer: Payer, at: usize) -> Option<u64> {
        if matches!(payer, Payer::User(0) | Payer::Group(0) | Payer::Project(0)) {
            return None;
        }
        let most = self.limits.get(&payer)?;
        Some([most.inodes, most.pages][at])
    }

    /// What node `id` takes that it did not take as `old`; `taken` says of its pages what the model
    /// cannot see.
    fn need(
        &self,
        id: NodeId,
        old: Option<&Node>,
        taken: Option<PageCount>,
        needs: &mut BTreeMap<Payer, Amounts>,
    ) {
        let node = self.node(id);
        let held = old.map(payers);
        for (nth, payer) in payers(node).into_iter().enumerate() {
            let same = held.is_some_and(|held| held[nth] == payer);
            let old = old.filter(|_| same);
            let inode = u64::from(old.is_none());
            let extra = extra_pages(node).saturating_sub(old.map_or(0, extra_pages));
            let pages = match (taken, node.pages(), old.and_then(Node::pages)) {
                (Some(taken), ..) => taken,
                (_, Some(pages), Some(old)) => pages.more_than(old),
                (_, Some(pages), None) => pages.count(),
                (_, None, _) => PageCount { least: 0, most: 0 },
            };
            let need = needs.entry(payer).or_default();
            need[INODES].add(inode, inode);
            need[PAGES].add(pages.least + extra, pages.most + extra);
        }
    }

    fn used_by_all(&self) -> BTreeMap<Payer, Amounts> {
        let mut usage = BTreeMap::new();
        for id in self.alive() {
            self.need(id, None, None, &mut usage);
        }
        usage
    }

    /// Inodes that somebody has a name, a descriptor or a directory of.
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

impl Between {
    fn add(&mut self, least: u64, most: u64) {
        self.least += least;
        self.most += most;
    }
}

/// Whether it only takes pages away or moves them.
fn brings_nothing(op: &Op) -> bool {
    let moves = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE;
    matches!(op, Op::Allocate { mode, .. } if mode & moves != 0)
}

fn payers(node: &Node) -> [Payer; 4] {
    [
        Payer::Volume,
        Payer::User(node.uid),
        Payer::Group(node.gid),
        Payer::Project(node.project),
    ]
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
