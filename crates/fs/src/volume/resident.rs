//! How many bytes are in memory, and the budget for them.
//!
//! Each core counts what it brings in and gives back on a line of its own. Whether the sum of all
//! is beyond the budget is a question that reads the lines of all cores, so it is not asked before
//! every operation: a core asks when its own part has grown by a [grain](Resident::grain) since it
//! last asked. All cores together may so be beyond the budget by a [`SLACK`]th of it before one of
//! them sees it.

use hearth_sync::primitive::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::cores;
use hearth_sync::spread::PerCore;

/// Of so many parts of the budget, the grains of all cores are one.
const SLACK: u64 = 64;

/// Bytes in memory that reclaim could win back, for homes that give them back.
pub(crate) struct Resident {
    parts: PerCore<Part>,
    /// Bytes; 0 is no budget. A tunable of its own (Relaxed).
    budget: AtomicU64,
}

/// Relaxed throughout: a sum that is a little old makes a sweep begin a little later.
struct Part {
    /// What was brought in and given back on this core; what came in on another may make it
    /// negative.
    bytes: AtomicI64,
    /// `bytes` when this core last asked for the sum and it was within the budget, or less where
    /// `bytes` fell since.
    asked: AtomicI64,
}

/// What `asked` is while the core is to ask again whatever it has.
const ASK: i64 = i64::MIN / 2;

impl Resident {
    /// Nothing yet, with a budget of so many bytes or, for 0, without one.
    pub fn new(budget: u64) -> Resident {
        let part = |_| Part {
            bytes: AtomicI64::new(0),
            asked: AtomicI64::new(ASK),
        };
        Resident {
            parts: PerCore::new(part),
            budget: AtomicU64::new(budget),
        }
    }

    /// Bytes; 0 is no budget.
    #[inline]
    pub fn budget(&self) -> u64 {
        self.budget.load(Relaxed)
    }

    /// Sets the budget; every core looks anew.
    pub fn set_budget(&self, bytes: u64) {
        self.budget.store(bytes, Relaxed);
        for part in self.parts.iter() {
            part.asked.store(ASK, Relaxed);
        }
    }

    /// So many bytes more, or less, are in memory.
    #[inline]
    pub fn add(&self, delta: i64) {
        self.parts.get().bytes.fetch_add(delta, Relaxed);
    }

    /// The bytes: exact when nobody adds meanwhile.
    pub fn sum(&self) -> i64 {
        let parts = self.parts.iter().map(|part| part.bytes.load(Relaxed));
        parts.fold(0, i64::wrapping_add)
    }

    /// Bytes beyond the budget.
    pub fn over(&self) -> u64 {
        match self.budget() {
            0 => 0,
            budget => (self.sum() - budget as i64).max(0).unsigned_abs(),
        }
    }

    /// The same, unless this core has brought in too little to ask. While there is too much, every
    /// call asks.
    pub fn over_if_grown(&self) -> u64 {
        let part = self.parts.get();
        let (bytes, asked) = (part.bytes.load(Relaxed), part.asked.load(Relaxed));
        if bytes < asked {
            // Others may bring in what this one gave back.
            part.asked.store(bytes, Relaxed);
        }
        if bytes < asked + self.grain() {
            return 0;
        }
        let budget = self.budget();
        let over = self.over();
        if over == 0 {
            part.asked.store(bytes, Relaxed);
            // A budget that is set meanwhile wants every core to ask.
            if self.budget() != budget {
                part.asked.store(ASK, Relaxed);
            }
        }
        over
    }

    /// Bytes that a core may bring in between two questions.
    fn grain(&self) -> i64 {
        (self.budget() / (SLACK * cores() as u64)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_sync::primitive::thread;

    const BUDGET: u64 = 1 << 20;

    #[test]
    fn a_core_asks_when_it_has_grown_by_a_grain_and_until_there_is_room() {
        let resident = Resident::new(BUDGET);
        assert_eq!(resident.over_if_grown(), 0);
        // In one step beyond the budget: seen at once, and again and again.
        resident.add(BUDGET as i64 + 100);
        assert_eq!(resident.over(), 100);
        // The thread may have gone to another core, which has not asked yet either.
        for _ in 0..3 {
            assert_eq!(resident.over_if_grown(), 100);
        }
        resident.add(-100);
        assert_eq!((resident.over_if_grown(), resident.over()), (0, 0));
    }

    #[test]
    fn what_is_overlooked_is_less_than_the_grains_of_all_cores() {
        let resident = Resident::new(BUDGET);
        resident.add(BUDGET as i64 - 50_000);
        let mut seen = 0;
        while seen == 0 {
            resident.add(100);
            seen = resident.over_if_grown();
            assert!(resident.over() <= BUDGET / SLACK + 100);
        }
    }

    #[test]
    fn who_has_brought_in_little_does_not_ask() {
        let resident = Resident::new(BUDGET);
        resident.add(BUDGET as i64);
        // Every core has asked, whichever this thread goes to.
        for part in resident.parts.iter() {
            part.asked.store(part.bytes.load(Relaxed), Relaxed);
        }
        resident.add(1);
        assert_eq!((resident.over_if_grown(), resident.over()), (0, 1));
    }

    #[test]
    fn a_new_budget_is_seen_by_all_cores() {
        let resident = Resident::new(0);
        resident.add(BUDGET as i64);
        assert_eq!((resident.over_if_grown(), resident.over()), (0, 0));
        resident.set_budget(BUDGET - 1);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(resident.over_if_grown(), 1));
            }
        });
    }

    #[test]
    fn what_was_given_back_and_taken_again_is_growth() {
        let resident = Resident::new(BUDGET);
        resident.add(BUDGET as i64 / 2);
        assert_eq!(resident.over_if_grown(), 0);
        resident.add(-(BUDGET as i64) / 2);
        assert_eq!(resident.over_if_grown(), 0);
        // Meanwhile another core has filled the half.
        resident
            .parts
            .of(cores() - 1)
            .bytes
            .fetch_add(BUDGET as i64 / 2, Relaxed);
        resident.add(BUDGET as i64 / 2 + 1);
        assert_eq!(resident.over_if_grown(), 1);
    }
}
