//! Heat records as values: to keep them, or to carry them to another volume.
//!
//! A record names its file by path, gives the wall-clock time at which it was true, and has rates
//! per second instead of decayed counts. It is independent of half-lives and inode numbers, so it
//! means the same on another volume.

use super::foreign::ForeignFile;
use super::handle::Heat;
use super::key::file_id;
use super::percpu::RANGE_SHIFT;
use super::place::SHARDS;
use super::record::{FileId, KnownHeat, Record, WHOLE};
use super::score::{Counts, Decayed, HalfLives, Millis, Score, count_of, per_second};
use super::state::{HeatState, is_behind, is_gone, mark, now};
use super::tracked::Tracked;
use super::tracker::Tracker;
use crate::caller::Caller;
use crate::errno::Result;
use crate::number::{ROOT, is_control};
use crate::ops::lookup::lookup;
use crate::superblock::{Objects, Superblock};
use hearth_sync::epoch::pin;
use std::collections::{BTreeMap, HashMap};

/// The heat of a file, or of one of its ranges, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedHeat {
    /// Path of the file below the root.
    pub path: Vec<u8>,
    /// Inode number at the time of the export; an import ignores it.
    pub ino: u64,
    /// First byte of the range; `None` for the file as a whole.
    pub start: Option<u64>,
    /// Milliseconds since the epoch at which the record was true.
    pub at_ms: f64,
    /// Temperature, 0 to 100.
    pub temperature: f64,
    /// Reads since the record exists.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Those of `reads` and `writes` that samples stand for.
    pub estimated: u64,
    /// Pages that the backend was asked for.
    pub loads: u64,
    /// Rates by the short half-life.
    pub rates: HeatRates,
    /// Rates by the long half-life.
    pub long_rates: HeatRates,
    /// Last read in milliseconds since the epoch.
    pub last_read_ms: Option<f64>,
    /// Last write in milliseconds since the epoch.
    pub last_write_ms: Option<f64>,
}

/// Decayed rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeatRates {
    /// Reads.
    pub reads: f64,
    /// Writes.
    pub writes: f64,
    /// Bytes read and written.
    pub bytes: f64,
}

/// A part of an export, and where the next part begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatExport {
    /// Each file before its ranges.
    pub records: Vec<ExportedHeat>,
    /// The inode number after which the next part begins; `None` after the last part.
    pub next: Option<u64>,
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeatImport {
    /// Records of files and ranges that were replaced.
    pub records: usize,
    /// Records whose file is not on this volume, or ends before their range.
    pub absent: usize,
}

impl Heat<'_> {
    /// The records of at most `limit` files with inode numbers above `after`, in the order of the
    /// numbers, each file followed by its ranges. Unlinked files are left out. Walks the whole
    /// tree.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn export(&self, after: u64, limit: usize) -> Result<HeatExport> {
        let (sb, heat) = (self.sb, &self.sb.heat);
        heat.drain(&sb.objects);
        let files = heat.records_after(&sb.objects, after, limit);
        let inodes: Vec<u64> = files.keys().map(|file| file.0).collect();
        let paths = self.paths(&inodes)?;
        let exporter = Exporter {
            now: now(&sb.objects),
            wall_ms: sb.now().nanos() as f64 / 1e6,
            lives: heat.settings.half_lives(),
        };
        let mut exported = Vec::new();
        for (file, records) in &files {
            let path = paths.get(&file.0).and_then(|info| info.path.as_deref());
            let Some(path) = path else { continue };
            exported.extend(records.iter().map(|record| exporter.export(record, path)));
        }
        let last = files.last_key_value().map(|(file, _)| file.0);
        Ok(HeatExport {
            records: exported,
            next: last.filter(|_| files.len() >= limit),
        })
    }

    /// Takes records of [`Heat::export`]: each replaces what is known, aged by the time since.
    /// Records of files that do not exist here, or that end before the range, do nothing. Sums of
    /// tenants stay.
    pub fn import(&self, records: &[ExportedHeat]) -> HeatImport {
        let mut done = HeatImport::default();
        let mut found: HashMap<&[u8], Option<FileId>> = HashMap::new();
        // Counts from before the import must not be added to it.
        self.sb.heat.drain(&self.sb.objects);
        for record in records {
            let file = found
                .entry(&record.path)
                .or_insert_with(|| self.find_file(&record.path));
            match file.is_some_and(|file| self.sb.heat.restore(&self.sb.objects, file, record)) {
                true => done.records += 1,
                false => done.absent += 1,
            }
        }
        done
    }

    /// The file at a path, if it may have heat.
    fn find_file(&self, path: &[u8]) -> Option<FileId> {
        let objects = &self.sb.objects;
        if let Some(files) = objects.foreign() {
            return files.at_path(path).map(ForeignFile::id);
        }
        let ino = find(self.sb, path).ok()?;
        let g = pin();
        let inode = objects.inodes.get(ino, &g)?;
        inode.data()?;
        Some(file_id(ino, inode.generation()))
    }
}

