//! Keeping the memory budget: objects that nobody refers to go back to a home that can give them
//! again.
//!
//! A sweep walks the inode table by number from where the last one stopped, so no list and no lock
//! is shared with lookups (C9). Pages go first, then names of directories, then inodes without
//! reference. What is on its way to a home that panics stays here, as with one that fails.

use super::absent::{self, may_wait};
use super::core::{Core, INODE_BYTES, PAGE_BYTES};
use super::ending::Told;
use super::load::record_of;
use super::resident;
use super::stop::Load;
use crate::data::Data;
use crate::errno::Result;
use crate::home::Change;
use crate::inode::{Node, NodeRef};
use crate::stats::Event;
use hearth_sync::epoch::{self, Guard, pin};
use hearth_sync::primitive::atomic::Ordering::Relaxed;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Inodes that one sweep step looks at before it lets go of the epoch.
const STEP: usize = 64;
/// Of so many parts of the budget, one more may be in memory before operations help.
const SLACK: u64 = 8;

/// What a step of a sweep did.
pub(super) struct Swept {
    /// Bytes.
    pub won: u64,
    /// It came to the end of the table.
    pub wrapped: bool,
}

/// What is left to do for an inode when its locks are given back.
enum Rest {
    Nothing,
    /// A reference is to be given back; and a home has panicked.
    Held(NodeRef, Option<Box<dyn Any + Send>>),
    /// It had lost its last name and ended, and the home was told: what it used is to be given
    /// back.
    Ended(Told),
}

impl Core {
    /// Reclaims if there is a budget and it is passed. Called before an operation, with nothing
    /// held.
    ///
    /// Where the background has a thread it is left to that, until it is an eighth of the budget
    /// behind: then the operation pays twice what its core brought in or, if it may not wait, lacks
    /// room (docs/design/scheduler.md, 14).
    ///
    /// # Errors
    /// `ABSENT`, see [`crate::without_waiting`].
    #[inline]
    pub(crate) fn keep_budget(&self) -> Result<()> {
        match self.resident.budget() {
            0 => Ok(()),
            budget => self.keep_within(budget),
        }
    }

    fn keep_within(&self, budget: u64) -> Result<()> {
        if !self.home.evictable() {
            return Ok(());
        }
        let Some(excess) = self.resident.ask() else {
            return Ok(());
        };
        let wanted = match self.background.press() {
            true if excess.ahead <= budget / SLACK || self.background.is_stuck() => return Ok(()),
            true => excess.over.min(2 * excess.grown),
            false => excess.over,
        };
        match may_wait() {
            true => {
                self.reclaim(wanted);
                Ok(())
            }
            false => Err(absent::leave(Load::Room(wanted))),
        }
    }

    /// Whether more has come in than the background may win back at its pace.
    pub(super) fn is_behind(&self) -> bool {
        let slack = self.resident.budget() / resident::SLACK;
        self.home.evictable() && self.resident.ahead() > slack && !self.background.is_stuck()
    }

    /// Bytes in memory beyond the budget that could be won back.
    pub(super) fn over_budget(&self) -> u64 {
        match self.home.evictable() {
            true => self.resident.over(),
            false => 0,
        }
    }

    /// Drops what can be dropped until `bytes` are won or the whole table was seen twice; answers
    /// what was won.
    pub(super) fn reclaim(&self, bytes: u64) -> u64 {
        let (mut won, mut wraps) = (0, 0);
        while self.home.evictable() && won < bytes && wraps < 3 {
            let step = self.sweep(bytes - won);
            won += step.won;
            wraps += u32::from(step.wrapped);
        }
        self.background.set_stuck(won < bytes);
        self.resident.lower_mark();
        won
    }

    /// One step of a sweep: goes on from where the last one stopped, until `bytes` are won.
    pub(super) fn sweep(&self, bytes: u64) -> Swept {
        let g = pin();
        // Relaxed: a place to go on from; two sweeps at one place do no harm.
        let from = self.sweep.load(Relaxed);
        let mut seen = Vec::with_capacity(STEP);
        self.inodes.scan(from, &g, |node| {
            seen.push(node.number());
            seen.len() < STEP
        });
        let wrapped = seen.len() < STEP;
        let next = match seen.last() {
            Some(last) if !wrapped => last + 1,
            _ => 0,
        };
        self.sweep.store(next, Relaxed);
        drop(g);
        let mut won = 0;
        for ino in seen {
            if won >= bytes {
                break;
            }
            // With nothing pinned: what is left for later is what was written meanwhile.
            self.save_pages(ino);
            let g = pin();
            if let Some(node) = self.inodes.get(ino, &g) {
                won += self.evict(node, bytes - won, &g);
            }
        }
        Swept { won, wrapped }
    }

    /// Drops what `node` has in memory, and `node` if nobody refers to it, until about `bytes` are
    /// won; answers what was. Failing homes keep their objects here.
    fn evict(&self, node: &Node, bytes: u64, g: &Guard) -> u64 {
        if node.meta.is_nameless() || crate::is_control(node.number()) {
            return 0;
        }
        let (won, rest) = match (node.data(), node.directory()) {
            (Some(data), _) => self.evict_file(node, data, bytes, g),
            (None, Some(directory)) => {
                directory.evict(g);
                self.evict_node(node, g)
            }
            (None, None) => self.evict_node(node, g),
        };
        match rest {
            Rest::Nothing => won,
            Rest::Ended(told) => won + self.finish(node, told, g),
            Rest::Held(held, panic) => {
                self.release(held, g);
                match panic {
                    Some(panic) => resume_unwind(panic),
                    None => won,
                }
            }
        }
    }

