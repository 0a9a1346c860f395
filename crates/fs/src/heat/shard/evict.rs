//! Eviction of the coldest record of a shard.

use super::Shard;
use crate::heat::record::{BUCKETS, NIL};

impl Shard {
    pub(super) fn evict_one(&mut self) {
        self.evict_one_but(NIL);
    }

    /// Evicts the coldest record, ranges of a bucket before its files, but never `kept`.
    pub(super) fn evict_one_but(&mut self, kept: u32) {
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
            // A file with ranges counts as hot as its hottest range.
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
}
