//! The records at one moment, for reports.

use super::percpu::RANGE_SHIFT;
use super::record::{FileId, Record, WHOLE};
use super::rows::{HeatRank, HeatStats, RANGE_BYTES, RangeHeat};
use super::score::{Counts, HalfLives, Millis, Score, per_second};
use super::state::{HeatState, is_gone, now};
use super::tracker::Tracker;
use crate::attr::Time;
use crate::superblock::Objects;
use std::time::Duration;

/// The records at one moment.
pub(super) struct View<'a> {
    pub objects: &'a Objects,
    pub state: Option<&'a HeatState>,
    pub now: Millis,
    pub lives: HalfLives,
}

impl<'a> View<'a> {
    /// Drains first, so that the report is complete.
    pub fn of(heat: &'a Tracker, objects: &'a Objects) -> View<'a> {
        heat.drain(objects);
        View {
            objects,
            state: heat.state.get().map(|state| &**state),
            now: now(objects),
            lives: heat.settings.half_lives(),
        }
    }

    pub fn each(&self, mut see: impl FnMut(&Record)) {
        for shard in self.state.iter().flat_map(|state| &state.shards) {
            shard.lock().records().for_each(&mut see);
        }
    }

    pub fn top(
        &self,
        rank: HeatRank,
        most: usize,
        since: Option<Duration>,
        files: bool,
    ) -> Vec<Record> {
        let oldest = since.map_or(0, |since| {
            let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
            self.now.saturating_sub(since)
        });
        let mut top: Vec<(f64, Record)> = Vec::new();
        self.each(|record| {
            let used = record.last_read.max(record.last_write);
            if (record.range == WHOLE) != files || used < Some(oldest) {
                return;
            }
            let score = self.score(rank, &record.score);
            if score > 0.0 {
                top.push((score, record.clone()));
            }
            if top.len() >= most.saturating_mul(4).max(4096) {
                self.keep_best(&mut top, most);
            }
        });
        self.keep_best(&mut top, most);
        top.into_iter().map(|(_, record)| record).collect()
    }

    /// Keeps the `most` best of the records whose files still exist.
    pub fn keep_best(&self, top: &mut Vec<(f64, Record)>, most: usize) {
        top.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.file.cmp(&b.1.file)));
        let mut kept = 0;
        top.retain(|(_, record)| {
            let keeps = kept < most && !is_gone(self.objects, record.file);
            kept += usize::from(keeps);
            keeps
        });
    }

    pub fn score(&self, rank: HeatRank, score: &Score) -> f64 {
        let short = score.at(self.now, &self.lives).short;
        match rank {
            HeatRank::Accesses => short.accesses(),
            HeatRank::Reads => short.reads,
            HeatRank::Writes => short.writes,
            HeatRank::Bytes => short.bytes,
        }
    }

    pub fn ranges(&self, file: FileId) -> usize {
        let mut ranges = 0;
        self.each_range(file, |_| ranges += 1);
        ranges
    }

    pub fn each_range(&self, file: FileId, mut see: impl FnMut(&Record)) {
        for shard in self.state.iter().flat_map(|state| &state.shards) {
            shard.lock().ranges(file).for_each(&mut see);
        }
    }

    pub fn range(&self, record: &Record) -> RangeHeat {
        RangeHeat {
            ino: record.file.0,
            start: record.range << RANGE_SHIFT,
            len: RANGE_BYTES,
            stats: self.stats_of(record),
        }
    }

    pub fn stats_of(&self, record: &Record) -> HeatStats {
        HeatStats {
            last_bucket: record.last_bucket(),
            loads: record.loads,
            last_read: record.last_read.map(|at| self.wall(at)),
            last_write: record.last_write.map(|at| self.wall(at)),
            ..self.stats(&record.score, &record.total)
        }
    }

    pub fn stats(&self, score: &Score, total: &Counts) -> HeatStats {
        let score = score.at(self.now, &self.lives);
        let rate = |count| per_second(count, self.lives.short);
        HeatStats {
            temperature: score.degrees(),
            bucket: score.bucket(),
            last_bucket: score.bucket(),
            reads: total.reads,
            writes: total.writes,
            read_bytes: total.read_bytes,
            written_bytes: total.written_bytes,
            estimated: total.estimated,
            loads: 0,
            reads_per_second: rate(score.short.reads),
            writes_per_second: rate(score.short.writes),
            bytes_per_second: rate(score.short.bytes),
            long_accesses: score.long.accesses(),
            last_read: None,
            last_write: None,
        }
    }

    /// Wall-clock time of `at`.
    pub fn wall(&self, at: Millis) -> Time {
        let ago = self.now.saturating_sub(at) * 1_000_000;
        Time::from_nanos(self.objects.clock.now().nanos().saturating_sub(ago))
    }
}
