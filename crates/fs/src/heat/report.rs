//! Reports: rankings, one file, histogram, what-if.
//!
//! Every report is of the moment it is asked for: temperatures are computed then.

use super::percpu::RANGE_SHIFT;
use super::record::{BUCKETS, FileId, Record, WHOLE};
use super::score::{Counts, HalfLives, Millis, Score, per_second};
use super::state::{HeatState, is_gone, now};
use super::tenants::HeatTenant;
use super::tracker::Tracker;
use crate::attr::Time;
use crate::data::PAGE;
use crate::superblock::Objects;
use hearth_sync::epoch::pin;
use std::time::Duration;

/// The heat of a file, a range or a tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatStats {
    /// 0.0 (never) to 100.0.
    pub temperature: f64,
    /// Bucket of the map at the time of asking, 0 to 255.
    pub bucket: u8,
    /// Bucket as of the last pass of ageing.
    pub last_bucket: u8,
    /// Accesses and bytes since the record exists.
    pub reads: u64,
    /// See `reads`.
    pub writes: u64,
    /// See `reads`.
    pub read_bytes: u64,
    /// See `reads`.
    pub written_bytes: u64,
    /// Pages fetched from the backend by reads, and by writes of parts of pages.
    pub loads: u64,
    /// Decayed rates per second.
    pub reads_per_second: f64,
    /// See `reads_per_second`.
    pub writes_per_second: f64,
    /// See `reads_per_second`.
    pub bytes_per_second: f64,
    /// Accesses, decayed with the long half-life.
    pub long_accesses: f64,
    /// Wall-clock time of the drain that saw the last read.
    pub last_read: Option<Time>,
    /// See `last_read`.
    pub last_write: Option<Time>,
}

/// Heat of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileHeat {
    /// Inode number.
    pub ino: u64,
    /// Its heat.
    pub stats: HeatStats,
    /// Ranges that have records.
    pub ranges: usize,
}

/// Heat of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeHeat {
    /// Inode number.
    pub ino: u64,
    /// First byte.
    pub start: u64,
    /// Length in bytes: 1 MiB.
    pub len: u64,
    /// Its heat.
    pub stats: HeatStats,
}

/// Heat of everything that a tenant owns.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantHeat {
    /// Who.
    pub tenant: HeatTenant,
    /// Its heat.
    pub stats: HeatStats,
}

/// What rankings go by: decayed rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeatRank {
    /// Reads and writes.
    #[default]
    Accesses,
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Bytes read and written.
    Bytes,
}

/// What a fast tier of each size would have served, of accesses weighted by their age.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// Bytes of all ranges that have records.
    pub recorded_bytes: u64,
    /// After how long an access weighs half as much.
    pub half_life: Duration,
    /// In order of size.
    pub points: Vec<WhatIfPoint>,
}

/// One size of a fast tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhatIfPoint {
    /// Size in bytes.
    pub bytes: u64,
    /// Share of the recorded reads that it would have served, 0 to 1.
    pub reads: f64,
    /// Share of the recorded writes.
    pub writes: f64,
}

const RANGE_BYTES: u64 = 1 << RANGE_SHIFT;

impl Tracker {
    /// The `most` hottest files that were used within `since`, hottest first.
    pub fn top_files(
        &self,
        objects: &Objects,
        rank: HeatRank,
        most: usize,
        since: Option<Duration>,
    ) -> Vec<FileHeat> {
        let view = View::of(self, objects);
        view.top(rank, most, since, true)
            .into_iter()
            .map(|record| FileHeat {
                ino: record.file.0,
                stats: view.warm_of(&record),
                ranges: view.ranges(record.file),
            })
            .collect()
    }

    /// The `most` hottest ranges that were used within `since`, hottest first.
    pub fn top_ranges(
        &self,
        objects: &Objects,
        rank: HeatRank,
        most: usize,
        since: Option<Duration>,
    ) -> Vec<RangeHeat> {
        let view = View::of(self, objects);
        view.top(rank, most, since, false)
            .iter()
            .map(|record| view.range(record))
            .collect()
    }

