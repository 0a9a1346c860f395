//! The heat of one volume: recording accesses, and starting drains.

use super::foreign;
use super::key::{Access, Key, file_id};
use super::listeners::Listeners;
use super::percpu::RANGE_SHIFT;
use super::place::SHARDS;
use super::record::{FileId, WHOLE};
use super::recording::{Due, Recording};
use super::sampler::{SampleEpoch, SampleEpochs};
use super::score::HalfLifeChange;
use super::settings::HeatSettings;
use super::state::{HeatState, mark, now};
use crate::caller::Origin;
use crate::data::PAGE;
use crate::errno::{Errno, Result};
use crate::inode::{Inode, StateBit};
use crate::superblock::Objects;
use hearth_sync::primitive::atomic::Ordering;
use hearth_sync::primitive::{Arc, OnceLock};
use std::ops::Range;
use std::task::Waker;
use std::time::Duration;

/// Pages of a range.
const RANGE_PAGES: u64 = (1 << RANGE_SHIFT) / PAGE;

/// The heat of one volume.
pub(crate) struct Tracker {
    epochs: SampleEpochs,
    pub settings: HeatSettings,
    /// Made when tracking is first switched on.
    pub(super) state: OnceLock<Box<HeatState>>,
    drainer: OnceLock<Waker>,
    pub(super) listeners: Arc<Listeners>,
}

impl Tracker {
    pub fn new(on: bool) -> Tracker {
        let heat = Tracker {
            epochs: SampleEpochs::off(),
            settings: HeatSettings::default(),
            state: OnceLock::new(),
            drainer: OnceLock::new(),
            listeners: Arc::default(),
        };
        heat.switch(on);
        heat
    }

