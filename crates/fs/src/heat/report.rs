//! Reports: rankings, one file, histogram, what-if. Temperatures are those at the time of the call.

use super::percpu::RANGE_SHIFT;
use super::record::{BUCKETS, FileId, Record, WHOLE};
use super::rows::{FileHeat, HeatRank, HeatStats, RANGE_BYTES, RangeHeat, TenantHeat};
use super::rows::{WhatIf, WhatIfPoint};
use super::state::is_gone;
use super::tracked::Tracked;
use super::tracker::Tracker;
use super::view::View;
use crate::data::PAGE;
use crate::superblock::Objects;
use hearth_sync::epoch::pin;
use std::time::Duration;

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
                stats: view.stats_of(&record),
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
                    ..view.stats(&sum.score, &sum.total)
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
            stats: view.stats_of(&record),
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

/// Bytes of pages that the file of a range has in it; up to its end where only its size is known,
/// and all if the file is not in memory.
fn bytes_in(objects: &Objects, record: &Record) -> u64 {
    let g = pin();
    let file = Tracked::of(objects, record.file, &g);
    let start = record.range << RANGE_SHIFT;
    let bytes = match file.as_ref().and_then(Tracked::size) {
        Some(size) => size.saturating_sub(start),
        None => return RANGE_BYTES,
    };
    let bytes = bytes.next_multiple_of(PAGE).min(RANGE_BYTES);
    let data = file.and_then(|file| file.inode()?.data());
    let holes = data.map(|data| data.absent_pages(start, bytes, &g));
    match holes {
        Some(Ok(pages)) => bytes - pages * PAGE,
        // Only the backend or the host knows.
        Some(Err(_)) | None => bytes,
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