    /// TenantTable, hottest first.
    pub fn tenants(&self, objects: &Objects, rank: HeatRank) -> Vec<TenantHeat> {
        let view = View::of(self, objects);
        let mut rows: Vec<(f64, TenantHeat)> = Vec::new();
        if let Some(state) = view.state {
            for (tenant, sum) in state.tenants.lock().iter() {
                let warm = HeatStats {
                    last_read: sum.last_read.map(|at| view.wall(at)),
                    last_write: sum.last_write.map(|at| view.wall(at)),
                    ..view.warm(&sum.score, &sum.total)
                };
                rows.push((
                    view.score(rank, &sum.score),
                    TenantHeat {
                        tenant,
                        stats: warm,
                    },
                ));
            }
        }
        rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.tenant.cmp(&b.1.tenant)));
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Heat of one file; `None` without a record.
    pub fn of_file(&self, objects: &Objects, file: FileId) -> Option<FileHeat> {
        let view = View::of(self, objects);
        let record = view
            .state?
            .file_shard(file)
            .lock()
            .get(file, WHOLE)?
            .clone();
        Some(FileHeat {
            ino: file.0,
            stats: view.warm_of(&record),
            ranges: view.ranges(file),
        })
    }

    /// Ranges of one file that have records, in its order.
    pub fn ranges_of(&self, objects: &Objects, file: FileId) -> Vec<RangeHeat> {
        let view = View::of(self, objects);
        let mut ranges: Vec<RangeHeat> = Vec::new();
        view.each_range(file, |record| ranges.push(view.range(record)));
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    /// Bytes of ranges with records in each of the 256 buckets, coldest first, as they are now. A
    /// range has as many as the pages of its file in it.
    pub fn bytes_by_bucket(&self, objects: &Objects) -> Vec<u64> {
        let view = View::of(self, objects);
        let mut bytes = vec![0; BUCKETS];
        view.each(|record| {
            if record.range != WHOLE && !is_gone(objects, record.file) {
                let bucket = record.score.at(view.now, &view.lives).bucket();
                bytes[bucket as usize] += bytes_in(objects, record);
            }
        });
        bytes
    }

    /// Which shares of the accesses (decayed with the long half-life) fast tiers of `sizes` bytes
    /// would have served.
    pub fn what_if(&self, objects: &Objects, sizes: &[u64]) -> WhatIf {
        let view = View::of(self, objects);
        let mut ranges: Vec<RangeLoad> = Vec::new();
        view.each(|record| {
            if record.range == WHOLE || is_gone(objects, record.file) {
                return;
            }
            let long = record.score.at(view.now, &view.lives).long;
            // At least a page, so that the density is finite.
            ranges.push(RangeLoad {
                bytes: bytes_in(objects, record).max(PAGE),
                reads: long.reads,
                writes: long.writes,
            });
        });
        ranges.sort_by(|a, b| b.density().total_cmp(&a.density()));
        let mut all = RangeLoad::default();
        ranges.iter().for_each(|range| all.add(range));
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        let mut points = Vec::with_capacity(sizes.len());
        let (mut hottest, mut held) = (ranges.iter().peekable(), RangeLoad::default());
        for bytes in sizes {
            while let Some(range) = hottest.next_if(|range| held.bytes + range.bytes <= bytes) {
                held.add(range);
            }
            // The rest is filled with a part of the next range.
            let next = hottest.peek().map_or(RangeLoad::default(), |&&range| range);
            let part = (bytes - held.bytes) as f64 / next.bytes.max(1) as f64;
            points.push(WhatIfPoint {
                bytes,
                reads: share(held.reads + part * next.reads, all.reads),
                writes: share(held.writes + part * next.writes, all.writes),
            });
        }
        WhatIf {
            recorded_bytes: all.bytes,
            half_life: Duration::from_millis(view.lives.long as u64),
            points,
        }
    }
}

