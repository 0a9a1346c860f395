//! A part of the records: found by key, linked by bucket and by file, bounded in number.
//!
//! The ranges of a large file are spread over the parts. Where a file has ranges and its own record
//! is elsewhere, an anchor holds them together; it goes with the last of them.

use super::warmth::{Change, Counts, HalfLives, Millis, Warmth};
use ahash::RandomState;
use hashbrown::HashTable;

/// A file and its generation.
pub(super) type FileId = (u64, u32);

/// The range that stands for the whole file.
pub(super) const WHOLE: u64 = u64::MAX;

/// Buckets of the map.
pub(super) const BUCKETS: usize = 256;

/// No record.
const NIL: u32 = u32::MAX;

/// Records whose memory is not worth giving back.
const SMALL: usize = 1024;

/// What is known of a file or of one of its ranges.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub file: FileId,
    /// In units of 1 MiB, or [`WHOLE`], of an anchor as well.
    pub range: u64,
    pub total: Counts,
    /// Pages that the backend was asked for.
    pub loads: u64,
    pub last_read: Option<Millis>,
    pub last_write: Option<Millis>,
    pub warmth: Warmth,
    bucket: u8,
    /// Holds ranges of a file together, and is in no bucket.
    is_anchor: bool,
    /// Neighbours in the bucket.
    hotter: u32,
    colder: u32,
    /// Of a file: its first range. Of a range: the next range of the file.
    next: u32,
    /// Of a range: the one before, or the file, or the anchor.
    before: u32,
}

/// A record without its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub total: Counts,
    pub loads: u64,
    pub last_read: Option<Millis>,
    pub last_write: Option<Millis>,
    pub warmth: Warmth,
}

/// Bytes that one record takes, its place in the index included while that grows.
pub(super) const RECORD_BYTES: u64 = size_of::<Record>() as u64 + 20;

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

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
    len: u32,
}

