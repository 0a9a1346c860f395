//! A table that is too small gets a successor, and its buckets move there part by part.
//!
//! States, and who may write what: `docs/design/directory.md`.

use super::bucket::Bucket;
use super::table::Table;
use super::{APART, Directory, FULL, MAX_LOG2, MEETINGS, MOST_APART};
use hearth_sync::epoch::Guard;
use hearth_sync::lock::RawGuard;
use hearth_sync::primitive::atomic::Ordering;
use hearth_sync::primitive::cores;

/// Buckets that an insertion moves while a table grows: some 0.15 ms, in which it is pinned. Fewer
/// at a time would be felt more often than once in a thousand insertions.
const PART: usize = if cfg!(feature = "shuttle") { 2 } else { 512 };
/// One insertion of so many does.
const TURN: u64 = if cfg!(feature = "shuttle") { 1 } else { 64 };

// The next time comes after FULL insertions for each bucket, at the earliest: all have moved then.
const _: () = assert!(PART as u64 * FULL > TURN);

impl Directory {
    /// Grows the table by a part if it grows, or begins to if it is too small: for so many
    /// `entries`, who are asked for only then, or because threads met in it. No lock may be held.
    pub fn grow_a_part(&self, entries: impl FnOnce() -> u64, g: &Guard) {
        let Some(table) = self.table.load(g) else {
            return;
        };
        // Asked first without the lock.
        let entries = if table.grows() { 0 } else { entries() };
        if table.grows() || self.wanted(entries, table.log2()).is_some() {
            self.try_grow(entries, PART, g);
        }
    }

    /// Grows the table until it is large enough for `entries`, unless somebody else grows it. No
    /// lock may be held.
    pub fn grow(&self, entries: u64, g: &Guard) {
        let is_small =
            |table: &Table| table.grows() || self.wanted(entries, table.log2()).is_some();
        while self.table.load(g).is_some_and(is_small) {
            if !self.try_grow(entries, usize::MAX, g) {
                return;
            }
        }
    }

    /// Whether it is the turn of an insertion under the hash `value` to move a part.
    #[inline]
    pub(super) fn is_turn(&self, value: u64, g: &Guard) -> bool {
        value.is_multiple_of(TURN) && self.table.load(g).is_some_and(Table::grows)
    }

    /// Moves up to `most` buckets to the successor, which is made for `entries` if there is none.
    /// Whether something was done.
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
            // A directory dies under `grow`. In another table it would be alive.
            if table.buckets()[0].is_dead() {
                return false;
            }
            self.new_table();
            // Relaxed: only the holder of `grow` reads or writes it.
            self.growth.0.moved.store(0, Ordering::Relaxed);
            if table.next.install(Box::new(Table::new(log2)), g).is_err() {
                return false;
            }
        }
        self.move_on(table, most, |bucket| Some(bucket.lock.lock_guard()), g);
        true
    }

    /// Ends growth that has begun, for who needs all entries in one table and holds `grow`. Needs
    /// each bucket that has not moved: `lock` locks it, or says that somebody has it. Whether there
    /// is one table now.
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

    /// Moves up to `most` more buckets of `table`, which grows. After the last one its successor is
    /// the table. Needs `grow`; answers whether that has happened.
    fn move_on<'t>(
        &self,
        table: &'t Table,
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
            let _write = bucket.seq.write();
            bucket.move_all(g, |tag, entry| {
                next.successor_of(index, table.log2(), tag, entry)
            });
            bucket.set_moved();
            // Relaxed: as above.
            self.growth.0.moved.store(moved() + 1, Ordering::Relaxed);
        }
        if moved() < end {
            return false;
        }
        self.table.store(Some(Box::new(next.share())), g);
        true
    }

    /// The size of the table that `entries` want, if `present` is too small for them, or for those
    /// who change the directory at once: names that lie far apart in it do not meet.
    pub(super) fn wanted(&self, entries: u64, present: u32) -> Option<u32> {
        let mut log2 = 0;
        if entries > FULL << present {
            let buckets = entries.div_ceil(FULL / 2).next_power_of_two();
            log2 = buckets.trailing_zeros().min(MAX_LOG2);
        }
        // Relaxed: see `meet`.
        if self.growth.0.meetings.load(Ordering::Relaxed) >= MEETINGS {
            let buckets = (APART * cores()).next_power_of_two().min(MOST_APART);
            log2 = log2.max(buckets.trailing_zeros());
        }
        (log2 > present).then_some(log2)
    }
}
