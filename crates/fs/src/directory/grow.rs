//! Growth: a table that is too small gets a successor, and its buckets move there a few at a time.
//!
//! The states, and who may write what: `docs/design/directory.md`.

use super::bucket::Bucket;
use super::table::BucketTable;
use super::{BUCKETS_PER_CORE, CONTENTION, Directory, FULL, MAX_LOG2, MOST_BUCKETS, SMALL_TABLE};
use hearth_sync::epoch::Guard;
use hearth_sync::lock::RawGuard;
use hearth_sync::primitive::atomic::Ordering;
use hearth_sync::primitive::cores;

/// Buckets that one insertion moves while a table grows: some 0.15 ms, during which it is pinned.
/// With fewer at a time, more than one insertion in a thousand would be slowed.
const BUCKETS_PER_STEP: usize = if cfg!(feature = "shuttle") { 2 } else { 512 };
/// One insertion in this many moves buckets.
const ONE_IN: u64 = if cfg!(feature = "shuttle") { 1 } else { 64 };

// The next growth begins after at least `FULL` insertions for each bucket: all buckets have moved
// by then.
const _: () = assert!(BUCKETS_PER_STEP as u64 * FULL > ONE_IN);

impl Directory {
    /// Moves some buckets if the table grows, or begins to grow it if it is too small: for
    /// `entries`, which is called only then, or because threads contended for a bucket. No lock may
    /// be held.
    pub fn grow_some(&self, entries: impl FnOnce() -> u64, g: &Guard) {
        let Some(table) = self.table.load(g) else {
            return;
        };
        // Checked first without the lock.
        let entries = if table.grows() { 0 } else { entries() };
        if table.grows() || self.wanted(entries, table.log2()).is_some() {
            self.try_grow(entries, BUCKETS_PER_STEP, g);
        }
    }

    /// Grows the table until it is large enough for `entries`, unless another thread grows it. No
    /// lock may be held.
    pub fn grow(&self, entries: u64, g: &Guard) {
        let is_small =
            |table: &BucketTable| table.grows() || self.wanted(entries, table.log2()).is_some();
        while self.table.load(g).is_some_and(is_small) {
            if !self.try_grow(entries, usize::MAX, g) {
                return;
            }
        }
    }

    /// Whether an insertion under the hash `value` is one that moves buckets.
    #[inline]
    pub(super) fn is_grower(&self, value: u64, g: &Guard) -> bool {
        value.is_multiple_of(ONE_IN) && self.table.load(g).is_some_and(BucketTable::grows)
    }

    /// Moves up to `most` buckets to the successor, which is made for `entries` if there is none.
    /// True if something was done.
    pub(super) fn try_grow(&self, entries: u64, most: usize, g: &Guard) -> bool {
        let Some(_grow) = self.growth.0.grow.try_lock() else {
            return false;
        };
        let Some(table) = self.table.load(g) else {
            return false;
        };
        if !table.grows() {
            let Some(log2) = self.wanted(entries, table.log2()) else {
                return false;
            };
            // A directory is removed under `grow`. Its entries in another table would bring it
            // back.
            if table.buckets()[0].is_dead() {
                return false;
            }
            self.new_table();
            // Relaxed: only the holder of `grow` reads or writes it.
            self.growth.0.moved.store(0, Ordering::Relaxed);
            if table
                .next
                .install(Box::new(BucketTable::new(log2)), g)
                .is_err()
            {
                return false;
            }
        }
        self.move_on(table, most, |bucket| Some(bucket.lock.lock_guard()), g);
        true
    }

    /// Finishes growth that has begun, for an operation that needs all entries in one table and
    /// holds `grow`. Needs the lock of each bucket that has not moved: `lock` takes it, or fails
    /// where another thread has it. True if there is one table now.
    pub(super) fn end_growth<'g>(
        &'g self,
        lock: impl Fn(&'g Bucket) -> Option<RawGuard<'g>>,
        g: &'g Guard,
    ) -> bool {
        match self.table.load(g) {
            Some(table) if table.grows() => self.move_on(table, usize::MAX, lock, g),
            _ => true,
        }
    }

    /// Moves up to `most` more buckets of `table`, which grows. After the last one its successor
    /// becomes the table. Needs `grow`; true if that has happened.
    fn move_on<'t>(
        &self,
        table: &'t BucketTable,
        most: usize,
        lock: impl Fn(&'t Bucket) -> Option<RawGuard<'t>>,
        g: &'t Guard,
    ) -> bool {
        let Some(next) = table.next.load(g) else {
            return true;
        };
        // Relaxed: only the holder of `grow` reads or writes it.
        let moved = || self.growth.0.moved.load(Ordering::Relaxed);
        let (first, end) = (moved(), table.buckets().len());
        for (index, bucket) in table.buckets_from(first).take(most) {
            let Some(_held) = lock(bucket) else {
                return false;
            };
            let before = bucket.seq.peek();
            let _write = bucket.seq.write();
            bucket.move_all(g, |tag, entry| {
                next.successor_of(index, table.log2(), tag, entry)
            });
            // Names keep the order of their changes.
            for successor in next.successors(index, table.log2()) {
                successor.seq.continue_from(before);
            }
            bucket.set_moved();
            // Relaxed: see `moved`.
            self.growth.0.moved.store(moved() + 1, Ordering::Relaxed);
        }
        if moved() < end {
            return false;
        }
        self.table.store(Some(Box::new(next.share())), g);
        true
    }

    /// The size of the table that `entries` need, if `present` is too small for them or for the
    /// threads that change the directory at once: names that lie far apart in a table do not
    /// contend.
    pub(super) fn wanted(&self, entries: u64, present: u32) -> Option<u32> {
        let mut log2 = 0;
        if entries > FULL << present {
            let each = if entries > SMALL_TABLE {
                FULL
            } else {
                FULL / 2
            };
            let buckets = entries.div_ceil(each).next_power_of_two();
            log2 = buckets.trailing_zeros().min(MAX_LOG2);
        }
        // Relaxed: see `contend`.
        if self.growth.0.contention.load(Ordering::Relaxed) >= CONTENTION {
            let buckets = (BUCKETS_PER_CORE * cores())
                .next_power_of_two()
                .min(MOST_BUCKETS);
            log2 = log2.max(buckets.trailing_zeros());
        }
        (log2 > present).then_some(log2)
    }
}
