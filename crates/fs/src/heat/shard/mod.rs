//! A shard of the records: indexed by key, linked by bucket and by file, bounded in number.
//!
//! The ranges of a large file are striped over the shards. In a shard that has ranges of a file but
//! not its own record, an anchor links them; it goes with the last of them.

mod buckets;
mod evict;
mod index;

use super::place::group_of;
use super::record::{BUCKETS, FileId, KnownHeat, NIL, Record, WHOLE};
use super::score::{Counts, HalfLifeChange, HalfLives, Millis};
use ahash::RandomState;
use buckets::{EMPTY, Ends};
use hashbrown::HashTable;
use std::ops::Range;

/// Number of records up to which memory is not given back.
const SMALL: usize = 1024;

/// A shard of the records. Not synchronised.
pub(super) struct Shard {
    /// Freed records are in a list from `free`, linked by `next`.
    slab: Vec<Record>,
    free: u32,
    index: HashTable<u32>,
    hash: RandomState,
    /// Lists of the records of each bucket: of ranges, then of files.
    buckets: [[Ends; BUCKETS]; 2],
    /// Limit of records.
    max: usize,
    /// The clock hand of the sweep.
    hand: usize,
    /// Groups with a record that was accessed, made or removed since they were kept, as bits.
    changed: u64,
    /// How often records have moved to other slots.
    moves: u64,
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
            changed: 0,
            moves: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Slots of the slab, which the sweep goes over.
    pub fn slots(&self) -> usize {
        self.slab.len()
    }

    /// Bytes that the records take.
    pub fn bytes(&self) -> u64 {
        (self.slab.capacity() * size_of::<Record>() + self.index.allocation_size()) as u64
    }

    /// Sets the limit of records; at least 2, for a file and one range. Evicts nothing.
    pub fn set_max(&mut self, max: usize) {
        self.max = max.max(2);
    }

    /// Sets the limit of records and evicts those beyond it. Free slots of the slab count as well.
    pub fn limit(&mut self, max: usize) {
        self.set_max(max);
        if self.slab.capacity() > self.max {
            while self.len() > self.max {
                self.evict_one();
            }
            self.compact();
        }
    }

    /// Adds accesses to a file whose own record is here. Returns its buckets before (0 without a
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

    /// Adds accesses to one range; returns the buckets as `touch_file`. If the file's own record is
    /// not here, an anchor stands for it.
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

    /// Adds accesses to one range of a file whose own record is here too. Returns the buckets of
    /// the file and of the range as `touch_file`.
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

    /// Replaces the contents of the record of a file or of one of its ranges.
    pub fn put(&mut self, file: FileId, range: u64, known: &KnownHeat) {
        let id = self.find_or_make_of(file, range);
        let record = &mut self.slab[id as usize];
        (record.total, record.loads, record.score) = (known.total, known.loads, known.score);
        (record.last_read, record.last_write) = (known.last_read, known.last_write);
        self.note_changed(id);
        self.move_to(id, known.score.bucket());
    }

    /// [`Shard::put`] of a record as it is kept already.
    pub fn restore(&mut self, file: FileId, range: u64, known: &KnownHeat) {
        // What is evicted for it stays noted, in its own group as well.
        let before = self.changed;
        let is_full = self.len() >= self.max;
        self.put(file, range, known);
        if !is_full {
            self.changed = before;
        }
    }

    /// The groups that changed since this was last called, as bits.
    pub fn take_changed(&mut self) -> u64 {
        std::mem::take(&mut self.changed)
    }

    /// Every group counts as changed.
    pub fn mark_all_changed(&mut self) {
        self.changed = u64::MAX;
    }

    /// How often records have moved to other slots.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Visits the records in these slots.
    pub fn each_slot(&self, slots: Range<usize>, visit: impl FnMut(&Record)) {
        let slots = slots.start.min(self.slab.len())..slots.end.min(self.slab.len());
        let records = self.slab[slots].iter();
        let is_record = |record: &&Record| !record.is_free() && !record.is_anchor;
        records.filter(is_record).for_each(visit);
    }

    /// Counts fetched pages of a file whose own record is here (`range` is [`WHOLE`]) or of a
    /// range.
    pub fn loaded(&mut self, file: FileId, range: u64, pages: u64) {
        let id = self.find_or_make_of(file, range);
        let loads = &mut self.slab[id as usize].loads;
        *loads = loads.saturating_add(pages);
        self.note_changed(id);
    }

    /// Applies a change of half-lives.
    pub fn rescale(&mut self, change: &HalfLifeChange) {
        for record in &mut self.slab {
            record.score.rescale(change);
        }
    }

    /// Drops the records of a file and its ranges.
    pub fn forget(&mut self, file: FileId) {
        if let Some(whole) = self.find(file, WHOLE) {
            self.forget_ranges(whole, 0);
            self.remove(whole);
        }
    }

    /// Drops the records of the ranges from `first` on.
    pub fn truncate(&mut self, file: FileId, first: u64) {
        if let Some(whole) = self.find(file, WHOLE) {
            self.forget_ranges(whole, first);
            self.drop_anchor(whole);
        }
    }

    /// The record of `range` of `file`.
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

    /// All records except anchors, hottest bucket first.
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

    /// Number of records in each bucket, of files or of ranges.
    pub fn histogram(&self, files: bool) -> [u64; BUCKETS] {
        std::array::from_fn(|bucket| u64::from(self.buckets[usize::from(files)][bucket].len))
    }

    /// Visits up to `steps` slots: moves records to the buckets that they have cooled to, and drops
    /// files for which `gone` is true. Calls `moved` with each record before it moves, and its new
    /// bucket. Returns the number of slots visited.
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
        self.note_changed(id);
        // Also within its bucket it moves to the end that is evicted last.
        self.move_to(id, bucket);
        (before, bucket)
    }

    fn note_changed(&mut self, id: u32) {
        let record = &self.slab[id as usize];
        self.changed |= 1 << group_of(record.file, record.range);
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

    /// Removes `whole` if it is an anchor without ranges.
    fn drop_anchor(&mut self, whole: u32) {
        if let Some(record) = self.slab.get(whole as usize)
            && record.is_anchor
            && record.next == NIL
        {
            self.remove(whole);
        }
    }

    /// Moves the records into a slab of their size.
    fn compact(&mut self) {
        let mut fresh = Shard::new();
        fresh.max = self.max;
        let mut records: Vec<Record> = self.records().cloned().collect();
        // Coldest first, because each is inserted in front; files before their ranges.
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
        (fresh.changed, fresh.moves) = (self.changed, self.moves + 1);
        *self = fresh;
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
