//! A directory: a concurrent hash table from name to entry. It is also the dentry cache.
//!
//! Lookups and listings take no lock and write nothing shared (C2, C3). A change locks the bucket
//! of its name, so changes of different names touch different cache lines (C1); a rename locks two.
//! Insertions grow the table: they move its buckets to a larger one, a few at a time, while
//! everything else goes on. Buckets are in the order of the upper bits of the hash, so a listing in
//! cookie order survives growth (C6). A table grows for its entries, and once for the cores, when
//! two of them have contended for one bucket again and again.
//!
//! Lock order:
//! ```text
//! grow                 (taken by trying, except to load a whole directory)
//!   bucket             two of them in the order of (directory number, hash)
//!     bucket of a child, only by trying: removal of a directory while its parent's bucket is held
//! ```

mod bucket;
mod change;
mod entry;
mod fill;
#[cfg(test)]
mod fill_tests;
mod grow;
#[cfg(test)]
mod grow_tests;
mod list;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use change::{EntryChange, Found, Locked, Pair, Refused, Removal, lock_pair};
pub(crate) use entry::Entry;

use crate::cache_padded::CachePadded;
use crate::hashed::Hashed;
use crate::name::NameHash;
use bucket::Bucket;
use hearth_sync::epoch::Guard;
use hearth_sync::lock::{Class, Lock, Waiting};
use hearth_sync::primitive::Backoff;
use hearth_sync::primitive::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use hearth_sync::rcu::RcuSlot;
use hearth_sync::seq::SeqCount;
use table::BucketTable;

/// The backend may have names that are not in memory.
const UNKNOWN: u8 = 0;
/// A name that is not in memory does not exist: the table has every name.
const LOADED: u8 = 1;
/// Like `LOADED`, of a directory that was made here and never evicted. Only such a directory is
/// complete without a table. Any other directory without a table was evicted, and a reader that saw
/// no table cannot tell by the present state whether a load came in between.
const NEW: u8 = 2;
/// In place of the generation of a removed directory's parent: the parent is gone.
pub(crate) const NO_PARENT: u32 = u32::MAX;
/// Buckets of a new table, as a power of two.
const FIRST_LOG2: u32 = 3;
/// Largest table; the upper bits of a cookie choose the bucket.
const MAX_LOG2: u32 = NameHash::GROUP_BITS;
/// A table grows when it holds more entries than this per bucket.
const FULL: u64 = 4;
/// Most entries of a small table. Its successor has four times as many buckets, one or two entries
/// in each, which few names overflow. The successor of a larger one has twice as many, two to four
/// entries in each, because there the memory of empty slots counts.
const SMALL_TABLE: u64 = FULL << 12;
/// A bucket in the memory budget: its line, and lines of the names in it. Between two growths there
/// are one to four, in large tables two to four: two and a half count.
const BUCKET_BYTES: u64 = 64 + 5 * 64 / 2;
/// What a directory takes beside its inode with a table of the first size.
pub(crate) const FIRST_TABLE_BYTES: i64 = (BUCKET_BYTES << FIRST_LOG2) as i64;
/// Buckets per core in the table of a directory that several threads change at once, and for all
/// cores together.
const BUCKETS_PER_CORE: usize = 32;
const MOST_BUCKETS: usize = 1024;
/// How often two threads must have contended for a bucket before the table grows for it.
const CONTENTION: u32 = 8;

struct Grow;
impl Class for Grow {
    const NAME: &'static str = "directory.grow";
    const RANK: u32 = 30;
}

/// Lock class of a rename of the directory.
pub(crate) struct Moves;
impl Class for Moves {
    const NAME: &'static str = "directory.moves";
    const RANK: u32 = 12;
}

/// The names of one directory. Aligned to a cache line, so that writes to neighbouring allocations
/// do not disturb lookups.
#[repr(align(64))]
pub(crate) struct Directory {
    /// Published by the holder of `grow`; read under the epoch.
    table: RcuSlot<BucketTable>,
    /// What a missing entry means: [`UNKNOWN`], [`LOADED`] or [`NEW`]. Written by eviction and by a
    /// load of the whole directory, both under `grow` and every bucket lock.
    completeness: AtomicU8,
    /// Away from the table, which every step of every walk reads: a rename of this directory does
    /// not disturb lookups in it.
    link: CachePadded<ParentLink>,
    growth: CachePadded<Growth>,
}