const EMPTY: Ends = Ends {
    first: NIL,
    last: NIL,
    len: 0,
};

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
    pub fn keep_below(&mut self, max: usize) {
        self.max = max.max(2);
    }

    /// Holds at most `max` records from now on, and evicts what is too many. Room that records have
    /// left counts as well.
    pub fn limit(&mut self, max: usize) {
        self.keep_below(max);
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
    pub fn put(&mut self, file: FileId, range: u64, known: &Known) {
        let id = self.find_or_make_of(file, range);
        let record = &mut self.slab[id as usize];
        (record.total, record.loads, record.warmth) = (known.total, known.loads, known.warmth);
        (record.last_read, record.last_write) = (known.last_read, known.last_write);
        self.move_to(id, known.warmth.bucket());
    }

    /// Takes a page that the backend was asked for, of a file whose own record is here (`range` is
    /// [`WHOLE`]) or of a range; at most `max` records.
    pub fn loaded(&mut self, file: FileId, range: u64, max: usize) {
        self.keep_below(max);
        let id = self.find_or_make_of(file, range);
        let loads = &mut self.slab[id as usize].loads;
        *loads = loads.saturating_add(1);
    }

    /// Half-lives change.
    pub fn adapt(&mut self, change: &Change) {
        for record in &mut self.slab {
            record.warmth.adapt(change);
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
            let bucket = record.warmth.at(now, lives).bucket();
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
        record.warmth.touch(counts, now, lives);
        record.total.add(counts);
        if counts.reads > 0 {
            record.last_read = Some(now);
        }
        if counts.writes > 0 {
            record.last_write = Some(now);
        }
        let bucket = record.warmth.bucket();
        // Also within its bucket it goes to the end that is evicted last.
        self.move_to(id, bucket);
        (before, bucket)
    }

    fn find(&self, file: FileId, range: u64) -> Option<u32> {
        self.find_hashed(self.hash.hash_one((file, range)), file, range)
    }

    fn find_hashed(&self, hash: u64, file: FileId, range: u64) -> Option<u32> {
        let same = |&id: &u32| {
            let record = &self.slab[id as usize];
            record.file == file && record.range == range
        };
        self.index.find(hash, same).copied()
    }

    /// The record of `range` of `file`, made by `make` if there is none. Of a range, `whole` is the
    /// file or anchor.
    fn find_or_make(
        &mut self,
        file: FileId,
        range: u64,
        whole: u32,
        make: fn(FileId, u64) -> Record,
    ) -> u32 {
        let hash = self.hash.hash_one((file, range));
        if let Some(id) = self.find_hashed(hash, file, range) {
            return id;
        }
        if self.len() >= self.max {
            self.evict_one_but(whole);
        }
        let id = self.allocate(make(file, range));
        let (slab, hasher) = (&self.slab, &self.hash);
        self.index.insert_unique(hash, id, |&id| {
            let record = &slab[id as usize];
            hasher.hash_one((record.file, record.range))
        });
        if whole != NIL {
            self.link_range(whole, id);
        }
        self.bucket_in(id, 0);
        id
    }

    /// The file's own record. An anchor that stood for it becomes one.
    fn find_or_make_file(&mut self, file: FileId) -> u32 {
        let id = self.find_or_make(file, WHOLE, NIL, Record::new);
        if std::mem::take(&mut self.slab[id as usize].is_anchor) {
            self.bucket_in(id, 0);
        }
        id
    }

    /// The record of a file, if `range` is [`WHOLE`], or that of a range, held by an anchor if
    /// there is none of the file.
    fn find_or_make_of(&mut self, file: FileId, range: u64) -> u32 {
        if range == WHOLE {
            return self.find_or_make_file(file);
        }
        let whole = self.find_or_make(file, WHOLE, NIL, Record::anchor);
        self.find_or_make(file, range, whole, Record::new)
    }

    fn allocate(&mut self, record: Record) -> u32 {
        if self.free != NIL {
            let id = self.free;
            self.free = self.slab[id as usize].next;
            self.slab[id as usize] = record;
            return id;
        }
        if self.slab.len() == self.slab.capacity() {
            // Doubling would pass a limit by half of what it allows.
            let room = self.max.saturating_sub(self.slab.len());
            let more = match self.max {
                usize::MAX => self.slab.len() + 64,
                _ => (self.slab.len() / 4 + 64).min(room.max(1)),
            };
            self.slab.reserve_exact(more);
        }
        self.slab.push(record);
        (self.slab.len() - 1) as u32
    }

    fn evict_one(&mut self) {
        self.evict_one_but(NIL);
    }

    /// Evicts the coldest record: ranges of a bucket before its files, never `kept`.
    fn evict_one_but(&mut self, kept: u32) {
        for bucket in 0..BUCKETS {
            let range = self.buckets[0][bucket].last;
            if range != NIL {
                let whole = self.remove(range);
                if whole != kept {
                    self.drop_anchor(whole);
                }
                return;
            }
            let mut file = self.buckets[1][bucket].last;
            // A file that has ranges is as hot as the hottest of them.
            while file != NIL {
                let record = &self.slab[file as usize];
                if file != kept && record.next == NIL {
                    self.remove(file);
                    return;
                }
                file = record.hotter;
            }
        }
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

    /// Takes a record out of everything. A file or an anchor has no ranges any more. Answers, of a
    /// range, what stood before it.
    fn remove(&mut self, id: u32) -> u32 {
        self.bucket_out(id);
        let record = &self.slab[id as usize];
        let hash = self.hash.hash_one((record.file, record.range));
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        let whole = match record.range {
            WHOLE => NIL,
            _ => self.unlink_range(id),
        };
        let record = &mut self.slab[id as usize];
        record.file = (0, 0);
        record.next = self.free;
        self.free = id;
        whole
    }

    fn link_range(&mut self, whole: u32, id: u32) {
        let first = std::mem::replace(&mut self.slab[whole as usize].next, id);
        self.slab[id as usize].next = first;
        self.slab[id as usize].before = whole;
        if first != NIL {
            self.slab[first as usize].before = id;
        }
    }

    /// Answers what stands before in the list of the file: its record or anchor, or a range.
    fn unlink_range(&mut self, id: u32) -> u32 {
        let (before, next) = (self.slab[id as usize].before, self.slab[id as usize].next);
        self.slab[before as usize].next = next;
        if next != NIL {
            self.slab[next as usize].before = before;
        }
        before
    }

    fn move_to(&mut self, id: u32, bucket: u8) {
        self.bucket_out(id);
        self.bucket_in(id, bucket);
    }

    fn bucket_in(&mut self, id: u32, bucket: u8) {
        let record = &mut self.slab[id as usize];
        if record.is_anchor {
            return;
        }
        let ends = &mut self.buckets[usize::from(record.range == WHOLE)][bucket as usize];
        (record.bucket, record.hotter, record.colder) = (bucket, NIL, ends.first);
        let second = std::mem::replace(&mut ends.first, id);
        ends.len += 1;
        match second {
            NIL => ends.last = id,
            second => self.slab[second as usize].hotter = id,
        }
    }

    fn bucket_out(&mut self, id: u32) {
        let record = &self.slab[id as usize];
        if record.is_anchor {
            return;
        }
        let (hotter, colder) = (record.hotter, record.colder);
        let ends = &mut self.buckets[usize::from(record.range == WHOLE)][record.bucket as usize];
        ends.len -= 1;
        if hotter == NIL {
            ends.first = colder;
        }
        if colder == NIL {
            ends.last = hotter;
        }
        if hotter != NIL {
            self.slab[hotter as usize].colder = colder;
        }
        if colder != NIL {
            self.slab[colder as usize].hotter = hotter;
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

impl Record {
    fn new(file: FileId, range: u64) -> Record {
        Record {
            file,
            range,
            total: Counts::default(),
            loads: 0,
            last_read: None,
            last_write: None,
            warmth: Warmth::default(),
            bucket: 0,
            is_anchor: false,
            hotter: NIL,
            colder: NIL,
            next: NIL,
            before: NIL,
        }
    }

    fn anchor(file: FileId, range: u64) -> Record {
        Record {
            is_anchor: true,
            ..Record::new(file, range)
        }
    }

    fn is_free(&self) -> bool {
        self.file == (0, 0)
    }

    /// Bucket of the last pass.
    pub fn last_bucket(&self) -> u8 {
        self.bucket
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
#[path = "shard_tests.rs"]
mod tests;
