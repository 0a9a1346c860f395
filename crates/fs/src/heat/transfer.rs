//! Heat as lines of JSON: to keep it, or to carry it to another volume.
//!
//! A line is the record of a file, or of one of its ranges: its path, when it was true (`at`), its
//! temperature, counts, and rates per second, short and long. It says nothing of half-lives, inode
//! numbers matter to people only, and times are of the wall clock: so it means the same elsewhere.

use super::parse::{BadLine, LONG_RATES, Line, RATES, TOTALS, lines};
use super::shard::{FileId, Known, Record, WHOLE};
use super::warmth::{Counts, Decayed, HalfLives, Millis, Warmth, count_of, per_second};
use super::{Heat, State, Tracker, file_id, now};
use crate::caller::Caller;
use crate::errno::Result;
use crate::number::{ROOT, is_control};
use crate::ops::lookup::lookup;
use crate::superblock::Superblock;
use hearth_sync::epoch::pin;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Records of files and ranges that are now as their lines say.
    pub records: usize,
    /// Lines whose file is not on this volume, or ends before their range.
    pub absent: usize,
}

/// Lines of an export, and where the next part goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// A JSON object a line.
    pub lines: String,
    /// The inode after which the next part begins; `None` if this was the last.
    pub next: Option<u64>,
}

impl Heat<'_> {
    /// What is known of `most` files with inode numbers above `after`, in the order of the
    /// numbers, each followed by its ranges. Files without a name are left out. Walks the whole
    /// tree.
    ///
    /// # Errors
    /// What the backend answers.
    pub fn export(&self, after: u64, most: usize) -> Result<Exported> {
        let (sb, heat) = (self.sb, &self.sb.heat);
        heat.fold(sb);
        let files = heat.records_after(sb, after, most);
        let inodes: Vec<u64> = files.keys().map(|file| file.0).collect();
        let names = self.paths(&inodes)?;
        let to_line = ToLine {
            now: now(sb),
            wall_ms: sb.now().nanos() as f64 / 1e6,
            lives: heat.settings.half_lives(),
        };
        let mut lines = String::new();
        for (file, records) in &files {
            let path = names.get(&file.0).and_then(|names| names.path.as_deref());
            for record in path.iter().flat_map(|_| records) {
                let line = to_line.of(record, path.unwrap_or_default());
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "{line}");
            }
        }
        let last = files.last_key_value().map(|(file, _)| file.0);
        Ok(Exported {
            lines,
            next: last.filter(|_| files.len() >= most),
        })
    }

    /// Takes lines of [`Heat::export`]: each record becomes what its line says, aged by the time
    /// since. Lines of files that are not here or end before the range, and empty ones, do nothing.
    /// Sums of tenants stay.
    ///
    /// # Errors
    /// Every line that makes no sense; then nothing was taken.
    pub fn import(&self, text: &str) -> std::result::Result<Imported, Vec<BadLine>> {
        let mut done = Imported::default();
        let mut found: HashMap<Vec<u8>, Option<u64>> = HashMap::new();
        let lines = lines(text)?;
        // What was counted before the import is not to be added to it.
        self.sb.heat.fold(self.sb);
        for line in lines {
            let ino = match found.get(&line.path) {
                Some(ino) => *ino,
                None => {
                    let ino = find(self.sb, &line.path).ok();
                    found.insert(line.path.clone(), ino);
                    ino
                }
            };
            match ino.is_some_and(|ino| self.sb.heat.restore(self.sb, ino, &line)) {
                true => done.records += 1,
                false => done.absent += 1,
            }
        }
        Ok(done)
    }
}

impl Tracker {
    /// Records of the first `most` files above `after`, each file before its ranges.
    fn records_after(
        &self,
        sb: &Superblock,
        after: u64,
        most: usize,
    ) -> BTreeMap<FileId, Vec<Record>> {
        let mut files: BTreeMap<FileId, Vec<Record>> = BTreeMap::new();
        for shard in self.state.get().iter().flat_map(|state| &state.shards) {
            let shard = shard.lock();
            for record in shard.records().filter(|record| record.file.0 > after) {
                let last = files.last_key_value().map(|(file, _)| *file);
                let is_behind = files.len() >= most && last.is_some_and(|last| record.file > last);
                // Of a file that has ended; another may have its number by now.
                if is_behind || super::is_gone(sb, record.file) {
                    continue;
                }
                files.entry(record.file).or_default().push(record.clone());
                if files.len() > most {
                    files.pop_last();
                }
            }
        }
        for records in files.values_mut() {
            records.sort_by_key(|record| record.range.wrapping_add(1));
        }
        files
    }