/// Where the directory is.
struct ParentLink {
    /// Inode number of the parent; a rename across directories changes it under the volume's rename
    /// lock.
    parent: AtomicU64,
    /// Counts the renames of the directory, in place and to another parent. Written with the bucket
    /// of its name locked.
    moves: SeqCount<Moves>,
    /// Generation of the parent when this directory was removed; the parent's number may have been
    /// reused. 0 before. Written with the bucket of its name locked.
    dead_parent: AtomicU32,
}

/// State for changes of the table as a whole, apart from what every lookup reads.
struct Growth {
    /// How often two threads contended for one bucket, up to `CONTENTION`.
    contention: AtomicU32,
    grow: Lock<Grow, ()>,
    /// The epoch in which a name was last recorded for the backend.
    logged: AtomicU64,
    /// How many tables came before the present one. Written by the holder of `grow`.
    tables: AtomicU32,
    /// Buckets of a growing table that have moved. Used by the holder of `grow`.
    moved: AtomicUsize,
    /// Names that were asked for at the backend one by one, since the directory lost names the last
    /// time. Relaxed: a hint.
    misses: AtomicU32,
    /// Bytes of the table that the memory budget knows of. Relaxed: each change of it is told once.
    counted: AtomicU64,
}

/// Result of a lookup.
pub(crate) enum Lookup<'g> {
    Hit(&'g Entry),
    Negative,
    /// Not in memory, and only the backend knows.
    Unknown,
}

impl Directory {
    pub fn new(parent: u64, complete: bool) -> Directory {
        Directory {
            table: RcuSlot::empty(),
            completeness: AtomicU8::new(if complete { NEW } else { UNKNOWN }),
            link: CachePadded(ParentLink {
                parent: AtomicU64::new(parent),
                moves: SeqCount::new(),
                dead_parent: AtomicU32::new(0),
            }),
            growth: CachePadded(Growth {
                contention: AtomicU32::new(0),
                grow: Lock::new(()),
                logged: AtomicU64::new(0),
                tables: AtomicU32::new(0),
                moved: AtomicUsize::new(0),
                misses: AtomicU32::new(0),
                counted: AtomicU64::new(0),
            }),
        }
    }

    /// Bytes of the table and of `entries` names in it, without the extra memory of long names.
    pub fn bytes(&self, entries: u64, g: &Guard) -> u64 {
        let table = self.table.load(g);
        let next = table.and_then(|table| table.next.load(g));
        let tables = table.into_iter().chain(next);
        let buckets: usize = tables.map(|table| table.buckets().len()).sum();
        (buckets * size_of::<Bucket>()) as u64 + entries * size_of::<Entry>() as u64
    }

    /// Bytes that came since the last call, or went, for the memory budget: the table with the
    /// names that it has room for. Those of a table of the first size count with the inode.
    pub fn recount(&self, g: &Guard) -> i64 {
        let table = self.table.load(g);
        let next = table.and_then(|table| table.next.load(g));
        let tables = table.into_iter().chain(next);
        let buckets: u64 = tables.map(|table| table.buckets().len() as u64).sum();
        let beyond = buckets.saturating_sub(1 << FIRST_LOG2) * BUCKET_BYTES;
        let before = self.growth.0.counted.swap(beyond, Ordering::Relaxed);
        beyond as i64 - before as i64
    }

    /// Bytes that count when nothing of the directory is left: what the memory budget gets back.
    pub fn counted(&self) -> i64 {
        self.growth.0.counted.swap(0, Ordering::Relaxed) as i64
    }

    /// The count of its renames.
    pub fn moves(&self) -> &SeqCount<Moves> {
        &self.link.0.moves
    }

    pub fn parent(&self) -> u64 {
        // Relaxed: one number. A caller that needs it to agree with the tree holds the rename lock.
        self.link.0.parent.load(Ordering::Relaxed)
    }

    /// Generation of the parent when this directory was removed, or [`NO_PARENT`].
    pub fn dead_parent(&self) -> u32 {
        // Relaxed: written before the bucket of its name is open again, without the name. Whoever
        // finds the parent's number reused has it from a thread that has locked that bucket.
        // Written once more when the parent is found to be gone for good.
        self.link.0.dead_parent.load(Ordering::Relaxed)
    }

    /// Records the parent from which this directory was removed, or that the parent is gone.
    pub fn set_dead_parent(&self, generation: u32) {
        // Relaxed: see `dead_parent`.
        self.link.0.dead_parent.store(generation, Ordering::Relaxed);
    }

    pub fn set_parent(&self, ino: u64) {
        // Relaxed: see `parent`.
        self.link.0.parent.store(ino, Ordering::Relaxed);
    }

