//! How many bytes are in memory, and the budget for them.
//!
//! Each core counts what it brings in and gives back on a line of its own. Whether the sum of all
//! is beyond the budget is a question that reads the lines of all cores, so it is not asked before
//! every operation: a core asks when its own part has grown by a [grain](MemUsage::grain) since it
//! last asked. All cores together may so be beyond the budget by a [`SLACK`]th of it before one of
//! them sees it.
//!
//! A budget that was lowered is met without haste; what comes in beyond it is won back as it comes.
//! The [mark](MemUsage::ahead) tells them apart.

use hearth_sync::primitive::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::cores;
use hearth_sync::spread::PerCore;

/// Of so many parts of the budget, the grains of all cores are one.
pub(crate) const SLACK: u64 = 64;

/// Bytes in memory that reclaim could win back, for backends that take them back; nothing is counted
/// for others.
pub(crate) struct MemUsage {
    /// Whether the backend takes anything back. Immutable.
    counts: bool,
    parts: PerCore<Part>,
    /// Bytes; 0 is no budget. A tunable of its own (Relaxed).
    budget: AtomicU64,
    /// The least that was in memory when somebody looked since the budget was set; counts where it
    /// is beyond the budget. Relaxed: what is a little old is met with a little more haste, or
    /// less.
    mark: AtomicI64,
}

/// What a core that asks is told: bytes, none of them 0 but `ahead`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    /// Beyond the budget.
    pub over: u64,
    /// Beyond the budget and the mark.
    pub ahead: u64,
    /// What this core brought in since it last asked.
    pub grown: u64,
}

/// Relaxed throughout: a sum that is a little old makes a sweep begin a little later.
struct Part {
    /// What was brought in and given back on this core; what came in on another may make it
    /// negative.
    bytes: AtomicI64,
    /// `bytes` when this core last asked for the sum, or less where `bytes` fell since.
    asked: AtomicI64,
}

/// What `asked` is while the core is to ask again whatever it has.
const ASK: i64 = i64::MIN / 2;

impl MemUsage {
    /// Nothing yet, with a budget of so many bytes or, for 0, without one; `counts`: the backend takes
    /// objects back.
    pub fn new(budget: u64, counts: bool) -> MemUsage {
        let part = |_| Part {
            bytes: AtomicI64::new(0),
            asked: AtomicI64::new(ASK),
        };
        MemUsage {
            counts,
            parts: PerCore::new(part),
            budget: AtomicU64::new(budget),
            mark: AtomicI64::new(0),
        }
    }

    /// Bytes; 0 is no budget.
    #[inline]
    pub fn budget(&self) -> u64 {
        self.budget.load(Relaxed)
    }

    /// Sets the budget; every core looks anew. What is there now need not go at once.
    pub fn set_budget(&self, bytes: u64) {
        if self.budget() == bytes {
            return;
        }
        self.mark.store(self.sum(), Relaxed);
        self.budget.store(bytes, Relaxed);
        for part in self.parts.iter() {
            part.asked.store(ASK, Relaxed);
        }
    }

    /// So many bytes more, or less, are in memory.
    #[inline]
    pub fn add(&self, delta: i64) {
        if self.counts {
            self.parts.get().bytes.fetch_add(delta, Relaxed);
        }
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
            budget => beyond(self.sum(), budget as i64),
        }
    }

    /// Bytes that came in beyond the budget, or beyond what was there when it was lowered and is
    /// not won back yet.
    pub fn ahead(&self) -> u64 {
        match self.budget() {
            0 => 0,
            budget => beyond(self.sum(), self.mark.load(Relaxed).max(budget as i64)),
        }
    }

    /// What is won back does not come in again without being seen.
    pub fn lower_mark(&self) {
        let sum = self.sum();
        if sum < self.mark.load(Relaxed) {
            self.mark.store(sum, Relaxed);
        }
    }

    /// What is too much, if this core has brought in enough to ask.
    pub fn ask(&self) -> Option<Excess> {
        let part = self.parts.get();
        let (bytes, asked) = (part.bytes.load(Relaxed), part.asked.load(Relaxed));
        // Not over what a new budget wants of every core.
        let now = |bytes| part.asked.compare_exchange(asked, bytes, Relaxed, Relaxed);
        if bytes < asked {
            // Others may bring in what this one gave back.
            let _ = now(bytes);
        }
        if bytes < asked + self.grain() {
            return None;
        }
        let _ = now(bytes);
        let grown = match asked {
            ASK => self.grain(),
            asked => bytes - asked,
        };
        Some(Excess {
            over: self.over(),
            ahead: self.ahead(),
            grown: grown.unsigned_abs(),
        })
        .filter(|excess| excess.over > 0)
    }

    /// Bytes that a core may bring in between two questions, at least one.
    fn grain(&self) -> i64 {
        (self.budget() / (SLACK * cores() as u64)).max(1) as i64
    }
}

