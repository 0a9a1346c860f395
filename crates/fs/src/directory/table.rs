//! A table of buckets and its successor while it grows.

use super::bucket::Bucket;
use super::entry::Entry;
use crate::name::{NameHash, bucket_of, split_by_tag};
use hearth_sync::primitive::Arc;
use hearth_sync::rcu::RcuSlot;

/// Head of a table. Two heads may share one array of buckets: the one that the directory publishes
/// and the one that the preceding table points to. Aligned to a cache line, because every lookup
/// reads it.
#[repr(align(64))]
pub(super) struct BucketTable {
    log2: u32,
    buckets: Arc<[Bucket]>,
    /// The larger table that buckets marked as moved have gone to. A head reached through a
    /// predecessor may lack it; the reader then starts again at the directory.
    pub next: RcuSlot<BucketTable>,
}

impl BucketTable {
    pub fn new(log2: u32) -> BucketTable {
        let buckets = (0..1usize << log2).map(|_| Bucket::new()).collect();
        BucketTable {
            log2,
            buckets,
            next: RcuSlot::empty(),
        }
    }

    /// Another head of the same buckets.
    pub fn share(&self) -> BucketTable {
        BucketTable {
            log2: self.log2,
            buckets: self.buckets.clone(),
            next: RcuSlot::empty(),
        }
    }

    /// Whether buckets move to a successor. Only of the head that a directory publishes: see
    /// `next`.
    pub fn grows(&self) -> bool {
        !self.next.is_empty()
    }

    pub fn log2(&self) -> u32 {
        self.log2
    }

    pub fn bucket(&self, hash: NameHash) -> &Bucket {
        &self.buckets[hash.bucket(self.log2)]
    }

    /// The bucket of the hash `position`.
    pub fn bucket_at(&self, position: u64) -> &Bucket {
        &self.buckets[bucket_of(position, self.log2)]
    }

    /// The bucket to which an entry goes that is in bucket `index` of a table of `1 << from`
    /// buckets. Reads the entry only if its tag does not decide it: an entry of a large table is in
    /// no cache.
    pub fn successor_of(&self, index: usize, from: u32, tag: u16, entry: &Entry) -> &Bucket {
        match split_by_tag(index, tag, from, self.log2) {
            Some(index) => &self.buckets[index],
            None => self.bucket_at(NameHash::position_of(entry.cookie())),
        }
    }

    /// All buckets to which the entries of bucket `index` of a table of `1 << from` buckets go.
    pub fn successors(&self, index: usize, from: u32) -> &[Bucket] {
        let each = 1 << (self.log2 - from);
        &self.buckets[index * each..(index + 1) * each]
    }

    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The buckets from `first` on, with their numbers.
    pub fn buckets_from(&self, first: usize) -> impl Iterator<Item = (usize, &Bucket)> {
        self.buckets.iter().enumerate().skip(first)
    }

    /// The buckets from that of `cookie` on.
    pub fn buckets_from_cookie(&self, cookie: u64) -> &[Bucket] {
        &self.buckets[bucket_of(NameHash::position_of(cookie), self.log2)..]
    }

    /// How many cookies belong to a bucket: a power of two.
    pub fn cookies_of_each(&self) -> u64 {
        1 << (NameHash::COOKIE_BITS - self.log2)
    }
}