    /// Whether accesses are recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.epochs.is_on()
    }

    /// Turns recording on or off. Records stay.
    pub fn switch(&self, on: bool) {
        if on {
            self.state.get_or_init(|| Box::new(HeatState::new()));
        }
        self.epochs.switch(on);
    }

    /// Records an access to the bytes `off .. off + len` of a file, unless the sampler skips it. A
    /// request of a kernel is never skipped: it costs a hundred times what recording it does.
    #[inline(always)]
    pub fn note(&self, origin: Origin, inode: &Inode, access: Access, off: u64, len: usize) {
        let file = (inode.id.number, inode.id.generation);
        match origin {
            Origin::Library => {
                if let Some(epoch) = self.epochs.counts() {
                    self.record(epoch, file, (access, off, len as u64));
                }
            }
            Origin::Kernel => self.note_file(file, access, off, len as u64),
        }
    }

    /// Records an access to a file by a request of a kernel, also if the file is no inode of the
    /// volume.
    #[inline(never)]
    pub fn note_file(&self, file: FileId, access: Access, off: u64, len: u64) {
        let (Some(_), Some(state)) = (self.epochs.each(), self.state.get()) else {
            return;
        };
        if len > 0 {
            self.note_ranges(state, file, (access, off, len), 1);
        }
    }

    /// Records the use of a whole file, of which no ranges are known, by a request of a kernel.
    pub fn note_whole(&self, file: FileId, access: Access, len: u64) {
        let (Some(_), Some(state)) = (self.epochs.each(), self.state.get()) else {
            return;
        };
        let key = foreign::whole(file);
        let noted = state.table.note(key, access, 1, len);
        self.after(state, &noted, (key, access, 1, len));
    }

    #[inline(never)]
    fn record(&self, epoch: SampleEpoch, file: FileId, (access, off, len): (Access, u64, u64)) {
        let Some(state) = self.state.get() else {
            return;
        };
        if len == 0 {
            epoch.redraw();
            return;
        }
        let weight = epoch.weight();
        let next = self.note_ranges(state, file, (access, off, len), weight);
        if (weight, next) != (1, 1) {
            epoch.draw(next);
        }
    }

    /// Counts an access that stands for `weight` in each of its ranges. Returns how many the next
    /// one should stand for.
    #[inline(always)]
    fn note_ranges(
        &self,
        state: &HeatState,
        file: FileId,
        (access, off, len): (Access, u64, u64),
        weight: u64,
    ) -> u64 {
        let mut next = 1;
        let first = off >> RANGE_SHIFT;
        for range in first..=(off + len - 1) >> RANGE_SHIFT {
            let from = off.max(range << RANGE_SHIFT);
            let to = (off + len).min((range + 1) << RANGE_SHIFT);
            let key = Key::new(file.0, file.1, range);
            let key = if range == first { key } else { key.going_on() };
            let noted = state.table.note(key, access, weight, to - from);
            self.after(state, &noted, (key, access, weight, to - from));
            next = noted.weight;
        }
        next
    }

    #[inline(always)]
    fn after(
        &self,
        state: &HeatState,
        noted: &Recording,
        (key, access, weight, len): (Key, Access, u64, u64),
    ) {
        if noted.due != Due::No {
            self.request_drain(state, noted.due);
        }
        if noted.is_lost {
            state.set_aside(key, access, weight, len);
        }
    }

    /// Counts a fetch of pages from the backend. Off the fast path, and before the access that
    /// needs them, so this creates the records if there are none.
    pub fn note_load(&self, inode: &Inode, pages: Range<u64>) {
        let (true, Some(state)) = (self.is_on(), self.state.get()) else {
            return;
        };
        let mut from = pages.start;
        while from < pages.end {
            let range = from / RANGE_PAGES;
            let to = pages.end.min((range + 1) * RANGE_PAGES);
            self.note_load_in(state, inode, range, to - from);
            from = to;
        }
    }

    fn note_load_in(&self, state: &HeatState, inode: &Inode, range: u64, pages: u64) {
        let file = file_id(inode.number(), inode.generation());
        mark(inode, range);
        let most = self.settings.max_records() / SHARDS;
        let (file_shard, range_shard) = (state.file_shard(file), state.range_shard(file, range));
        let mut shard = file_shard.lock();
        shard.set_max(most);
        shard.loaded(file, WHOLE, pages);
        // Under one lock if it is one shard: the file's own record must not go between.
        if !std::ptr::eq(file_shard, range_shard) {
            drop(shard);
            shard = range_shard.lock();
            shard.set_max(most);
        }
        shard.loaded(file, range, pages);
        drop(shard);
        // As after a drain: an end from now on leaves a notice.
        if inode.is_dead() {
            state.forget(file, true);
        }
    }

    /// Notes that an inode ends: its records go with the next drain. When the ring is too full for
    /// the notice, the sweep finds later that the inode is gone. If inodes can be evicted the sweep
    /// cannot tell, so the notice is kept in a list.
    pub fn forget(&self, objects: &Objects, inode: &Inode) {
        let Some((state, striped)) = self.tracking(objects, inode) else {
            return;
        };
        let file = Key::new(inode.number(), inode.generation(), 0);
        let ended = state.table.end(file, striped);
        if !ended.is_queued && objects.log.is_some() {
            state.late.lock().push(file);
        }
        if ended.drain_requested {
            self.request_drain(state, Due::Soon);
        }
    }

    /// Drops the records of ranges beyond `size`, the new end of a file.
    pub fn truncate(&self, objects: &Objects, inode: &Inode, size: u64) {
        let Some((state, striped)) = self.tracking(objects, inode) else {
            return;
        };
        let file = file_id(inode.number(), inode.generation());
        let first_gone = size.div_ceil(1 << RANGE_SHIFT);
        let parts = state.shards_of(file, striped);
        parts.for_each(|shard| shard.lock().truncate(file, first_gone));
    }

    /// The end of a file that is no inode of the volume.
    pub fn forget_file(&self, file: FileId) {
        if let Some(state) = self.state.get() {
            state.forget(file, true);
        }
    }

    /// Drops the records of ranges beyond the new end of a file that is no inode of the volume.
    pub fn cut_file(&self, file: FileId, size: u64) {
        let Some(state) = self.state.get() else {
            return;
        };
        let first_gone = size.div_ceil(1 << RANGE_SHIFT);
        let parts = state.shards_of(file, true);
        parts.for_each(|shard| shard.lock().truncate(file, first_gone));
    }

    /// Sets the task to wake when a CPU begins to sample. The first one stays.
    pub fn set_drainer(&self, drainer: Waker) {
        self.drainer.get_or_init(|| drainer);
    }

    /// Sets the half-lives. Counts are scaled, so that they stand for the same rates.
    pub fn set_half_lives(&self, objects: &Objects, short: Duration, long: Duration) -> Result<()> {
        let millis = |life: Duration| u64::try_from(life.as_millis()).map_err(|_| Errno::EINVAL);
        let (short, long) = (millis(short)?, millis(long)?);
        self.drain(objects);
        // No drain meanwhile.
        let _folding = self.state.get().map(|state| state.drain.lock());
        let old = self.settings.half_lives();
        self.settings.set_half_lives(short, long)?;
        let change = HalfLifeChange {
            now: now(objects),
            old,
            new: self.settings.half_lives(),
        };
        if let Some(state) = self.state.get() {
            for shard in &state.shards {
                shard.lock().rescale(&change);
            }
            state.tenants.lock().rescale(&change);
        }
        Ok(())
    }

    /// Whether a drain is due regardless of the clock: a CPU samples, or notices of ended files
    /// wait.
    pub fn drain_requested(&self) -> bool {
        let state = self.state.get();
        state.is_some_and(|state| state.pressed.load(Ordering::Relaxed))
    }

    /// Whether a drain is due at once, however short ago the last one was: a ring fills.
    pub fn drain_is_urgent(&self) -> bool {
        let state = self.state.get();
        state.is_some_and(|state| state.urgent.load(Ordering::Relaxed))
    }

    /// Whether there may be records.
    pub fn has_records(&self) -> bool {
        self.state.get().is_some()
    }

    /// Adds the counts of the CPUs to the records.
    pub fn drain(&self, objects: &Objects) {
        if let Some(state) = self.state.get() {
            let mut changes = self.listeners.wanted();
            if state.drain(objects, &self.settings, &mut changes) {
                self.epochs.renew();
            }
            self.listeners.tell(changes);
        }
    }

    /// Requests a drain because a CPU begins to sample, or its ring fills. Wakes the task once for
    /// each drain, and once more if it has become urgent.
    #[cold]
    fn request_drain(&self, state: &HeatState, due: Due) {
        let flag = match due {
            Due::Now => &state.urgent,
            _ => &state.pressed,
        };
        if !flag.load(Ordering::Relaxed)
            && !flag.swap(true, Ordering::Relaxed)
            && let Some(drainer) = self.drainer.get()
        {
            drainer.wake_by_ref();
        }
    }

    /// The state, if `inode` may have records, and whether they may lie in several shards.
    fn tracking(&self, objects: &Objects, inode: &Inode) -> Option<(&HeatState, bool)> {
        let state: &HeatState = self.state.get()?;
        // An inode that was evicted meanwhile has lost its bits.
        let evictable = objects.log.is_some();
        let marked = |mark| evictable || inode.state.has(mark);
        // A drain that sets the bit beside us checks again whether the inode has ended. If both
        // miss the other, the sweep finds the records.
        marked(StateBit::Tracked).then(|| (state, marked(StateBit::TrackedApart)))
    }
}
