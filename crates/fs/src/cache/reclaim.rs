//! Reclaim keeps memory within its budget: it evicts objects without references to a backend that
//! can give them again.
//!
//! A sweep (`sweep.rs`) says which objects are tried. Pages go first, then directory entries, then
//! inodes without references. An object on which the backend fails or panics stays in memory.

use crate::data::{Data, Resident};
use crate::inode::{Inode, InodeInner, InodeRef, StateBit};
use crate::stats::Event;
use crate::superblock::{
    INODE_BYTES, PAGE_BYTES, SLACK as GRAINS, Superblock, inode_bytes, inode_record, resident_bytes,
};
use hearth_sync::epoch::{self, Guard};
use hearth_sync::primitive::atomic::Ordering::Relaxed;

/// Operations help once memory is over the budget by one part in this many of it.
const SLACK: u64 = 8;

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
        match self.cache.mem_usage.is_check_due() {
            true => self.excess_of_this_core(),
            false => None,
        }
    }

    // A function of its own: an operation that has nothing to check saves no registers for it.
    #[cold]
    #[inline(never)]
    fn excess_of_this_core(&self) -> Option<u64> {
        if !self.is_durable() {
            return None;
        }
        let excess = self.cache.mem_usage.check()?;
        let budget = self.cache.mem_usage.budget();
        match self.maintenance.press() {
            true if excess.ahead <= budget / SLACK || self.maintenance.is_stuck() => None,
            true => Some(excess.over.min(2 * excess.grown)),
            false => Some(excess.over),
        }
    }

    /// Whether memory grows faster than the throttled maintenance task reclaims it.
    pub(crate) fn is_behind(&self) -> bool {
        let slack = self.cache.mem_usage.budget() / GRAINS;
        self.is_durable() && self.cache.mem_usage.ahead() > slack && !self.maintenance.is_stuck()
    }

    /// Bytes in memory beyond the budget that could be reclaimed.
    pub(crate) fn over_budget(&self) -> u64 {
        match self.is_durable() {
            true => self.cache.mem_usage.over(),
            false => 0,
        }
    }

    /// Evicts until `bytes` are freed or the whole table was seen twice. Returns the bytes freed.
    pub(crate) fn reclaim(&self, bytes: u64) -> u64 {
        let (mut freed, mut wraps, mut is_overtaken) = (0, 0, false);
        // Relaxed: a statistic; it need only have grown.
        let swept = self.cache.sweeps.0.freed.load(Relaxed);
        while self.is_durable() && freed < bytes && wraps < 3 {
            let step = self.sweep(bytes - freed);
            freed += step.freed;
            wraps += u32::from(step.wrapped);
            is_overtaken |= step.is_overtaken;
            // A front end may wait for what an operation of its own is about to do: where there is
            // a task in the background, that one asks.
            if self.maintenance.task.get().is_none() {
                self.let_go(&step.known);
            }
        }
        // Relaxed: as above.
        let of_all = self.cache.sweeps.0.freed.load(Relaxed).wrapping_sub(swept);
        let is_stuck = of_all < bytes && !is_overtaken && self.over_budget() > 0;
        self.maintenance.set_stuck(is_stuck);
        self.cache.mem_usage.lower_watermark();
        freed
    }

    /// Whether it is a file of which the backend lacks something, or may.
    pub(super) fn is_unsettled_file(&self, inode: &Inode) -> bool {
        inode.data().is_some() && self.is_unsettled(inode)
    }

    /// Whether the backend lacks something of it, or may.
    pub(super) fn is_unsettled(&self, inode: &Inode) -> bool {
        self.is_inode_pending(inode) || inode.state.has(StateBit::Dirty)
    }

    /// Evicts what `inode` has in memory, and `inode` if nobody refers to it, until about `bytes`
    /// are freed; returns the bytes freed. What the backend lacks stays.
    pub(super) fn evict(&self, inode: &Inode, bytes: u64, g: &Guard) -> u64 {
        if crate::is_control(inode.number()) {
            return 0;
        }
        let freed = match inode.data() {
            Some(data) => self.evict_file(inode, data, bytes, g),
            None if inode.meta.is_unlinked() => 0,
            None => self.evict_inode(inode, (), g),
        };
        match freed < bytes {
            true => freed + self.evict_attributes(inode, g),
            false => freed,
        }
    }

    fn evict_file(&self, inode: &Inode, data: &Data, bytes: u64, g: &Guard) -> u64 {
        // The locks are held, and the gate is closed, until the inode is gone or stays: a write
        // meanwhile would be lost.
        let locks = (inode.meta.change.lock(), inode.meta.growth.lock());
        let closed = inode.gate.write(inode.percpu());
        let Some(has) = self.epochs_at_backend(inode) else {
            return 0;
        };
        let want = bytes.div_ceil(PAGE_BYTES as u64);
        let is_settled = !self.is_inode_pending(inode) && !inode.state.has_unrecorded();
        let dropped = data.evict(want, has, is_settled, g);
        let freed = resident_bytes(dropped);
        self.cache.mem_usage.add(-freed);
        if freed as u64 >= bytes || inode.meta.is_unlinked() || inode.state.has_unrecorded() {
            return freed as u64;
        }
        freed as u64 + self.evict_inode(inode, (closed, locks), g)
    }

    /// Whether the backend has an epoch, by its low bits, in which contents of a file were
    /// recorded. `None`: nothing of it may be dropped. The caller holds `change` and `growth`, and
    /// has closed the gate.
    ///
    /// By epoch, because others may record what comes later all the time: a file that is written
    /// steadily is never without anything pending.
    pub(super) fn epochs_at_backend(&self, inode: &Inode) -> Option<impl Fn(u8) -> bool> {
        // The pages of an inode that has ended have been taken away from what counts.
        let log = self.log().filter(|_| !self.is_over(inode))?;
        // Low bits alone could be taken for a pending epoch's for as long as nothing is recorded.
        let is_pending = log.is_pending(inode.contents.epoch.load(Relaxed));
        Some(move |epoch| !is_pending || !log.is_tag_pending(epoch))
    }

    /// Evicts the inode itself, and returns the bytes freed. `locks` are what the caller holds of
    /// it: who ends an inode takes them once more.
    fn evict_inode<L>(&self, inode: &Inode, locks: L, g: &Guard) -> u64 {
        let is_pending = self.is_inode_pending(inode);
        // The backend may not know a new directory. If it has entries and the backend has them, it
        // does: they go although the directory stays.
        if is_pending
            && !inode
                .directory()
                .is_some_and(|inside| inside.has_entries(g))
        {
            return 0;
        }
        let stays = is_pending || inode.number() == crate::number::ROOT;
        let io = self.inode_io_lock(inode.number()).lock_guard();
        let evict = || !stays && self.objects.inodes.evict(inode, g);
        let (is_evicted, names) = match inode.directory() {
            Some(directory) => {
                let is_evicted = directory.evict(self.log(), evict, g);
                (is_evicted, -directory.recount(g))
            }
            None => (evict(), 0),
        };
        self.cache.mem_usage.add(-names);
        let names = names.max(0) as u64;
        if !is_evicted {
            return names;
        }
        // The thread that removed the last name, or gave the last reference back, looks for the
        // inode later than this and finds nothing. So this thread ends the inode.
        if inode.meta.is_unlinked() {
            self.bury_evicted(inode);
            drop(io);
            drop(locks);
            return names + self.free_resources(inode, g);
        }
        self.cache.note_left(inode.number());
        let resident = inode.data().map(|data| data.resident(g));
        let pages = resident.map_or(0, resident_bytes);
        let own = inode_bytes(inode, g);
        // The inode itself is counted with its block of the table.
        epoch::account((own + pages - INODE_BYTES) as usize, g);
        self.cache.mem_usage.add(-pages);
        if self.is_inode_pending(inode) {
            // An operation changed it after the look, and ended before the eviction.
            let back = self.bring_back(inode, g);
            drop(io);
            // The last reference ends the inode, which takes locks of its own.
            drop(locks);
            self.release(back, g);
            return names + pages as u64;
        }
        self.stats.event(Event::Reclaimed);
        self.cache.mem_usage.add(-own);
        names + (own + pages) as u64
    }

    /// Puts an evicted inode back from its own attributes, without contents, which the backend has.
    /// It counts for the memory budget as before, but for its pages. The caller holds
    /// `inode_io_lock`.
    fn bring_back(&self, inode: &Inode, g: &Guard) -> InodeRef {
        let (contents, came) = match inode.data() {
            Some(data) => data.at_backend(g),
            None => (Data::new(), Resident::default()),
        };
        let go_on = |back: &InodeInner| {
            back.meta.continue_from(&inode.meta);
            back.contents.continue_from(&inode.contents);
            if let Some(extra) = inode.extra(g).filter(|extra| extra.is_at_backend) {
                back.move_extra(extra.clone(), g);
                back.set_extra_blocks(inode.extra_blocks());
            }
            if let (Some(from), Some(to)) = (inode.directory(), back.directory()) {
                to.moves().continue_from(from.moves().peek());
            }
        };
        let (back, _) = self
            .restore(&inode_record(inode, g), contents, go_on, g)
            .expect("the number is this inode's while its lock is held");
        self.cache.mem_usage.add(resident_bytes(came));
        back
    }
}
