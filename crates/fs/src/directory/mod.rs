//! A directory: a concurrent hash table from name to entry, which is the dentry cache as well.
//!
//! Lookups and listings take no lock and write nothing shared (C2, C3). A change locks the bucket
//! of its name, so changes of different names touch different cache lines (C1); a rename locks two.
//! Growth moves bucket after bucket to a larger table while everything goes on, some at a time, by
//! those who insert. Buckets are in the
//! order of the upper bits of the hash, so a listing in cookie order survives growth (C6). A table
//! grows for its entries, and once for the cores, when two of them have wanted one bucket at the
//! same time again and again.
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
mod grow;
#[cfg(test)]
mod grow_tests;
mod learn;
#[cfg(test)]
mod learn_tests;
mod list;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use change::{Change, Hashed, Killing, Locked, Pair, Refused, lock_pair};
pub(crate) use entry::Entry;

use crate::line::OwnLine;
use crate::name::NameHash;
use bucket::Bucket;
use hearth_sync::epoch::Guard;
use hearth_sync::lock::{Class, Lock, Waiting};
use hearth_sync::primitive::Backoff;
use hearth_sync::primitive::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use hearth_sync::rcu::RcuSlot;
use hearth_sync::seq::SeqCount;
use table::Table;

/// The backend may have names that are not here.
const UNKNOWN: u8 = 0;
/// What is not here is nowhere: the table has every name.
const LOADED: u8 = 1;
/// The same of a directory that was made here and never forgotten anything. It alone may have no
/// table for want of names; that of any other was evicted, and whoever saw that it has none cannot
/// tell by what it is now whether a load came between.
const NEW: u8 = 2;
/// Instead of the generation of what was above a removed directory: that is gone.
pub(crate) const ALONE: u32 = u32::MAX;
/// Buckets of a new table, as a power of two.
const FIRST_LOG2: u32 = 3;
/// Largest table; the cookie's upper bits choose the bucket.
const MAX_LOG2: u32 = 32;
/// A table grows when it holds more entries than this for each bucket.
const FULL: u64 = 4;
/// Buckets for each core in the table of a directory that several change at once, and of all cores.
const APART: usize = 32;
const MOST_APART: usize = 1024;
/// How often two must have wanted one bucket at the same time before that counts.
const MEETINGS: u32 = 8;

struct Grow;
impl Class for Grow {
    const NAME: &'static str = "directory.grow";
    const RANK: u32 = 30;
}

/// Waits for a rename that gives the directory another one above.
pub(crate) struct Moves;
impl Class for Moves {
    const NAME: &'static str = "directory.moves";
    const RANK: u32 = 12;
}

/// Names of one directory, on a line of its own: what is allocated beside it is no concern of those
/// who look.
#[repr(align(64))]
pub(crate) struct Directory {
    /// Published by the holder of `grow`; read under the epoch.
    table: RcuSlot<Table>,
    /// What absence here means: [`UNKNOWN`], [`LOADED`] or [`NEW`]. Written by eviction and by a
    /// whole load, both under `grow` and every bucket lock.
    known: AtomicU8,
    /// Number of the directory above; changed by a rename across directories under the volume's
    /// rename lock.
    parent: AtomicU64,
    /// Counts the renames that give the directory another one above. Written under the volume's
    /// rename lock.
    pub moves: SeqCount<Moves>,
    /// Generation of the directory above when this one was removed; its number may be another's
    /// since.
    orphaned: AtomicU32,
    growth: OwnLine<Growth>,
}

/// What those ask who change a table as a whole, apart from what every lookup reads.
struct Growth {
    /// How often two threads wanted to change one bucket at the same time, up to `MEETINGS`.
    meetings: AtomicU32,
    grow: Lock<Grow, ()>,
    /// How many tables went before the present one. Written by the holder of `grow`.
    tables: AtomicU32,
    /// Buckets of a table that grows that have moved. Used by the holder of `grow`.
    moved: AtomicUsize,
}

/// Answer of a lookup.
pub(crate) enum Look<'g> {
    Hit(&'g Entry),
    Absent,
    /// Not in memory, and only the backend knows.
    Unknown,
}

impl Directory {
    pub fn new(parent: u64, complete: bool) -> Directory {
        Directory {
            table: RcuSlot::empty(),
            known: AtomicU8::new(if complete { NEW } else { UNKNOWN }),
            parent: AtomicU64::new(parent),
            moves: SeqCount::new(),
            orphaned: AtomicU32::new(0),
            growth: OwnLine(Growth {
                meetings: AtomicU32::new(0),
                grow: Lock::new(()),
                tables: AtomicU32::new(0),
                moved: AtomicUsize::new(0),
            }),
        }
    }