    fn evict_file(&self, node: &Node, data: &Data, bytes: u64, g: &Guard) -> (u64, Rest) {
        // Nobody ends it, and gives its number to another, while its pages are on their way.
        let Some(held) = node.hold() else {
            return (0, Rest::Nothing);
        };
        // Closed until the inode is gone or stays: a writer between its last write-back and its end
        // would be lost.
        let _still = (node.meta.change.lock(), node.meta.growth.lock());
        let _closed = node.gate.write(node.percpu());
        match catch_unwind(AssertUnwindSafe(|| self.write_back(node))) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return (0, Rest::Held(held, None)),
            Err(panic) => return (0, Rest::Held(held, Some(panic))),
        }
        let want = bytes.div_ceil(PAGE_BYTES as u64);
        let dropped = data.evict(want, g);
        let won = dropped as i64 * PAGE_BYTES;
        self.resident.add(-won);
        if dropped >= want {
            return (won as u64, Rest::Held(held, None));
        }
        drop(held);
        let (more, rest) = self.evict_node(node, g);
        (won as u64 + more, rest)
    }

    /// Drops the inode itself, and answers the bytes. Its record is written when nobody can change
    /// it any more, and nobody can load it before that (`homing`); if the home fails, the inode
    /// comes back from the same record, without its pages.
    fn evict_node(&self, node: &Node, g: &Guard) -> (u64, Rest) {
        if node.number() == crate::number::ROOT {
            return (0, Rest::Nothing);
        }
        let _one = self.homing(node.number()).lock_guard();
        let pages = node.data().map_or(0, |data| data.resident(g)) as i64 * PAGE_BYTES;
        if !self.inodes.evict(node, g) {
            return (0, Rest::Nothing);
        }
        // Whoever took its last name, or gave the last reference back, looks for it after that and
        // finds none: its end is ours.
        if node.meta.is_nameless() {
            self.count_nameless(node);
            return (0, Rest::Ended(self.tell_of_end(node)));
        }
        let record = record_of(node, g);
        let commit = || self.home.commit(&[Change::Put(&record)]);
        let answer = catch_unwind(AssertUnwindSafe(commit));
        epoch::account(pages as usize, g);
        self.resident.add(-pages);
        if matches!(answer, Ok(Ok(()))) {
            self.stats.event(Event::Reclaimed);
            self.resident.add(-INODE_BYTES);
            return ((INODE_BYTES + pages) as u64, Rest::Nothing);
        }
        // Its pages were saved before; their list comes from this inode, not from the failing home.
        let known = node.data().map_or_else(Vec::new, |data| data.allocated(g));
        let back = self.restore(&record, known, g);
        let (back, _) = back.expect("the number is this inode's until the home has its record");
        (pages as u64, Rest::Held(back, answer.err()))
    }

    /// Writes the dirty pages of a file back. The caller has excluded whoever may not run along.
    fn write_back(&self, node: &Node) -> Result<()> {
        let Some(data) = node.data().filter(|_| self.home.evictable()) else {
            return Ok(());
        };
        data.flush(&mut |index, bytes| self.home.write_page(node.number(), index, bytes))?;
        Ok(())
    }

    /// Writes one inode and its pages back. Nothing may be pinned: a home takes its time.
    pub(crate) fn save(&self, node: &Node) -> Result<()> {
        if !self.home.evictable() || crate::is_control(node.number()) {
            return Ok(());
        }
        let _still = (node.meta.change.lock(), node.meta.growth.lock());
        let _inside = node.gate.read(node.percpu());
        self.write_back(node)?;
        if node.meta.is_nameless() {
            return Ok(());
        }
        let record = record_of(node, &pin());
        self.home.commit(&[Change::Put(&record)])
    }

    /// Writes back what a reclaim is about to drop, as far as the home takes it.
    fn save_pages(&self, ino: u64) {
        let Some(node) = self.inodes.hold(ino, &pin()) else {
            return;
        };
        let save = || {
            if node.meta.nlink() > 0 {
                let _still = (node.meta.change.lock(), node.meta.growth.lock());
                let _inside = node.gate.read(node.percpu());
                // A failing home is met again by whoever drops the pages, and keeps them here.
                let _ = self.write_back(&node);
            }
        };
        let saved = catch_unwind(AssertUnwindSafe(save));
        self.release(node, &pin());
        saved.unwrap_or_else(|panic| resume_unwind(panic));
    }

    /// Writes every dirty page and every inode back.
    pub(super) fn write_back_all(&self) -> Result<()> {
        if !self.home.evictable() {
            return Ok(());
        }
        let mut result = self.bury();
        let mut from = 0;
        loop {
            let mut seen = Vec::with_capacity(STEP);
            self.inodes.scan(from, &pin(), |node| {
                seen.push(node.number());
                seen.len() < STEP
            });
            for &ino in &seen {
                let held = self.inodes.hold(ino, &pin());
                let Some(node) = held else { continue };
                let saved = catch_unwind(AssertUnwindSafe(|| self.save(&node)));
                self.release(node, &pin());
                result = result.and(saved.unwrap_or_else(|panic| resume_unwind(panic)));
            }
            match seen.last() {
                Some(last) if seen.len() == STEP => from = last + 1,
                _ => return result,
            }
        }
    }
}