    /// Looks a name up without a lock or a shared write.
    // Always inlined: it is most of a step of a walk, and a call would take a third as much again.
    #[inline(always)]
    pub fn lookup<'g>(&'g self, at: &Hashed<'_>, g: &'g Guard) -> Lookup<'g> {
        let looked = match self.table.load(g) {
            Some(table) => self.look(table.bucket_at(at.hash.value()), at, g),
            None => Some(self.absence_of_all()),
        };
        // By value: who need not look again has no need of the name in memory.
        match looked.unwrap_or_else(|| self.lookup_again(*at, g)) {
            // What an entry says never changes.
            Lookup::Hit(entry) if entry.is_negative() => Lookup::Negative,
            looked => looked,
        }
    }

    /// Looks a name up whose bucket was being changed, or has moved. A hit may be negative.
    #[cold]
    #[inline(never)]
    fn lookup_again<'g>(&'g self, at: Hashed<'_>, g: &'g Guard) -> Lookup<'g> {
        loop {
            let Some((_, bucket)) = self.live(at.hash.value(), g) else {
                return self.absence_of_all();
            };
            let _waited_for = bucket.seq.read_begin();
            if let Some(looked) = self.look(bucket, &at, g) {
                return looked;
            }
        }
    }

    /// Looks once; `None` if the bucket has moved, or was changed meanwhile. A hit may be negative.
    #[inline(always)]
    fn look<'g>(&self, bucket: &'g Bucket, at: &Hashed<'_>, g: &'g Guard) -> Option<Lookup<'g>> {
        let start = bucket.seq.try_read_begin()?;
        // Read between the counts, like the entries: a bucket moves inside a write section.
        if bucket.is_moved() {
            return None;
        }
        if let Some(entry) = bucket.find(at, g) {
            return (!bucket.seq.read_retry(start)).then_some(Lookup::Hit(entry));
        }
        // Read before the count is checked: eviction drops entries inside a write section.
        let absence = self.absence();
        (!bucket.seq.read_retry(start)).then_some(absence)
    }

    /// The bucket in which the entries around `position` are now; `None` without a table.
    #[inline]
    fn live<'g>(&'g self, position: u64, g: &'g Guard) -> Option<(&'g BucketTable, &'g Bucket)> {
        let table = self.table.load(g)?;
        let bucket = table.bucket_at(position);
        if bucket.is_moved() {
            return self.live_elsewhere(position, g);
        }
        Some((table, bucket))
    }

    /// Finds the bucket while the table grows, or has just been evicted.
    #[cold]
    #[inline(never)]
    fn live_elsewhere<'g>(
        &'g self,
        position: u64,
        g: &'g Guard,
    ) -> Option<(&'g BucketTable, &'g Bucket)> {
        let backoff = Backoff::new();
        let mut waiting = None;
        loop {
            let mut table = self.table.load(g)?;
            loop {
                let bucket = table.bucket_at(position);
                if !bucket.is_moved() {
                    return Some((table, bucket));
                }
                match table.next.load(g) {
                    Some(next) => table = next,
                    None => break,
                }
            }
            waiting.get_or_insert_with(Waiting::<Grow>::begin);
            backoff.snooze();
        }
    }

    fn absence<'g>(&self) -> Lookup<'g> {
        if self.is_complete() {
            Lookup::Negative
        } else {
            Lookup::Unknown
        }
    }

    pub fn is_complete(&self) -> bool {
        // Acquire: partner of the store in `evict` and `load`. A reader that still sees a complete
        // directory after an eviction dropped an entry also fails the bucket's sequence check.
        self.completeness.load(Ordering::Acquire) != UNKNOWN
    }

    /// What every name is where no table was seen before.
    #[cold]
    #[inline(never)]
    fn absence_of_all<'g>(&self) -> Lookup<'g> {
        match self.is_new() {
            true => Lookup::Negative,
            false => Lookup::Unknown,
        }
    }

    /// Whether the directory was empty when no table was seen before.
    fn is_new(&self) -> bool {
        // Acquire: partner of the store in `evict`, which comes before the table goes.
        self.completeness.load(Ordering::Acquire) == NEW
    }

    /// Two threads contended for a bucket. True if the table should grow for it.
    #[cold]
    #[inline(never)]
    fn contend(&self, g: &Guard) -> bool {
        // Relaxed: a hint; counts may be lost.
        let met = self.growth.0.contention.load(Ordering::Relaxed);
        if met < CONTENTION {
            self.growth.0.contention.store(met + 1, Ordering::Relaxed);
        }
        let table = self.table.load(g);
        table.is_some_and(|table| self.wanted(0, table.log2()).is_some())
    }
}