    /// Bytes of the table and of `entries` names in it, without what long names take besides.
    pub fn bytes(&self, entries: u64, g: &Guard) -> u64 {
        let table = self.table.load(g);
        let next = table.and_then(|table| table.next.load(g));
        let tables = table.into_iter().chain(next);
        let buckets: usize = tables.map(|table| table.buckets().len()).sum();
        (buckets * size_of::<Bucket>()) as u64 + entries * size_of::<Entry>() as u64
    }

    pub fn parent(&self) -> u64 {
        // Relaxed: one number; who needs it to agree with the tree holds the rename lock.
        self.parent.load(Ordering::Relaxed)
    }

    /// Generation of the directory that was above when this one was removed, or [`ALONE`].
    pub fn orphaned(&self) -> u32 {
        // Relaxed: written before the link count that tells of the removal, and once more when the
        // one above is found to be gone, which it stays.
        self.orphaned.load(Ordering::Relaxed)
    }

    /// Remembers which directory this one was removed from, or that it is gone.
    pub fn orphan(&self, generation: u32) {
        // Relaxed: as `orphaned`.
        self.orphaned.store(generation, Ordering::Relaxed);
    }

    pub fn set_parent(&self, ino: u64) {
        // Relaxed: as `parent`.
        self.parent.store(ino, Ordering::Relaxed);
    }

    /// Looks `name` up without a lock or a shared write.
    pub fn lookup<'g>(&'g self, name: &[u8], hash: NameHash, g: &'g Guard) -> Look<'g> {
        loop {
            let Some((_, bucket)) = self.live(hash.value(), g) else {
                return match self.is_new() {
                    true => Look::Absent,
                    false => Look::Unknown,
                };
            };
            let start = bucket.seq.read_begin();
            let found = bucket.find(name, hash.tag(), g);
            // Asked before the count is checked: eviction forgets entries inside a write section.
            let absence = self.absence();
            if bucket.is_moved() || bucket.seq.read_retry(start) {
                continue;
            }
            return match found {
                Some(entry) if entry.is_negative() => Look::Absent,
                Some(entry) => Look::Hit(entry),
                None => absence,
            };
        }
    }

    /// The bucket in which the entries around `position` are now; `None` without a table.
    #[inline]
    fn live<'g>(&'g self, position: u64, g: &'g Guard) -> Option<(&'g Table, &'g Bucket)> {
        let table = self.table.load(g)?;
        let bucket = table.bucket_of_cookie(position);
        if bucket.is_moved() {
            return self.live_elsewhere(position, g);
        }
        Some((table, bucket))
    }

    /// The same while the table grows, or has just been forgotten.
    #[cold]
    #[inline(never)]
    fn live_elsewhere<'g>(
        &'g self,
        position: u64,
        g: &'g Guard,
    ) -> Option<(&'g Table, &'g Bucket)> {
        let backoff = Backoff::new();
        let mut waiting = None;
        loop {
            let mut table = self.table.load(g)?;
            loop {
                let bucket = table.bucket_of_cookie(position);
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

    fn absence<'g>(&self) -> Look<'g> {
        if self.is_complete() {
            Look::Absent
        } else {
            Look::Unknown
        }
    }

    pub fn is_complete(&self) -> bool {
        // Acquire: partner of the store in `evict` and `load`; who still sees `true` after an
        // eviction forgot an entry also fails the bucket's sequence check.
        self.known.load(Ordering::Acquire) != UNKNOWN
    }

    /// Whether there were no names when no table was seen before.
    fn is_new(&self) -> bool {
        // Acquire: partner of the store in `evict`, which comes before the table goes.
        self.known.load(Ordering::Acquire) == NEW
    }

    /// Two wanted one bucket. Whether the table should grow for it.
    fn meet(&self, g: &Guard) -> bool {
        // Relaxed: a hint; counts may be lost.
        let met = self.growth.0.meetings.load(Ordering::Relaxed);
        if met < MEETINGS {
            self.growth.0.meetings.store(met + 1, Ordering::Relaxed);
        }
        let table = self.table.load(g);
        table.is_some_and(|table| self.wanted(0, table.log2()).is_some())
    }
}
