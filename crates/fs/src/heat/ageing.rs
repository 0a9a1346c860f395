//! Ageing: records move to the buckets that they have cooled to, those of what has ended go, and
//! so do those that are too many.

use super::listeners;
use super::state::{SHARDS, is_gone, now};
use super::tracker::Tracker;
use crate::superblock::Objects;

/// Records that a pass looks at, per shard, besides an eighth of all.
const LEAST: usize = 256;
/// Records that it looks at while it holds a shard: accesses wait for none, but drains do.
const SLICE: usize = 1024;

/// How far a pass over an eighth of the records is.
#[derive(Default)]
pub(crate) struct AgeingCursor {
    part: usize,
    /// Records of the part that are still to be looked at; `None` before the first of them.
    left: Option<usize>,
}

impl Tracker {
    /// Moves cooled records to their buckets: an eighth of them, and so all in eight calls.
    pub fn sweep(&self, objects: &Objects) {
        let mut pass = AgeingCursor::default();
        while self.sweep_slice(objects, &mut pass) {}
    }

    /// A slice of [`Tracker::sweep`]: a bounded number of records. Whether the pass goes on.
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

    /// Evicts what is more than the limit allows.
    pub fn limit(&self) {
        let most = self.settings.max_records();
        for shard in self.state.get().iter().flat_map(|state| &state.shards) {
            shard.lock().limit(most / SHARDS);
        }
    }
}
