//! A part of the records: found by key, linked by bucket and by file, bounded in number.
//!
//! The ranges of a large file are spread over the parts. Where a file has ranges and its own record
//! is elsewhere, an anchor holds them together; it goes with the last of them.

mod buckets;
mod evict;
mod index;

use super::record::{BUCKETS, FileId, KnownHeat, NIL, Record, WHOLE};
use super::score::{Counts, HalfLifeChange, HalfLives, Millis};
use ahash::RandomState;
use buckets::{EMPTY, Ends};
use hashbrown::HashTable;

/// Records whose memory is not worth giving back.
const SMALL: usize = 1024;

/// Some of the files, and some of the ranges. Not synchronised.
pub(super) struct Shard {
    /// Freed records are in the list that begins at `free`, linked by `next`.
    slab: Vec<Record>,
    free: u32,
    index: HashTable<u32>,
    hash: RandomState,
    /// First and last record of each bucket: ranges, then files.
    buckets: [[Ends; BUCKETS]; 2],
    /// Most records.
    max: usize,
    /// Where the sweep goes on.
    hand: usize,
}

impl Shard {
    pub fn new() -> Shard {
        Shard {
            slab: Vec::new(),
            free: NIL,
            index: HashTable::new(),
            hash: RandomState::new(),
            buckets: [[EMPTY; BUCKETS]; 2],
            max: usize::MAX,
            hand: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Places for records: what the sweep goes over.
    pub fn slots(&self) -> usize {
        self.slab.len()
    }

    /// Bytes that the records take.
    pub fn bytes(&self) -> u64 {
        (self.slab.capacity() * size_of::<Record>() + self.index.allocation_size()) as u64
    }

    /// Grows to `max` records at most from now on: a file and one range, if it is less.
    pub fn set_max(&mut self, max: usize) {
        self.max = max.max(2);
    }

    /// Holds at most `max` records from now on, and evicts what is too many. Room that records have
    /// left counts as well.
    pub fn limit(&mut self, max: usize) {
        self.set_max(max);
        if self.slab.capacity() > self.max {
            while self.len() > self.max {
                self.evict_one();
            }
            self.compact();
        }
    }

    /// Takes accesses to a file whose own record is here; answers its bucket before (0 without a
    /// record) and after.
    pub fn touch_file(
        &mut self,
        file: FileId,
        counts: &Counts,
        now: Millis,
        lives: &HalfLives,
    ) -> (u8, u8) {
        let whole = self.find_or_make_file(file);
        self.warm(whole, counts, now, lives)
    }

    /// Takes accesses to one range, and answers as `touch_file`. Where the file's own record is not
    /// here, an anchor is.
    pub fn touch_range(
        &mut self,
        file: FileId,
        range: u64,
        counts: &Counts,
        now: Millis,
        lives: &HalfLives,
    ) -> (u8, u8) {
        let part = self.find_or_make_of(file, range);
        self.warm(part, counts, now, lives)
    }

    /// Takes accesses to one range of a file whose own record is here too; answers for the file and
    /// for the range as `touch_file` does, and is told of both.
    pub fn touch(
        &mut self,
        file: FileId,
        range: u64,
        [of_file, of_range]: &[Counts; 2],
        now: Millis,
        lives: &HalfLives,
    ) -> [(u8, u8); 2] {
        let whole = self.find_or_make_file(file);
        let moved = self.warm(whole, of_file, now, lives);
        let part = self.find_or_make(file, range, whole, Record::new);
        [moved, self.warm(part, of_range, now, lives)]
    }

    /// Puts what is known of a file or of one of its ranges in place of what was.
    pub fn put(&mut self, file: FileId, range: u64, known: &KnownHeat) {
        let id = self.find_or_make_of(file, range);
        let record = &mut self.slab[id as usize];
        (record.total, record.loads, record.score) = (known.total, known.loads, known.score);
        (record.last_read, record.last_write) = (known.last_read, known.last_write);
        self.move_to(id, known.score.bucket());
    }

    /// Takes a page that the backend was asked for, of a file whose own record is here (`range` is
    /// [`WHOLE`]) or of a range; at most `max` records.
    pub fn loaded(&mut self, file: FileId, range: u64, max: usize) {
        self.set_max(max);
        let id = self.find_or_make_of(file, range);
        let loads = &mut self.slab[id as usize].loads;
        *loads = loads.saturating_add(1);
    }

    /// Half-lives change.
    pub fn rescale(&mut self, change: &HalfLifeChange) {
        for record in &mut self.slab {
            record.score.rescale(change);
        }
    }

    /// Forgets a file and its ranges.
    pub fn forget(&mut self, file: FileId) {
        if let Some(whole) = self.find(file, WHOLE) {
            self.forget_ranges(whole, 0);
            self.remove(whole);
        }
    }

    /// Forgets the ranges from `first` on.
    pub fn truncate(&mut self, file: FileId, first: u64) {
        if let Some(whole) = self.find(file, WHOLE) {
            self.forget_ranges(whole, first);
            self.drop_anchor(whole);
        }
    }

    /// The record of `range` of `file`, or of all of it.
    pub fn get(&self, file: FileId, range: u64) -> Option<&Record> {
        self.find(file, range).map(|id| &self.slab[id as usize])
    }

    /// The ranges of `file` that have records, in no order.
    pub fn ranges(&self, file: FileId) -> impl Iterator<Item = &Record> {
        let first = self
            .find(file, WHOLE)
            .map_or(NIL, |whole| self.slab[whole as usize].next);
        let mut at = first;
        std::iter::from_fn(move || {
            let record = self.slab.get(at as usize)?;
            at = record.next;
            Some(record)
        })
    }

    /// Every record but anchors, hottest bucket first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let ends = self.buckets.iter().flat_map(|kind| kind.iter().rev());
        ends.flat_map(move |ends| {
            let mut at = ends.first;
            std::iter::from_fn(move || {
                let record = self.slab.get(at as usize)?;
                at = record.colder;
                Some(record)
            })
        })
    }

    /// Records in each bucket: of ranges, or of files.
    pub fn histogram(&self, files: bool) -> [u64; BUCKETS] {
        std::array::from_fn(|bucket| u64::from(self.buckets[usize::from(files)][bucket].len))
    }

    /// Moves up to `steps` records to the buckets that they have cooled to, and forgets the files
    /// that `gone` names; answers how many were looked at. `moved` sees each before it moves, and
    /// where to.
    pub fn sweep(
        &mut self,
        steps: usize,
        now: Millis,
        lives: &HalfLives,
        mut gone: impl FnMut(FileId) -> bool,
        mut moved: impl FnMut(&Record, u8),
    ) -> usize {
        let steps = steps.min(self.slab.len());
        for _ in 0..steps {
            if self.hand >= self.slab.len() {
                self.hand = 0;
            }
            let id = self.hand as u32;
            self.hand += 1;
            let record = &self.slab[id as usize];
            if record.is_free() {
                continue;
            }
            if record.range == WHOLE && gone(record.file) {
                let file = record.file;
                self.forget(file);
                continue;
            }
            let bucket = record.score.at(now, lives).bucket();
            if bucket != record.bucket && !record.is_anchor {
                moved(record, bucket);
                self.move_to(id, bucket);
            }
        }
        let is_sparse = self.slab.len() > SMALL && self.len() < self.slab.len() / 4;
        if is_sparse || self.len() == 0 && !self.slab.is_empty() {
            self.compact();
        }
        steps
    }

    fn warm(&mut self, id: u32, counts: &Counts, now: Millis, lives: &HalfLives) -> (u8, u8) {
        let record = &mut self.slab[id as usize];
        let before = record.bucket;
        record.score.touch(counts, now, lives);
        record.total.add(counts);
        if counts.reads > 0 {
            record.last_read = Some(now);
        }
        if counts.writes > 0 {
            record.last_write = Some(now);
        }
        let bucket = record.score.bucket();
        // Also within its bucket it goes to the end that is evicted last.
        self.move_to(id, bucket);
        (before, bucket)
    }

    fn forget_ranges(&mut self, whole: u32, from: u64) {
        let mut at = self.slab[whole as usize].next;
        while at != NIL {
            let record = &self.slab[at as usize];
            let next = record.next;
            if record.range >= from {
                self.remove(at);
            }
            at = next;
        }
    }

    /// Removes `whole` if it is an anchor that holds nothing any more.
    fn drop_anchor(&mut self, whole: u32) {
        if let Some(record) = self.slab.get(whole as usize)
            && record.is_anchor
            && record.next == NIL
        {
            self.remove(whole);
        }
    }

    /// Moves what is left into memory of its size.
    fn compact(&mut self) {
        let mut fresh = Shard::new();
        fresh.max = self.max;
        let mut records: Vec<Record> = self.records().cloned().collect();
        // Coldest first, so that each goes in front of those before; files before their ranges.
        records.reverse();
        records.sort_by_key(|record| record.range != WHOLE);
        fresh.slab.reserve_exact(self.len());
        for record in records {
            let whole = match record.range {
                WHOLE => NIL,
                _ => fresh.find_or_make(record.file, WHOLE, NIL, Record::anchor),
            };
            let id = fresh.find_or_make(record.file, record.range, whole, Record::new);
            let bucket = record.bucket;
            let links = &mut fresh.slab[id as usize];
            *links = Record {
                bucket: links.bucket,
                hotter: links.hotter,
                colder: links.colder,
                next: links.next,
                before: links.before,
                ..record
            };
            fresh.move_to(id, bucket);
        }
        *self = fresh;
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
