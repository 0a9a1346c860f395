//! Keeping heat over the end of a volume: groups that changed, in portions; and taking it up again.

use super::foreign::foreign;
use super::kept::{self, KeptHeat, KeptOf, Moment};
use super::key::file_id;
use super::percpu::RANGE_SHIFT;
use super::place::SHARDS;
use super::portion::{Keep, KeepCursor, Scan};
use super::record::FileId;
use super::state::{HeatState, KeepLock, now};
use super::tracker::Tracker;
use crate::errno::Result;
use crate::log::ChangeLog;
use crate::settings::key::{HEAT_FILES, HEAT_TENANTS, key, name_in};
use crate::settings::words::Undecodable;
use crate::superblock::Objects;
use hearth_sync::epoch::pin;
use hearth_sync::lock::LockGuard;

/// Records that are looked at with a shard locked.
const SLICE: usize = 1024;

impl Tracker {
    /// Keeps all heat that changed since it was last kept.
    pub fn keep_all(&self, objects: &Objects) {
        let Some((state, log)) = self.keeper(objects) else {
            return;
        };
        self.drain(objects);
        let mut cursor = state.keep.lock();
        // The rest of a pass that has begun, and a whole one.
        for _ in 0..2 {
            while self.keep_step(&mut cursor, state, objects, log) {}
        }
    }

    /// A slice of a pass that keeps what changed. True if the pass goes on.
    pub fn keep_slice(&self, objects: &Objects) -> bool {
        let Some((state, log)) = self.keeper(objects) else {
            return false;
        };
        self.keep_step(&mut state.keep.lock(), state, objects, log)
    }

    /// The state and where it is kept; `None` while nothing can be kept.
    fn keeper<'a>(&'a self, objects: &'a Objects) -> Option<(&'a HeatState, &'a ChangeLog)> {
        let log = objects.log.as_deref()?;
        let state: &HeatState = self.state.get()?;
        log.keeps_settings().then_some((state, log))
    }

    fn keep_step(
        &self,
        cursor: &mut LockGuard<'_, KeepLock, KeepCursor>,
        state: &HeatState,
        objects: &Objects,
        log: &ChangeLog,
    ) -> bool {
        let at = self.moment(objects);
        let KeepCursor { part, scan } = &mut **cursor;
        if *part == SHARDS {
            *part = 0;
            keep_tenants(state, &mut |key, value| log.set(key, value), &at);
            return false;
        }
        let shard = &state.shards[*part];
        let is_over = {
            let mut shard = shard.lock();
            let scan = scan.get_or_insert_with(|| Scan::new(0, shard.moves()));
            if scan.groups == 0 || scan.moves != shard.moves() {
                let changed = scan.groups | shard.take_changed();
                *scan = Scan::new(changed, shard.moves());
            }
            let next = scan.at.saturating_add(SLICE);
            if scan.groups != 0 {
                shard.each_slot(scan.at..next, |record| {
                    scan.add(record.of(), record.known(), &at)
                });
            }
            scan.at = next;
            scan.groups == 0 || next >= shard.slots()
        };
        if is_over {
            if let Some(mut scan) = scan.take() {
                scan.keep(*part, &mut |key, value| log.set(key, value), &at);
            }
            *part += 1;
        }
        true
    }

    pub(super) fn moment(&self, objects: &Objects) -> Moment {
        Moment {
            now: now(objects),
            wall: objects.clock.now().nanos() / 1_000_000,
            lives: self.settings.half_lives(),
        }
    }

    /// What a setting says of heat; `None` for one of another kind.
    pub fn decode(key: &[u8], value: &[u8]) -> Option<std::result::Result<KeptHeat, Undecodable>> {
        if name_in(key, HEAT_FILES).is_some() {
            return Some(KeptHeat::of_files(value));
        }
        name_in(key, HEAT_TENANTS).map(|_| KeptHeat::of_tenants(value))
    }

    /// Takes up heat that was kept, cooled by the time since. Whether its files are still there is
    /// looked at later: see [`Tracker::look_for_lost`].
    pub fn restore_kept(&self, objects: &Objects, kept: &[KeptHeat]) {
        if kept.is_empty() {
            return;
        }
        let state = self.state.get_or_init(|| Box::new(HeatState::new()));
        let at = self.moment(objects);
        let most = self.settings.max_records() / SHARDS;
        let mut files = Vec::new();
        for group in kept {
            for (of, row) in &group.rows {
                let known = group.known(row, &at);
                match *of {
                    KeptOf::Range(file, range) => {
                        files.push(file);
                        let mut shard = state.range_shard(file, range).lock();
                        shard.set_max(most);
                        shard.restore(file, range, &known);
                    }
                    KeptOf::Tenant(tenant) => state.tenants.lock().restore(tenant, &known),
                }
            }
        }
        files.sort_unstable();
        files.dedup();
        *state.unseen.lock() = files;
    }

    /// Whether [`Tracker::look_for_lost`] has something to do.
    pub fn has_unseen(&self) -> bool {
        let state = self.state.get();
        state.is_some_and(|state| !state.unseen.lock().is_empty())
    }

    /// Looks at up to `most` files whose heat was taken up: records of those that are gone, and of
    /// ranges that were cut off, go. A crash may have lost the news. The backend may block.
    pub fn look_for_lost(&self, objects: &Objects, most: usize) -> bool {
        let Some(state) = self.state.get() else {
            return false;
        };
        let files = {
            let mut unseen = state.unseen.lock();
            let left = unseen.len().saturating_sub(most);
            unseen.split_off(left)
        };
        for file in files {
            match end_of(objects, file) {
                Ok(Some(end)) => {
                    let first_gone = end.div_ceil(1 << RANGE_SHIFT);
                    let shards = state.shards_of(file, true);
                    shards.for_each(|shard| shard.lock().truncate(file, first_gone));
                }
                Ok(None) => state.forget(file, true),
                // It is not known; the records stay.
                Err(_) => {}
            }
        }
        self.has_unseen()
    }
}

pub(super) fn keep_tenants(state: &HeatState, set: &mut Keep<'_>, at: &Moment) {
    let groups = state.tenants.lock().take_changed();
    for (group, tenants) in groups {
        let rows = tenants.iter();
        let rows = rows.map(|(tenant, known)| (KeptOf::Tenant(*tenant), known));
        let value = (!tenants.is_empty()).then(|| kept::encode(at, rows));
        set(key(HEAT_TENANTS, group), value);
    }
}

/// Where a file ends; `None` if it is gone.
fn end_of(objects: &Objects, file: FileId) -> Result<Option<u64>> {
    if let Some(files) = objects.foreign() {
        return files.end_of(foreign(file));
    }
    if let Some(end) = end_in_memory(objects, file) {
        return Ok(end);
    }
    let kept = objects.backend.load_inode(file.0)?;
    // In memory by now, it may have been written to since.
    if let Some(end) = end_in_memory(objects, file) {
        return Ok(end);
    }
    let same = kept.filter(|inode| {
        let generation = file_id(inode.ino, inode.attrs.generation);
        generation == file && inode.attrs.nlink > 0
    });
    Ok(same.map(|inode| inode.size))
}

/// [`end_of`] a file whose number is in memory.
fn end_in_memory(objects: &Objects, file: FileId) -> Option<Option<u64>> {
    let g = pin();
    let inode = objects.inodes.get(file.0, &g)?;
    let is_same = file_id(file.0, inode.generation()) == file;
    Some((is_same && !inode.is_dead()).then(|| inode.meta.size()))
}