    /// Puts what a line says in place of what is known; false if there is no such file, or it ends
    /// before the range.
    fn restore(&self, sb: &Superblock, ino: u64, line: &Line) -> bool {
        let g = pin();
        let inode = sb.objects.inodes.get(ino, &g);
        let Some(inode) = inode.filter(|inode| inode.data().is_some()) else {
            return false;
        };
        let is_beyond = || line.range != WHOLE && super::is_beyond(inode, line.range);
        if is_beyond() {
            return false;
        }
        let state = self.state.get_or_init(|| Box::new(State::new()));
        let known = line.known(sb, &self.settings.half_lives());
        let file = file_id(ino, inode.generation());
        // Before the records, as in a fold.
        let shard = match line.range {
            WHOLE => {
                super::mark(inode, 0);
                state.home(file)
            }
            range => {
                super::mark(inode, range);
                state.part(file, range)
            }
        };
        let mut records = shard.lock();
        records.keep_below(self.settings.most_records() / super::SHARDS);
        records.put(file, line.range, &known);
        // Cut or ended meanwhile: as in a fold, who did so may have looked before.
        let is_cut = is_beyond();
        if is_cut {
            records.truncate(file, line.range);
        }
        drop(records);
        if inode.is_dead() {
            state.forget(file, true);
        }
        !is_cut && !inode.is_dead()
    }
}

impl Line {
    /// What it says, in the volume's time and half-lives.
    fn known(&self, sb: &Superblock, lives: &HalfLives) -> Known {
        let now = now(sb);
        let wall_ms = sb.now().nanos() as f64 / 1e6;
        let age = |at_ms: f64| (wall_ms - at_ms).max(0.0) as Millis;
        let decayed = |rates: [f64; 3], half_life| {
            let [reads, writes, bytes] = rates.map(|rate| count_of(rate, half_life));
            Decayed {
                reads,
                writes,
                bytes,
            }
        };
        let (short, long) = (
            decayed(self.rates, lives.short),
            decayed(self.long_rates, lives.long),
        );
        let [reads, read_bytes, writes, written_bytes, loads] = self.totals;
        Known {
            total: Counts {
                reads,
                read_bytes,
                writes,
                written_bytes,
            },
            loads,
            last_read: self.last_read_ms.map(|at| now.saturating_sub(age(at))),
            last_write: self.last_write_ms.map(|at| now.saturating_sub(age(at))),
            warmth: Warmth::restored((short, long, self.degrees), age(self.at_ms), now, lives),
        }
    }
}

/// How records become lines, all of one moment.
struct ToLine {
    now: Millis,
    wall_ms: f64,
    lives: HalfLives,
}

impl ToLine {
    fn of(&self, record: &Record, path: &[u8]) -> Value {
        let warmth = record.warmth.at(self.now, &self.lives);
        let mut fields = Map::new();
        super::path_fields(&mut fields, path);
        let start = (record.range != WHOLE).then_some(record.range << super::RANGE_SHIFT);
        fields.insert("ino".to_owned(), json!(record.file.0));
        fields.insert("start".to_owned(), json!(start));
        fields.insert("at".to_owned(), json!(self.wall_ms / 1000.0));
        fields.insert("temperature".to_owned(), json!(warmth.degrees()));
        let total = &record.total;
        let totals = [
            total.reads,
            total.read_bytes,
            total.writes,
            total.written_bytes,
            record.loads,
        ];
        for (name, value) in TOTALS.iter().zip(totals) {
            fields.insert((*name).to_owned(), json!(value));
        }
        let kinds = [
            (RATES, warmth.short, self.lives.short),
            (LONG_RATES, warmth.long, self.lives.long),
        ];
        for (names, decayed, half_life) in kinds {
            let counts = [decayed.reads, decayed.writes, decayed.bytes];
            for (name, count) in names.iter().zip(counts) {
                fields.insert((*name).to_owned(), json!(per_second(count, half_life)));
            }
        }
        let wall = |at: Option<Millis>| {
            at.map(|at| (self.wall_ms - self.now.saturating_sub(at) as f64) / 1000.0)
        };
        fields.insert("last_read".to_owned(), json!(wall(record.last_read)));
        fields.insert("last_write".to_owned(), json!(wall(record.last_write)));
        Value::Object(fields)
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
