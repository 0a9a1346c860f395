//! Reclaim keeps memory within its budget: it evicts objects without references to a backend that
//! can give them again.
//!
//! A sweep walks the inode table by number from where the last one stopped, so it shares no list
//! and no lock with lookups (C9). Pages go first, then directory entries, then inodes without
//! references. An object on which the backend fails or panics stays in memory.

use super::caught::{Caught, Panic, caught};
use super::record::record_of;
use crate::backend::BackendOp;
use crate::data::Data;
use crate::errno::Result;
use crate::inode::{Inode, InodeRef};
use crate::stats::Event;
use crate::superblock::{INODE_BYTES, PAGE_BYTES, SLACK as GRAINS, Superblock};
use hearth_sync::epoch::{self, Guard, pin};
use hearth_sync::primitive::atomic::Ordering::Relaxed;
use std::panic::resume_unwind;

/// The number of inodes that one sweep step looks at before it unpins the epoch.
const STEP: usize = 64;
/// Operations help once memory is over the budget by one part in this many of it.
const SLACK: u64 = 8;

/// What a step of a sweep did.
pub(crate) struct Swept {
    /// Bytes freed.
    pub freed: u64,
    /// Whether the step reached the end of the table.
    pub wrapped: bool,
}

/// What is left to do for an inode once its locks are released.
enum Leftover {
    Nothing,
    /// A reference to give back, and a panic of the backend to pass on.
    Held(InodeRef, Option<Panic>),
    /// The inode was unlinked and has ended, and was dropped from the backend with this result. Its
    /// resources are to be given back.
    Ended(Caught<Result<()>>),
}

impl Superblock {
    /// Reclaims if memory is over its budget. Called before an operation, with nothing held.
    ///
    /// A maintenance task, if there is one, does the work, until it is an eighth of the budget
    /// behind. Then the operation frees twice the bytes that its core brought in. If it may not
    /// wait, it stops with a miss of memory instead (`docs/design/scheduler.md`, section 14).
    ///
    #[inline]
    pub(crate) fn keep_budget(&self) {
        if let Some(bytes) = self.excess() {
            self.reclaim(bytes);
        }
    }

    /// The bytes that have to be reclaimed before an operation begins; `None` if it can begin.
    #[inline]
    pub(crate) fn excess(&self) -> Option<u64> {
        match self.cache.mem_usage.budget() {
            0 => None,
            budget => self.excess_over(budget),
        }
    }

    fn excess_over(&self, budget: u64) -> Option<u64> {
        if !self.objects.backend.evictable() {
            return None;
        }
        let excess = self.cache.mem_usage.check()?;
        match self.maintenance.press() {
            true if excess.ahead <= budget / SLACK || self.maintenance.is_stuck() => None,
            true => Some(excess.over.min(2 * excess.grown)),
            false => Some(excess.over),
        }
    }

    /// Whether memory grows faster than the throttled maintenance task reclaims it.
    pub(crate) fn is_behind(&self) -> bool {
        let slack = self.cache.mem_usage.budget() / GRAINS;
        self.objects.backend.evictable()
            && self.cache.mem_usage.ahead() > slack
            && !self.maintenance.is_stuck()
    }

    /// Bytes in memory beyond the budget that could be reclaimed.
    pub(crate) fn over_budget(&self) -> u64 {
        match self.objects.backend.evictable() {
            true => self.cache.mem_usage.over(),
            false => 0,
        }
    }

    /// Evicts until `bytes` are freed or the whole table was seen twice. Returns the bytes freed.
    pub(crate) fn reclaim(&self, bytes: u64) -> u64 {
        let (mut freed, mut wraps) = (0, 0);
        while self.objects.backend.evictable() && freed < bytes && wraps < 3 {
            let step = self.sweep(bytes - freed);
            freed += step.freed;
            wraps += u32::from(step.wrapped);
        }
        self.maintenance.set_stuck(freed < bytes);
        self.cache.mem_usage.lower_watermark();
        freed
    }

    /// One step of a sweep: goes on from where the last one stopped, until `bytes` are freed.
    pub(crate) fn sweep(&self, bytes: u64) -> Swept {
        let g = pin();
        // Relaxed: a place to go on from; two sweeps at one place do no harm.
        let from = self.cache.sweep.0.load(Relaxed);
        let mut seen = Vec::with_capacity(STEP);
        self.objects.inodes.scan(from, &g, |inode| {
            seen.push(inode.number());
            seen.len() < STEP
        });
        let wrapped = seen.len() < STEP;
        let next = match seen.last() {
            Some(last) if !wrapped => last + 1,
            _ => 0,
        };
        self.cache.sweep.0.store(next, Relaxed);
        drop(g);
        let mut freed = 0;
        for ino in seen {
            if freed >= bytes {
                break;
            }
            // Done with no epoch pinned. Pages that are dirtied meanwhile are left for the
            // write-back under the locks.
            self.save_pages(ino);
            let g = pin();
            if let Some(inode) = self.objects.inodes.get(ino, &g) {
                freed += self.evict(inode, bytes - freed, &g);
            }
        }
        Swept { freed, wrapped }
    }

    /// Evicts what `inode` has in memory, and `inode` if nobody refers to it, until about `bytes`
    /// are freed; returns the bytes freed. Objects that the backend fails on stay.
    fn evict(&self, inode: &Inode, bytes: u64, g: &Guard) -> u64 {
        if inode.meta.is_unlinked() || crate::is_control(inode.number()) {
            return 0;
        }
        let (freed, rest) = match (inode.data(), inode.directory()) {
            (Some(data), _) => self.evict_file(inode, data, bytes, g),
            (None, Some(directory)) => {
                directory.evict(g);
                self.evict_inode(inode, g)
            }
            (None, None) => self.evict_inode(inode, g),
        };
        match rest {
            Leftover::Nothing => freed,
            Leftover::Ended(dropped) => freed + self.finish(inode, dropped, g),
            Leftover::Held(held, panic) => {
                self.release(held, g);
                match panic {
                    Some(panic) => resume_unwind(panic),
                    None => freed,
                }
            }
        }
    }

