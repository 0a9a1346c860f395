//! Ageing: records move to the buckets that they have cooled to; records of files that have ended,
//! and records beyond the limit, go.

use super::listeners;
use super::place::SHARDS;
use super::state::{is_gone, now};
use super::tracker::Tracker;
use crate::superblock::Objects;

/// Records that a pass visits in each shard, besides an eighth of all.
const LEAST: usize = 256;
/// Records that are visited with a shard locked. Accesses never wait for a shard, drains do.
const SLICE: usize = 1024;

/// The position of a pass over an eighth of the records.
#[derive(Default)]
pub(crate) struct AgeingCursor {
    part: usize,
    /// Records of the shard that are left; `None` before the first of them.
    left: Option<usize>,
}

impl Tracker {
    /// Moves an eighth of the records to the buckets that they have cooled to.
    pub fn sweep(&self, objects: &Objects) {
        let mut pass = AgeingCursor::default();
        while self.sweep_slice(objects, &mut pass) {}
    }

    /// A slice of [`Tracker::sweep`] over a bounded number of records. True if the pass goes on.
    pub fn sweep_slice(&self, objects: &Objects, pass: &mut AgeingCursor) -> bool {
        let Some(state) = self.state.get() else {
            return false;
        };
        let (now, lives) = (now(objects), self.settings.half_lives());
        let mut changes = self.listeners.wanted();
        let mut shard = state.shards[pass.part].lock();
        let left = pass.left.unwrap_or_else(|| LEAST + shard.slots() / 8);
        let steps = left.min(SLICE);
        let gone = |file| is_gone(objects, file);
        shard.sweep(steps, now, &lives, gone, |record, to| {
            let place = (record.file.0, record.range);
            listeners::note(&mut changes, place, record.last_bucket(), to);
        });
        shard.limit(self.settings.max_records() / SHARDS);
        drop(shard);
        self.listeners.tell(changes);
        pass.left = Some(left - steps).filter(|&left| left > 0);
        pass.part += usize::from(pass.left.is_none());
        pass.part < SHARDS
    }

    /// Evicts the records beyond the limit.
    pub fn limit(&self) {
        let most = self.settings.max_records();
        for shard in self.state.get().iter().flat_map(|state| &state.shards) {
            shard.lock().limit(most / SHARDS);
        }
    }
}