fn beyond(sum: i64, limit: i64) -> u64 {
    (sum - limit).max(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: u64 = 1 << 20;

    fn over(resident: &MemUsage) -> u64 {
        resident.ask().map_or(0, |excess| excess.over)
    }

    #[test]
    fn a_core_asks_when_it_has_grown_by_a_grain() {
        let resident = MemUsage::new(BUDGET, true);
        assert_eq!(resident.ask(), None);
        // In one step beyond the budget: seen at once, by every core once.
        resident.add(BUDGET as i64 + 100);
        assert_eq!((resident.over(), resident.ahead()), (100, 100));
        let told = (0..100).filter_map(|_| resident.ask()).count();
        assert!((1..=cores()).contains(&told), "{told} times");
        resident.add(resident.grain());
        // The thread may have gone to another core, which has not asked yet.
        let grain = resident.grain().unsigned_abs();
        let excess = Excess {
            over: 100 + grain,
            ahead: 100 + grain,
            grown: grain,
        };
        assert!(resident.ask().is_none_or(|told| told == excess));
        resident.add(-100 - 2 * resident.grain());
        assert_eq!((resident.ask(), resident.over()), (None, 0));
    }

    #[test]
    fn what_is_overlooked_is_less_than_the_grains_of_all_cores() {
        let resident = MemUsage::new(BUDGET, true);
        resident.add(BUDGET as i64 - 50_000);
        let mut seen = 0;
        while seen == 0 {
            resident.add(100);
            seen = over(&resident);
            assert!(resident.over() <= BUDGET / SLACK + 100);
        }
    }

    #[test]
    fn who_has_brought_in_little_does_not_ask() {
        let resident = MemUsage::new(BUDGET, true);
        resident.add(BUDGET as i64);
        // Every core has asked, whichever this thread goes to.
        for part in resident.parts.iter() {
            part.asked.store(part.bytes.load(Relaxed), Relaxed);
        }
        resident.add(1);
        assert_eq!((over(&resident), resident.over()), (0, 1));
    }

    #[test]
    fn a_new_budget_is_seen_by_all_cores() {
        let resident = MemUsage::new(0, true);
        resident.add(BUDGET as i64);
        assert_eq!((over(&resident), resident.over()), (0, 0));
        resident.set_budget(BUDGET - 1);
        for part in resident.parts.iter() {
            assert_eq!(part.asked.load(Relaxed), ASK);
        }
        assert_eq!(over(&resident), 1);
    }

    #[test]
    fn a_lowered_budget_is_no_growth_and_what_was_won_back_is_when_it_comes_again() {
        let resident = MemUsage::new(BUDGET, true);
        resident.add(BUDGET as i64);
        resident.set_budget(BUDGET / 2);
        assert_eq!((resident.over(), resident.ahead()), (BUDGET / 2, 0));
        resident.add(10_000);
        assert_eq!(resident.ahead(), 10_000);
        resident.add(-110_000);
        assert_eq!(resident.ahead(), 0);
        resident.lower_mark();
        resident.add(30_000);
        assert_eq!(resident.ahead(), 30_000);
        // The mark goes with what is there, but the budget may be filled.
        resident.add(-(BUDGET as i64));
        resident.lower_mark();
        resident.add(BUDGET as i64 / 2 - resident.sum());
        assert_eq!((resident.over(), resident.ahead()), (0, 0));
        resident.add(1);
        assert_eq!((resident.over(), resident.ahead()), (1, 1));
    }

    #[test]
    fn what_was_given_back_and_taken_again_is_growth() {
        let resident = MemUsage::new(BUDGET, true);
        resident.add(BUDGET as i64 / 2);
        assert_eq!(over(&resident), 0);
        resident.add(-(BUDGET as i64) / 2);
        assert_eq!(over(&resident), 0);
        // Meanwhile another core has filled the half.
        resident
            .parts
            .of(cores() - 1)
            .bytes
            .fetch_add(BUDGET as i64 / 2, Relaxed);
        resident.add(BUDGET as i64 / 2 + 1);
        assert_eq!(over(&resident), 1);
    }
}