    fn evict_file(&self, inode: &Inode, data: &Data, bytes: u64, g: &Guard) -> (u64, Leftover) {
        // The reference keeps the inode, and so its number, while its pages are written.
        let Some(held) = inode.hold() else {
            return (0, Leftover::Nothing);
        };
        // The locks are held, and the gate is closed, until the inode is gone or stays: a write
        // between the last write-back and the end of the inode would be lost.
        let _still = (inode.meta.change.lock(), inode.meta.growth.lock());
        let _closed = inode.gate.write(inode.percpu());
        match caught(|| self.write_back(inode)) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return (0, Leftover::Held(held, None)),
            Err(panic) => return (0, Leftover::Held(held, Some(panic))),
        }
        let want = bytes.div_ceil(PAGE_BYTES as u64);
        let dropped = data.evict(want, g);
        let freed = dropped as i64 * PAGE_BYTES;
        self.cache.mem_usage.add(-freed);
        if dropped >= want {
            return (freed as u64, Leftover::Held(held, None));
        }
        drop(held);
        let (more, rest) = self.evict_inode(inode, g);
        (freed as u64 + more, rest)
    }

    /// Evicts the inode itself, and returns the bytes freed. Its record is written once no thread
    /// can change the inode any more. No thread can fetch the inode before that (`inode_io_lock`).
    /// If the backend fails, the inode is restored from the same record, without its pages.
    fn evict_inode(&self, inode: &Inode, g: &Guard) -> (u64, Leftover) {
        if inode.number() == crate::number::ROOT {
            return (0, Leftover::Nothing);
        }
        let _one = self.inode_io_lock(inode.number()).lock_guard();
        let pages = inode.data().map_or(0, |data| data.resident_pages(g)) as i64 * PAGE_BYTES;
        if !self.objects.inodes.evict(inode, g) {
            return (0, Leftover::Nothing);
        }
        // The thread that removed the last name, or gave the last reference back, looks for the
        // inode later than this and finds nothing. So this thread ends the inode.
        if inode.meta.is_unlinked() {
            self.count_unlinked(inode);
            return (0, Leftover::Ended(self.drop_from_backend(inode)));
        }
        let record = record_of(inode, g);
        let commit = || self.objects.backend.commit(&[BackendOp::Put(&record)]);
        let committed = caught(commit);
        epoch::account(pages as usize, g);
        self.cache.mem_usage.add(-pages);
        if matches!(committed, Ok(Ok(()))) {
            self.stats.event(Event::Reclaimed);
            self.cache.mem_usage.add(-INODE_BYTES);
            return ((INODE_BYTES + pages) as u64, Leftover::Nothing);
        }
        // The pages were saved before. Their list comes from this inode, because the backend fails.
        let known = inode.data().map_or_else(Vec::new, |data| data.allocated(g));
        let back = self.restore(&record, known, g);
        let (back, _) = back.expect("the number is this inode's until the backend has its record");
        (pages as u64, Leftover::Held(back, committed.err()))
    }

    /// Writes the dirty pages of a file back. The caller holds the locks that this needs.
    fn write_back(&self, inode: &Inode) -> Result<()> {
        let Some(data) = inode.data().filter(|_| self.objects.backend.evictable()) else {
            return Ok(());
        };
        data.flush(&mut |index, bytes| {
            self.objects
                .backend
                .write_page(inode.number(), index, bytes)
        })?;
        Ok(())
    }

    /// Writes one inode and its pages back. Nothing may be pinned: the backend may block.
    pub(crate) fn save(&self, inode: &Inode) -> Result<()> {
        if !self.objects.backend.evictable() || crate::is_control(inode.number()) {
            return Ok(());
        }
        let _still = (inode.meta.change.lock(), inode.meta.growth.lock());
        let _inside = inode.gate.read(inode.percpu());
        self.write_back(inode)?;
        if inode.meta.is_unlinked() {
            return Ok(());
        }
        let record = record_of(inode, &pin());
        self.objects.backend.commit(&[BackendOp::Put(&record)])
    }

    /// Writes back the pages that reclaim is about to evict, as far as the backend takes them.
    fn save_pages(&self, ino: u64) {
        let Some(inode) = self.objects.inodes.hold(ino, &pin()) else {
            return;
        };
        // An error is left to the eviction, which meets the failing backend again and keeps the
        // pages.
        let _ = self.with_held(inode, |inode| {
            if inode.meta.nlink() > 0 {
                let _still = (inode.meta.change.lock(), inode.meta.growth.lock());
                let _inside = inode.gate.read(inode.percpu());
                self.write_back(inode)?;
            }
            Ok(())
        });
    }

    /// Writes every dirty page and every inode back.
    pub(crate) fn write_back_all(&self) -> Result<()> {
        if !self.objects.backend.evictable() {
            return Ok(());
        }
        let mut result = self.retry_orphan_deletes();
        let mut from = 0;
        loop {
            let mut seen = Vec::with_capacity(STEP);
            self.objects.inodes.scan(from, &pin(), |inode| {
                seen.push(inode.number());
                seen.len() < STEP
            });
            for &ino in &seen {
                let held = self.objects.inodes.hold(ino, &pin());
                let Some(inode) = held else { continue };
                result = result.and(self.with_held(inode, |inode| self.save(inode)));
            }
            match seen.last() {
                Some(last) if seen.len() == STEP => from = last + 1,
                _ => return result,
            }
        }
    }
}
