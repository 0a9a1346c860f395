//! Eviction of idle tenants: their indexes are given to others some time later.
//!
//! ```text
//! named ── idle for a while ──► ended ── clean for as long ──► free ──► named, for another
//! ```
//!
//! A caller may use a tenant from [`Tenants::find`] for as long as the idle time without asking
//! again: naming it counts as use. A caller that keeps one for longer asks again when
//! [`Tenants::endings`] has changed. A caller that uses a tenant at the moment of its eviction
//! finds its index not yet given to another. A task that carries the tenant delays that until it
//! ends.

use super::{BEGUN, BYTES, COUNTS, ENDED, OPS, RUNS};
use super::{DEFAULT_WEIGHT, IDLE, NAMED, RETIRED, Record, Tenants};
use hearth_sync::primitive::atomic::Ordering;

/// What a look at the run queues says about a tenant: how often it ran, or `None` while it has work
/// there.
pub type Seen = Option<u64>;

impl Tenants {
    /// Returns how often tenants were evicted.
    #[inline]
    pub fn endings(&self) -> u64 {
        // Relaxed: a caller that sees it late uses an evicted tenant; see the module's text.
        self.endings.load(Ordering::Relaxed)
    }

    /// Returns how many are named.
    pub fn named(&self) -> usize {
        let indexes = self.indexes.lock();
        indexes.count as usize - indexes.ended.len() - indexes.free.len()
    }

    /// Evicts the tenant if it has no settings and was not used for `idle` nanoseconds, as far as
    /// is known at `now`. One caller at a time for each tenant. Returns whether it did.
    pub fn end_idle(&self, index: usize, seen: Seen, now: u64, idle: u64) -> bool {
        let Some(record) = self.record(index).filter(|_| index > 0) else {
            return false;
        };
        // Relaxed, all of them: only this function writes them, except for the first. A change of
        // that is seen at the next look at the latest.
        let state = &record.state;
        let named = state.compare_exchange(NAMED, IDLE, Ordering::Relaxed, Ordering::Relaxed);
        let used = seen.map(|runs| record.activity().wrapping_add(runs));
        let same = used == Some(record.used.load(Ordering::Relaxed));
        if named.is_ok() || !same || record.is_open() || record.is_set() {
            record.used.store(used.unwrap_or(0), Ordering::Relaxed);
            record.since.store(now, Ordering::Relaxed);
            return false;
        }
        if now.saturating_sub(record.since.load(Ordering::Relaxed)) < idle {
            return false;
        }
        let id = record.id.load(Ordering::Relaxed);
        let mut indexes = self.indexes.lock();
        if self.known(id).is_none_or(|known| known.index() != index) {
            return false;
        }
        // Checked again: settings are made under this lock.
        if record.is_set() {
            return false;
        }
        // Partner: `Tenants::touch`. Either that was first, or the caller that names it sees that
        // it ended, and waits for the lock.
        let ended = state.compare_exchange(IDLE, RETIRED, Ordering::Relaxed, Ordering::Relaxed);
        if ended.is_err() {
            return false;
        }
        self.by_id.remove(&id);
        indexes.ended.push_back((index as u32, now));
        self.endings.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Returns the tenant that was evicted first, if that was `idle` nanoseconds ago.
    /// [`Tenants::free`] frees its index.
    pub fn first_ended(&self, now: u64, idle: u64) -> Option<usize> {
        let indexes = self.indexes.lock();
        let &(index, since) = indexes.ended.front()?;
        (now.saturating_sub(since) >= idle).then_some(index as usize)
    }

    /// Frees the index of the tenant that was evicted first, if it is this one. If it has open
    /// work, has settings, or is still `here`, it waits once more.
    pub fn free(&self, index: usize, here: bool, now: u64) {
        let mut indexes = self.indexes.lock();
        if indexes.ended.front().map(|ended| ended.0 as usize) != Some(index) {
            return;
        }
        indexes.ended.pop_front();
        let clean = self.record(index).filter(|record| {
            let clean = !here && !record.is_open() && !record.is_set();
            if clean {
                record.clear();
            }
            clean
        });
        match clean {
            Some(_) => indexes.free.push(index as u32),
            None => indexes.ended.push_back((index as u32, now)),
        }
    }
}

impl Record {
    /// Returns a number that changes with everything done for the tenant.
    fn activity(&self) -> u64 {
        let lanes = [OPS, BYTES, BEGUN, ENDED, RUNS];
        lanes.iter().fold(0u64, |sum, &lane| {
            sum.wrapping_add(self.counts.sum(lane).cast_unsigned())
        })
    }

    /// Returns whether a task or external work of it has not ended. Exact once nothing has begun or
    /// ended for a while.
    fn is_open(&self) -> bool {
        self.counts.sum(BEGUN) != self.counts.sum(ENDED)
    }

    fn is_set(&self) -> bool {
        // Relaxed: single values, which take effect soon.
        self.weight.load(Ordering::Relaxed) != DEFAULT_WEIGHT
            || self.is_limited.load(Ordering::Relaxed)
    }

    /// Clears the counters for the next tenant. There are no settings to reset.
    fn clear(&self) {
        for lane in 0..COUNTS {
            self.counts.add(lane, self.counts.sum(lane).wrapping_neg());
        }
        // Relaxed: no tenant has this index.
        self.throttled_ns.store(0, Ordering::Relaxed);
        self.used.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    fn end(tenants: &Tenants, index: usize) {
        let seen = Some(0);
        assert!(!tenants.end_idle(index, seen, 0, 0), "it was named");
        assert!(tenants.end_idle(index, seen, 0, 0));
    }

    /// Regression: a pass freed the first index in the row, which another pass had not cleaned.
    #[test]
    fn an_index_is_freed_only_by_the_pass_that_cleaned_it() {
        let tenants = Tenants::new();
        let [one, two] = [1, 2].map(|id| tenants.find(id).index());
        end(&tenants, one);
        end(&tenants, two);
        assert_eq!(tenants.first_ended(0, 0), Some(one));
        for _ in 0..2 {
            tenants.free(one, false, 0);
            assert_eq!(tenants.first_ended(0, 0), Some(two), "one, once");
        }
        // It waits once more.
        tenants.free(two, true, 5);
        assert_eq!(tenants.first_ended(9, 5), None);
        assert_eq!(tenants.first_ended(10, 5), Some(two));
        assert_eq!(tenants.find(3).index(), one);
    }

    /// Regression: two callers named a tenant while it was evicted. The first noted that; the
    /// second saw the note and used the evicted one.
    #[test]
    fn a_lookup_that_began_before_eviction_does_not_return_the_evicted_tenant() {
        let tenants = Tenants::new();
        let old = tenants.find(7);
        end(&tenants, old.index());
        // What both have read.
        tenants.by_id.insert(7, old.0);
        assert_eq!([tenants.touch(7), tenants.touch(7)], [None, None]);
        tenants.by_id.remove(&7);
        assert_ne!(tenants.find(7), old);
    }

    #[test]
    fn a_tenant_named_in_time_is_not_evicted() {
        let tenants = Tenants::new();
        let one = tenants.find(1);
        assert!(!tenants.end_idle(one.index(), Some(0), 0, 0));
        assert_eq!(tenants.touch(1), Some(one));
        assert!(!tenants.end_idle(one.index(), Some(0), 0, 0));
        assert_eq!(tenants.known(1), Some(one));
    }
}
