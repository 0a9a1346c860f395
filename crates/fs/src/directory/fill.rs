//! Filling a directory from the backend.
//!
//! The backend may block, so it is called with nothing locked and nothing pinned. Names are
//! committed to it under the lock of their bucket, and the bucket's sequence count moves before the
//! lock is released. A result of the backend therefore counts if, with the lock held, the count is
//! what it was before the call.

use super::bucket::Bucket;
use super::change::{put, put_negative};
use super::table::BucketTable;
use super::{Directory, FIRST_LOG2, FULL, LOADED, Lookup};
use crate::attr::Target;
use crate::hashed::{Hashed, NameKeys};
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::primitive::atomic::Ordering;

/// Version of a bucket, or of all buckets: which ones they are and the sum of their sequence
/// counts, which only grow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    /// The number of tables before this one: the address may be used again.
    table: u32,
    /// Address of the first bucket: while a table grows, there are buckets of two tables.
    place: usize,
    counts: u64,
}

type Listed = Vec<(Box<[u8]>, Target)>;

/// Attempts to list a whole directory without locking it.
const ATTEMPTS: usize = 3;
/// Names that a directory has space for when they are looked up, whether they exist or not.
pub(super) const ASKED: u64 = 4096;
/// Most entries that a table is made for before they have arrived.
const AHEAD: u64 = 1 << 20;

/// A directory is listed when one in this many of its names was asked for one by one: that takes
/// about as long as to list it.
const ASKED_OF: u64 = 32;
/// Entries of a directory that is listed for that reason, at most.
const LISTED_MOST: u64 = 16 << 10;

impl Directory {
    /// A name of this directory, which has so many `entries`, is unknown. Returns whether all of
    /// them should be loaded.
    pub fn note_miss(&self, entries: u64) -> bool {
        let misses = self.growth.0.misses.fetch_add(1, Ordering::Relaxed);
        entries <= LISTED_MOST && u64::from(misses) * ASKED_OF >= entries
    }

    /// The version of the name's bucket, if the name is unknown; `None` if it is known, or the
    /// directory was removed.
    pub fn version_if_unknown(&self, at: Hashed<'_>, g: &Guard) -> Option<Version> {
        let locked = self.lock(at, g).ok()?;
        match locked.find(at, g) {
            Err(Lookup::Unknown) => Some(self.version(std::slice::from_ref(locked.bucket))),
            _ => None,
        }
    }

    /// Stores the backend's result for a name that was unknown at version `before`. Returns whether
    /// its bucket overflowed, see [`Locked::apply`](super::Locked::apply); `None` if the result may
    /// be out of date. `applied`: the last epoch that the backend has.
    pub fn fill(
        &self,
        at: Hashed<'_>,
        result: Option<Target>,
        before: Version,
        applied: u64,
        g: &Guard,
    ) -> Option<bool> {
        // A removed directory has no entries; the operation finds that out itself.
        let Ok(locked) = self.lock(at, g) else {
            return Some(false);
        };
        let bucket = locked.bucket;
        if self.version(std::slice::from_ref(bucket)) != before {
            return None;
        }
        let _write = bucket.seq.write();
        Some(match result {
            Some(target) => put(bucket, &at, target, g),
            None => put_negative(bucket, &at, (0, applied as u32), g),
        })
    }

    /// Grows the table by a step, if it is too small for the part of `entries` that is in memory,
    /// or for the names that were looked up. No lock may be held.
    pub fn grow_a_step(&self, entries: u64, g: &Guard) {
        let space = self.table.load(g).map_or(0, |table| FULL << table.log2());
        self.grow(entries.max(ASKED).min(space + 1), g);
    }

    /// Completes the directory with what `list` returns, about `entries` names; names already known
    /// are kept. Nothing changes on an error.
    pub fn load<E>(
        &self,
        entries: u64,
        keys: &NameKeys,
        list: impl Fn() -> Result<Listed, E>,
    ) -> Result<(), E> {
        let entries = entries.min(AHEAD);
        for _ in 0..ATTEMPTS {
            let before = {
                let g = pin();
                if self.is_complete() {
                    return Ok(());
                }
                // At its final size: in a small table each name is compared with all others.
                self.begin(entries, &g);
                self.grow(entries, &g);
                let grow = self.growth.0.grow.lock();
                self.end_growth(|bucket| Some(bucket.lock.lock_guard()), &g);
                drop(grow);
                self.table
                    .load(&g)
                    .map(|table| self.version(table.buckets()))
            };
            let mut listed = Some(list()?);
            let fill = |now| Ok((before == Some(now)).then(|| listed.take()).flatten());
            if self.complete_with(entries, keys, fill)? {
                return Ok(());
            }
        }
        // Other threads change it all the time: it is locked meanwhile.
        let listed = |_| list().map(Some);
        self.complete_with(entries, keys, listed).map(drop)
    }

    /// Makes a table for `entries` if there is none.
    fn begin(&self, entries: u64, g: &Guard) {
        if self.table.is_empty() {
            let log2 = self.wanted(entries, FIRST_LOG2).unwrap_or(FIRST_LOG2);
            let _ = self.table.install(Box::new(BucketTable::new(log2)), g);
        }
    }

    /// Adds what `listed` returns for this version, if anything, with every bucket locked. Returns
    /// whether the directory is complete.
    fn complete_with<E>(
        &self,
        entries: u64,
        keys: &NameKeys,
        listed: impl FnOnce(Version) -> Result<Option<Listed>, E>,
    ) -> Result<bool, E> {
        let grow = self.growth.0.grow.lock();
        if self.is_complete() {
            return Ok(true);
        }
        let g = &pin();
        self.end_growth(|bucket| Some(bucket.lock.lock_guard()), g);
        self.begin(entries, g);
        let Some(table) = self.table.load(g) else {
            return Ok(true);
        };
        let buckets = table.buckets();
        let held: Vec<_> = buckets.iter().map(|b| b.lock.lock_guard()).collect();
        let Some(listed) = listed(self.version(buckets))? else {
            return Ok(false);
        };
        let entries = listed.len() as u64;
        for (name, target) in listed {
            let at = keys.hashed(&name);
            let bucket = table.bucket(at.hash);
            let _write = bucket.seq.write();
            if bucket.find(&at, g).is_none() {
                put(bucket, &at, target, g);
            }
        }
        // Release: partner of `is_complete`.
        self.completeness.store(LOADED, Ordering::Release);
        drop(held);
        drop(grow);
        self.grow(entries, g);
        Ok(true)
    }

    fn version(&self, buckets: &[Bucket]) -> Version {
        Version {
            // Relaxed: the locks of the buckets order it; without them it is only compared later.
            table: self.growth.0.tables.load(Ordering::Relaxed),
            place: buckets.as_ptr().addr(),
            counts: buckets.iter().map(|b| u64::from(b.seq.peek())).sum(),
        }
    }

    /// There is another table, or none: versions from before no longer count. Needs `grow`.
    pub(super) fn new_table(&self) {
        // Relaxed: see `version`; only the holder of `grow` writes it.
        let tables = self.growth.0.tables.load(Ordering::Relaxed);
        self.growth
            .0
            .tables
            .store(tables.wrapping_add(1), Ordering::Relaxed);
    }
}