/// The accesses to some bytes, decayed with the long half-life.
#[derive(Clone, Copy, Default)]
struct RangeLoad {
    bytes: u64,
    reads: f64,
    writes: f64,
}

impl RangeLoad {
    /// Accesses a byte.
    fn density(&self) -> f64 {
        (self.reads + self.writes) / self.bytes as f64
    }

    fn add(&mut self, other: &RangeLoad) {
        self.bytes += other.bytes;
        self.reads += other.reads;
        self.writes += other.writes;
    }
}

/// The records at one moment.
struct View<'a> {
    objects: &'a Objects,
    state: Option<&'a HeatState>,
    now: Millis,
    lives: HalfLives,
}

impl<'a> View<'a> {
    /// Drains first, so that the report is complete.
    fn of(heat: &'a Tracker, objects: &'a Objects) -> View<'a> {
        heat.drain(objects);
        View {
            objects,
            state: heat.state.get().map(|state| &**state),
            now: now(objects),
            lives: heat.settings.half_lives(),
        }
    }

    fn each(&self, mut see: impl FnMut(&Record)) {
        for shard in self.state.iter().flat_map(|state| &state.shards) {
            shard.lock().records().for_each(&mut see);
        }
    }

    fn top(
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
    fn keep_best(&self, top: &mut Vec<(f64, Record)>, most: usize) {
        top.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.file.cmp(&b.1.file)));
        let mut kept = 0;
        top.retain(|(_, record)| {
            let keeps = kept < most && !is_gone(self.objects, record.file);
            kept += usize::from(keeps);
            keeps
        });
    }

    fn score(&self, rank: HeatRank, score: &Score) -> f64 {
        let short = score.at(self.now, &self.lives).short;
        match rank {
            HeatRank::Accesses => short.accesses(),
            HeatRank::Reads => short.reads,
            HeatRank::Writes => short.writes,
            HeatRank::Bytes => short.bytes,
        }
    }

    fn ranges(&self, file: FileId) -> usize {
        let mut ranges = 0;
        self.each_range(file, |_| ranges += 1);
        ranges
    }

    fn each_range(&self, file: FileId, mut see: impl FnMut(&Record)) {
        for shard in self.state.iter().flat_map(|state| &state.shards) {
            shard.lock().ranges(file).for_each(&mut see);
        }
    }

    fn range(&self, record: &Record) -> RangeHeat {
        RangeHeat {
            ino: record.file.0,
            start: record.range << RANGE_SHIFT,
            len: RANGE_BYTES,
            stats: self.warm_of(record),
        }
    }

    fn warm_of(&self, record: &Record) -> HeatStats {
        HeatStats {
            last_bucket: record.last_bucket(),
            loads: record.loads,
            last_read: record.last_read.map(|at| self.wall(at)),
            last_write: record.last_write.map(|at| self.wall(at)),
            ..self.warm(&record.score, &record.total)
        }
    }

    fn warm(&self, score: &Score, total: &Counts) -> HeatStats {
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
    fn wall(&self, at: Millis) -> Time {
        let ago = self.now.saturating_sub(at) * 1_000_000;
        Time::from_nanos(self.objects.clock.now().nanos().saturating_sub(ago))
    }
}

/// Bytes of pages that the file of a range has in it; all, if the file is not in memory.
fn bytes_in(objects: &Objects, record: &Record) -> u64 {
    let g = pin();
    match objects.inodes.get(record.file.0, &g) {
        Some(inode) => {
            let before = record.range << RANGE_SHIFT;
            let bytes = inode.meta.size().saturating_sub(before);
            bytes.next_multiple_of(PAGE).min(RANGE_BYTES)
        }
        None => RANGE_BYTES,
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
