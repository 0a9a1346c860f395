//! The end of tenants that nobody uses: their places are given to others some time later.
//!
//! ```text
//! named ── idle for a while ──► ended ── clean for as long ──► free ──► named, for another
//! ```
//!
//! Whoever got a tenant from [`Tenants::find`] may use it for as long as tenants must be idle to be
//! ended, without asking again: to be named counts as use. Who keeps one for longer asks again when
//! [`Tenants::endings`] has changed. What uses an ended tenant all the same, because both happened
//! at once, finds its place not given to another yet; a task that carries it holds that up until it
//! ends.

use super::{BEGUN, BYTES, COUNTS, ENDED, OPS, RUNS};
use super::{DEFAULT_WEIGHT, IDLE, NAMED, RETIRED, Record, Tenants};
use hearth_sync::primitive::atomic::Ordering;

/// What a look at the run queues says about a tenant: how often it ran, or `None` while something of
/// it is there.
pub type Seen = Option<u64>;

impl Tenants {
    /// How often tenants were ended.
    #[inline]
    pub fn endings(&self) -> u64 {
        // Relaxed: who sees it late uses a tenant that ended; see above.
        self.endings.load(Ordering::Relaxed)
    }

    /// How many are named at present.
    pub fn named(&self) -> usize {
        let indexes = self.indexes.lock();
        indexes.count as usize - indexes.ended.len() - indexes.free.len()
    }

    /// Ends the tenant, if it has no settings and was not used for `idle` nanoseconds, as far as is
    /// known at `now`. One caller at a time for each. Whether it ended now.
    pub fn end_idle(&self, index: usize, seen: Seen, now: u64, idle: u64) -> bool {
        let Some(record) = self.record(index).filter(|_| index > 0) else {
            return false;
        };
        // Relaxed, all of them: written by who looks here, but for the first, which is seen at the
        // next look if not at this.
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
        // Again: settings are made under this lock.
        if record.is_set() {
            return false;
        }
        // Partner: `Tenants::touch`. Either that was first, or who names it sees that it ended, and
        // waits for the lock.
        let ended = state.compare_exchange(IDLE, RETIRED, Ordering::Relaxed, Ordering::Relaxed);
        if ended.is_err() {
            return false;
        }
        self.by_id.remove(&id);
        indexes.ended.push_back((index as u32, now));
        self.endings.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// The tenant that ended first, if that was `idle` nanoseconds ago: its place is another's with
    /// [`Tenants::free`].
    pub fn first_ended(&self, now: u64, idle: u64) -> Option<usize> {
        let indexes = self.indexes.lock();
        let &(index, since) = indexes.ended.front()?;
        (now.saturating_sub(since) >= idle).then_some(index as usize)
    }

    /// Gives the place of the tenant that ended first, if it is this one, to whoever is named next,
    /// unless something of it is open, set or still `here`: then it waits once more.
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
    /// A number that moves with whatever is done for the tenant.
    fn activity(&self) -> u64 {
        let lanes = [OPS, BYTES, BEGUN, ENDED, RUNS];
        lanes.iter().fold(0u64, |sum, &lane| {
            sum.wrapping_add(self.counts.sum(lane).cast_unsigned())
        })
    }

    /// Whether a task of it, or work outside, has not ended. Exact once nothing has begun or ended
    /// for a while.
    fn is_open(&self) -> bool {
        self.counts.sum(BEGUN) != self.counts.sum(ENDED)
    }

    fn is_set(&self) -> bool {
        // Relaxed: single values, in force soon.
        self.weight.load(Ordering::Relaxed) != DEFAULT_WEIGHT
            || self.is_limited.load(Ordering::Relaxed)
    }

    /// Nobody's: the next begins with nothing. It has no settings, so there are none to reset.
    fn clear(&self) {
        for lane in 0..COUNTS {
            self.counts.add(lane, self.counts.sum(lane).wrapping_neg());
        }
        // Relaxed: nobody has this place.
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

    /// Whoever freed what was first in the row freed what nobody had cleaned.
    #[test]
    fn a_place_is_freed_by_who_cleaned_it() {
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

    /// Two that named it while it ended: the first noted that, the second saw the note and took
    /// the one that had ended.
    #[test]
    fn nobody_names_an_ended_tenant_by_what_it_read_before_the_end() {
        let tenants = Tenants::new();
        let old = tenants.find(7);
        end(&tenants, old.index());
        // What both read.
        tenants.by_id.insert(7, old.0);
        assert_eq!([tenants.touch(7), tenants.touch(7)], [None, None]);
        tenants.by_id.remove(&7);
        assert_ne!(tenants.find(7), old);
    }

    #[test]
    fn who_is_named_in_time_does_not_end() {
        let tenants = Tenants::new();
        let one = tenants.find(1);
        assert!(!tenants.end_idle(one.index(), Some(0), 0, 0));
        assert_eq!(tenants.touch(1), Some(one));
        assert!(!tenants.end_idle(one.index(), Some(0), 0, 0));
        assert_eq!(tenants.known(1), Some(one));
    }
}
