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

use super::{BEGUN, BYTES, COUNTS, DEFAULT_WEIGHT, ENDED, OPS, RUNS, Record, Tenants};
use hearth_sync::primitive::atomic::{Ordering, fence};

/// What a look at the stations says about a tenant: how often it ran, or `None` while something of
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
        let numbers = self.numbers.lock();
        numbers.count as usize - numbers.ended.len() - numbers.free.len()
    }

    /// Ends the tenant, if it has no settings and was not used for `idle` nanoseconds, as far as is
    /// known at `now`. One caller at a time for each. Whether it ended now.
    pub fn end_idle(&self, index: usize, seen: Seen, now: u64, idle: u64) -> bool {
        let Some(record) = self.record(index).filter(|_| index > 0) else {
            return false;
        };
        // Relaxed, all of them: written by who looks here, but for the first, which is seen at the
        // next look if not at this.
        let touched = record.touched.swap(false, Ordering::Relaxed);
        let used = seen.map(|runs| record.activity().wrapping_add(runs));
        let same = used == Some(record.used.load(Ordering::Relaxed));
        if touched || !same || record.is_open() || record.is_set() {
            record.used.store(used.unwrap_or(0), Ordering::Relaxed);
            record.since.store(now, Ordering::Relaxed);
            return false;
        }
        if now.saturating_sub(record.since.load(Ordering::Relaxed)) < idle {
            return false;
        }
        let id = record.id.load(Ordering::Relaxed);
        let mut numbers = self.numbers.lock();
        if self.known(id).is_none_or(|known| known.index() != index) {
            return false;
        }
        self.by_id.remove(&id);
        // Partner: `Tenants::touch`. Either we see the touch or who names it sees that it ended,
        // and waits for the lock.
        fence(Ordering::SeqCst);
        if record.touched.load(Ordering::Relaxed) {
            self.by_id.insert(id, index as u32);
            return false;
        }
        numbers.ended.push_back((index as u32, now));
        self.endings.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// The tenant that ended first, if that was `idle` nanoseconds ago: its place is another's with
    /// [`Tenants::free`].
    pub fn first_ended(&self, now: u64, idle: u64) -> Option<usize> {
        let numbers = self.numbers.lock();
        let &(index, since) = numbers.ended.front()?;
        (now.saturating_sub(since) >= idle).then_some(index as usize)
    }

    /// Gives the place of the tenant that ended first to whoever is named next, unless something
    /// of it is open or still `here`: then it waits once more.
    pub fn free(&self, here: bool, now: u64) {
        let mut numbers = self.numbers.lock();
        let Some((index, _)) = numbers.ended.pop_front() else {
            return;
        };
        let clean = self.record(index as usize).filter(|record| {
            let clean = !here && !record.is_open();
            if clean {
                record.clear();
            }
            clean
        });
        match clean {
            Some(_) => numbers.free.push(index),
            None => numbers.ended.push_back((index, now)),
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
            || self.is_held.load(Ordering::Relaxed)
    }

    /// Nobody's: the next begins with nothing.
    fn clear(&self) {
        for lane in 0..COUNTS {
            self.counts.add(lane, self.counts.sum(lane).wrapping_neg());
        }
        // Relaxed: nobody has this place.
        self.weight.store(DEFAULT_WEIGHT, Ordering::Relaxed);
        self.throttled_ns.store(0, Ordering::Relaxed);
        self.used.store(0, Ordering::Relaxed);
    }
}