impl Tracker {
    /// Records of the first `limit` files above `after`, each file before its ranges.
    fn records_after(
        &self,
        objects: &Objects,
        after: u64,
        limit: usize,
    ) -> BTreeMap<FileId, Vec<Record>> {
        let mut files: BTreeMap<FileId, Vec<Record>> = BTreeMap::new();
        for shard in self.state.get().iter().flat_map(|state| &state.shards) {
            let shard = shard.lock();
            for record in shard.records().filter(|record| record.file.0 > after) {
                let last = files.last_key_value().map(|(file, _)| *file);
                let is_behind = files.len() >= limit && last.is_some_and(|last| record.file > last);
                // Of a file that has ended; another may have its number by now.
                if is_behind || is_gone(objects, record.file) {
                    continue;
                }
                files.entry(record.file).or_default().push(record.clone());
                if files.len() > limit {
                    files.pop_last();
                }
            }
        }
        for records in files.values_mut() {
            records.sort_by_key(|record| record.range.wrapping_add(1));
        }
        files
    }

    /// Replaces what is known by an exported record; false if there is no such file, or it ends
    /// before the range.
    fn restore(&self, objects: &Objects, file: FileId, record: &ExportedHeat) -> bool {
        let g = pin();
        let range = record.start.map_or(WHOLE, |start| start >> RANGE_SHIFT);
        let is_beyond = |found: &Tracked<'_>| range != WHOLE && is_behind(found.size(), range);
        let found = Tracked::of(objects, file, &g);
        let Some(found) = found.filter(|found| found.size().is_some() && !is_beyond(found)) else {
            return false;
        };
        let state = self.state.get_or_init(|| Box::new(HeatState::new()));
        let known = record.known(objects, &self.settings.half_lives());
        // Marked before the record is made, as in a drain.
        let shard = match range {
            WHOLE => state.file_shard(file),
            range => state.range_shard(file, range),
        };
        if let Some(inode) = found.inode() {
            mark(inode, if range == WHOLE { 0 } else { range });
        }
        let mut records = shard.lock();
        records.set_max(self.settings.max_records() / SHARDS);
        records.put(file, range, &known);
        // A truncate or an end that ran beside this may have looked for records before, as in a
        // drain.
        let after = Tracked::of(objects, file, &g);
        let is_cut = after.as_ref().is_some_and(is_beyond);
        if is_cut {
            records.truncate(file, range);
        }
        drop(records);
        let is_dead = is_gone(objects, file);
        if is_dead {
            state.forget(file, true);
        }
        !is_cut && !is_dead
    }
}

impl ExportedHeat {
    /// The record in the time and the half-lives of the volume.
    fn known(&self, objects: &Objects, lives: &HalfLives) -> KnownHeat {
        let now = now(objects);
        let wall_ms = objects.clock.now().nanos() as f64 / 1e6;
        let age = |at_ms: f64| (wall_ms - at_ms).max(0.0) as Millis;
        let decayed = |rates: HeatRates, half_life| Decayed {
            reads: count_of(rates.reads, half_life),
            writes: count_of(rates.writes, half_life),
            bytes: count_of(rates.bytes, half_life),
        };
        let (short, long) = (
            decayed(self.rates, lives.short),
            decayed(self.long_rates, lives.long),
        );
        let decayed = (short, long, self.temperature);
        KnownHeat {
            total: Counts {
                reads: self.reads,
                read_bytes: self.read_bytes,
                writes: self.writes,
                written_bytes: self.written_bytes,
                estimated: self.estimated,
            },
            loads: self.loads,
            last_read: self.last_read_ms.map(|at| now.saturating_sub(age(at))),
            last_write: self.last_write_ms.map(|at| now.saturating_sub(age(at))),
            score: Score::restored(decayed, age(self.at_ms), now, lives),
        }
    }
}

/// Makes exported records, all as of one moment.
struct Exporter {
    now: Millis,
    wall_ms: f64,
    lives: HalfLives,
}

impl Exporter {
    fn export(&self, record: &Record, path: &[u8]) -> ExportedHeat {
        let score = record.score.at(self.now, &self.lives);
        let total = &record.total;
        let rates = |decayed: Decayed, half_life| HeatRates {
            reads: per_second(decayed.reads, half_life),
            writes: per_second(decayed.writes, half_life),
            bytes: per_second(decayed.bytes, half_life),
        };
        let wall_ms = |at: Millis| self.wall_ms - self.now.saturating_sub(at) as f64;
        ExportedHeat {
            path: path.to_vec(),
            ino: record.file.0,
            start: (record.range != WHOLE).then_some(record.range << RANGE_SHIFT),
            at_ms: self.wall_ms,
            temperature: score.degrees(),
            reads: total.reads,
            read_bytes: total.read_bytes,
            writes: total.writes,
            written_bytes: total.written_bytes,
            estimated: total.estimated,
            loads: record.loads,
            rates: rates(score.short, self.lives.short),
            long_rates: rates(score.long, self.lives.long),
            last_read_ms: record.last_read.map(wall_ms),
            last_write_ms: record.last_write.map(wall_ms),
        }
    }
}

/// The inode of a path below the root; symbolic links are not followed.
fn find(sb: &Superblock, path: &[u8]) -> Result<u64> {
    let mut at = ROOT;
    for name in path
        .split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty())
    {
        at = sb.run(&Caller::ROOT, |cx, g| {
            let parent = cx.sb.inode(at, g)?;
            let inode = lookup(cx, parent, name, g)?;
            match is_control(inode.number()) {
                true => Err(crate::errno::Errno::ENOENT.into()),
                false => Ok(inode.number()),
            }
        })?;
    }
    Ok(at)
}
