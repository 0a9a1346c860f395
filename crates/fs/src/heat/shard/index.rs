//! Lookup, creation and removal of the records of a shard.

use super::Shard;
use crate::heat::record::{FileId, NIL, Record, WHOLE};

impl Shard {
    pub(super) fn find(&self, file: FileId, range: u64) -> Option<u32> {
        self.find_hashed(self.hash.hash_one((file, range)), file, range)
    }

    pub(super) fn find_hashed(&self, hash: u64, file: FileId, range: u64) -> Option<u32> {
        let same = |&id: &u32| {
            let record = &self.slab[id as usize];
            record.file == file && record.range == range
        };
        self.index.find(hash, same).copied()
    }

    /// The record of `range` of `file`, created by `make` if there is none. For a range `whole` is
    /// the file or anchor.
    pub(super) fn find_or_make(
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

    /// The file's own record, created if there is none. An anchor of the file becomes the record.
    pub(super) fn find_or_make_file(&mut self, file: FileId) -> u32 {
        let id = self.find_or_make(file, WHOLE, NIL, Record::new);
        if std::mem::take(&mut self.slab[id as usize].is_anchor) {
            self.bucket_in(id, 0);
        }
        id
    }

    /// The record of a file, if `range` is [`WHOLE`], or of a range, linked to an anchor if the
    /// file has no record here.
    pub(super) fn find_or_make_of(&mut self, file: FileId, range: u64) -> u32 {
        if range == WHOLE {
            return self.find_or_make_file(file);
        }
        let whole = self.find_or_make(file, WHOLE, NIL, Record::anchor);
        self.find_or_make(file, range, whole, Record::new)
    }

    pub(super) fn allocate(&mut self, record: Record) -> u32 {
        if self.free != NIL {
            let id = self.free;
            self.free = self.slab[id as usize].next;
            self.slab[id as usize] = record;
            return id;
        }
        if self.slab.len() == self.slab.capacity() {
            // Doubling could exceed the limit by half of it.
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

    /// Removes a record. A file or an anchor must have no ranges. For a range, returns its
    /// predecessor.
    pub(super) fn remove(&mut self, id: u32) -> u32 {
        self.bucket_out(id);
        let record = &self.slab[id as usize];
        if !record.is_anchor {
            self.note_changed(id);
        }
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

    /// Unlinks a range and returns its predecessor: the file, the anchor, or a range.
    fn unlink_range(&mut self, id: u32) -> u32 {
        let (before, next) = (self.slab[id as usize].before, self.slab[id as usize].next);
        self.slab[before as usize].next = next;
        if next != NIL {
            self.slab[next as usize].before = before;
        }
        before
    }
}
