//! Keeping the heat of files that are no inodes of the volume: all of it at once, by whoever knows
//! the files.

use super::foreign::{KeptGroup, foreign};
use super::keep::keep_tenants;
use super::kept::Moment;
use super::place::SHARDS;
use super::portion::{Keep, Scan};
use super::record::WHOLE;
use super::state::HeatState;
use super::tracker::Tracker;
use crate::superblock::Objects;
use std::collections::HashSet;

/// Records that are looked at with a shard locked.
const SLICE: usize = 1024;

impl Tracker {
    /// Keeps all heat, if any changed since it was last kept. Blocks.
    pub fn keep_foreign(&self, objects: &Objects) {
        let (Some(files), Some(state)) = (objects.foreign(), self.state.get()) else {
            return;
        };
        self.drain(objects);
        // One at a time: what is kept later must be the newer.
        let _cursor = state.keep.lock();
        if !take_changed(state) {
            return;
        }
        let at = self.moment(objects);
        let mut groups: Vec<KeptGroup> = Vec::new();
        let mut set =
            |key, value: Option<Box<[u8]>>| groups.extend(value.map(|value| (key, value)));
        let mut kept = HashSet::new();
        for number in 0..SHARDS {
            let scan = collect(state, number, &at, &mut set);
            kept.extend(scan.files().map(foreign));
        }
        state.tenants.lock().mark_all_changed();
        keep_tenants(state, &mut set, &at);
        let is_kept = files.keep(groups, &kept, &|file| {
            let shard = state.file_shard(file.id());
            shard.lock().get(file.id(), WHOLE).is_some()
        });
        if !is_kept {
            // There may be room again at the unmount, although nothing is used until then.
            for shard in &state.shards {
                shard.lock().mark_all_changed();
            }
        }
    }
}

/// Whether anything changed.
fn take_changed(state: &HeatState) -> bool {
    let mut changed = 0;
    for shard in &state.shards {
        changed |= shard.lock().take_changed();
    }
    changed != 0
}

/// Takes the groups of a shard; the scan of it.
fn collect(state: &HeatState, number: usize, at: &Moment, set: &mut Keep<'_>) -> Scan {
    let shard = &state.shards[number];
    let mut scan = Scan::new(u64::MAX, shard.lock().moves());
    loop {
        let shard = shard.lock();
        if scan.moves != shard.moves() {
            scan = Scan::new(u64::MAX, shard.moves());
        }
        let next = scan.at.saturating_add(SLICE);
        shard.each_slot(scan.at..next, |record| {
            scan.add(record.of(), record.known(), at)
        });
        scan.at = next;
        if next >= shard.slots() {
            break;
        }
    }
    scan.keep(number, set, at);
    scan
}
