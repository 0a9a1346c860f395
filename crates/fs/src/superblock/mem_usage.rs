//! Memory accounting: the bytes in memory, and the budget for them.
//!
//! Each core counts the bytes that it brings in and gives back on a cache line of its own. To add
//! up all cores is to read all these lines, which is too much for every operation. So a core adds
//! them up when its own count has grown by a [batch](MemUsage::batch) since it last did. All cores
//! together may therefore exceed the budget by a [`SLACK`]th of it before one of them sees it.
//!
//! A lowered budget is met slowly, but bytes that come in beyond it are reclaimed as they come. The
//! [watermark](MemUsage::ahead) distinguishes the two.

use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::cores;

/// The batches of all cores together are one part in this many of the budget.
pub(crate) const SLACK: u64 = 64;

/// The bytes in memory that reclaim could free. Stays 0 for a backend that takes nothing back.
pub(crate) struct MemUsage {
    /// Whether the backend takes objects back. Immutable.
    counts: bool,
    parts: PerCpu<CoreBytes>,
    /// The budget in bytes; 0 is no budget. Relaxed: an independent option.
    budget: AtomicU64,
    /// [`batch_of`] the budget, which every operation looks at: no division there. Relaxed: a
    /// slightly old one only moves a check.
    batch: AtomicI64,
    /// The low-water mark: the smallest number of bytes in memory at any look since the budget was
    /// set. It matters while it is above the budget. Relaxed: a slightly old value only makes
    /// reclaim a little faster or slower.
    watermark: AtomicI64,
}

/// The result of a core's check, in bytes. All fields but `ahead` are above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    /// Bytes beyond the budget.
    pub over: u64,
    /// Bytes beyond both the budget and the watermark.
    pub ahead: u64,
    /// Bytes that this core brought in since its last check.
    pub grown: u64,
}

/// The count of one core. Relaxed throughout: a slightly old sum only makes a sweep begin a little
/// later.
struct CoreBytes {
    /// Bytes brought in minus bytes given back on this core. It may be negative, because another
    /// core may have brought them in.
    bytes: AtomicI64,
    /// `bytes` at the core's last check, or less where `bytes` fell since.
    checked: AtomicI64,
}

/// The value of `checked` that makes the core check again at once.
const CHECK: i64 = i64::MIN / 2;

impl MemUsage {
    /// Counts from 0, with a budget of `budget` bytes, or none if that is 0. `counts`: the backend
    /// takes objects back.
    pub fn new(budget: u64, counts: bool) -> MemUsage {
        let part = |_| CoreBytes {
            bytes: AtomicI64::new(0),
            // Where nothing is counted there is nothing to check.
            checked: AtomicI64::new(if counts { CHECK } else { 0 }),
        };
        MemUsage {
            counts,
            parts: PerCpu::new(part),
            budget: AtomicU64::new(budget),
            batch: AtomicI64::new(batch_of(budget)),
            watermark: AtomicI64::new(0),
        }
    }

    /// Returns the budget in bytes; 0 is no budget.
    #[inline]
    pub fn budget(&self) -> u64 {
        self.budget.load(Relaxed)
    }

    /// Sets the budget, and makes every core check again. The bytes that are in memory now may be
    /// freed slowly.
    pub fn set_budget(&self, bytes: u64) {
        if self.budget() == bytes {
            return;
        }
        self.watermark.store(self.sum(), Relaxed);
        self.budget.store(bytes, Relaxed);
        self.batch.store(batch_of(bytes), Relaxed);
        for part in self.parts.iter().filter(|_| self.counts) {
            part.checked.store(CHECK, Relaxed);
        }
    }

    /// Adds `delta`, which may be negative, to the bytes in memory.
    #[inline]
    pub fn add(&self, delta: i64) {
        if self.counts {
            self.parts.get().bytes.fetch_add(delta, Relaxed);
        }
    }

    /// The bytes in memory: exact when no core adds meanwhile.
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

    /// Bytes that came in beyond the budget, or beyond the watermark of a lowered budget.
    pub fn ahead(&self) -> u64 {
        match self.budget() {
            0 => 0,
            budget => beyond(self.sum(), self.watermark.load(Relaxed).max(budget as i64)),
        }
    }

    /// Lowers the watermark to the bytes in memory: reclaimed bytes that come in again count as
    /// growth.
    pub fn lower_watermark(&self) {
        let sum = self.sum();
        if sum < self.watermark.load(Relaxed) {
            self.watermark.store(sum, Relaxed);
        }
    }

    /// Whether this core has brought in too little since its last check to make one.
    #[inline]
    pub fn is_calm(&self) -> bool {
        let part = self.parts.get();
        let grown = part.bytes.load(Relaxed) - part.checked.load(Relaxed);
        // What fell, which also makes a check, is a large number.
        (grown as u64) < self.batch() as u64
    }

    /// Returns what exceeds the budget, if this core has brought in enough to check.
    pub fn check(&self) -> Option<Excess> {
        if self.is_calm() {
            return None;
        }
        let part = self.parts.get();
        let (bytes, checked) = (part.bytes.load(Relaxed), part.checked.load(Relaxed));
        // By exchange: a new budget makes every core check again, and its mark must not be
        // overwritten. What falls is noted too: other cores may bring in what this one gave back.
        let _ = part
            .checked
            .compare_exchange(checked, bytes, Relaxed, Relaxed);
        if bytes < checked {
            return None;
        }
        let grown = match checked {
            CHECK => self.batch(),
            checked => bytes - checked,
        };
        Some(Excess {
            over: self.over(),
            ahead: self.ahead(),
            grown: grown.unsigned_abs(),
        })
        .filter(|excess| excess.over > 0)
    }

    /// Bytes that a core may bring in between two checks.
    #[inline]
    fn batch(&self) -> i64 {
        self.batch.load(Relaxed)
    }
}

/// The batch of a core, of so many bytes of budget: at least one.
fn batch_of(budget: u64) -> i64 {
    (budget / (SLACK * cores() as u64)).max(1) as i64
}

fn beyond(sum: i64, limit: i64) -> u64 {
    (sum - limit).max(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: u64 = 1 << 20;

    fn over(mem_usage: &MemUsage) -> u64 {
        mem_usage.check().map_or(0, |excess| excess.over)
    }

    #[test]
    fn a_core_checks_when_it_has_grown_by_a_batch() {
        let mem_usage = MemUsage::new(BUDGET, true);
        assert_eq!(mem_usage.check(), None);
        // Beyond the budget in one step: every core sees it at once, and once.
        mem_usage.add(BUDGET as i64 + 100);
        assert_eq!((mem_usage.over(), mem_usage.ahead()), (100, 100));
        let told = (0..100).filter_map(|_| mem_usage.check()).count();
        assert!((1..=cores()).contains(&told), "{told} times");
        mem_usage.add(mem_usage.batch());
        // The thread may have moved to another core, which has not checked yet.
        let batch = mem_usage.batch().unsigned_abs();
        let excess = Excess {
            over: 100 + batch,
            ahead: 100 + batch,
            grown: batch,
        };
        assert!(mem_usage.check().is_none_or(|told| told == excess));
        mem_usage.add(-100 - 2 * mem_usage.batch());
        assert_eq!((mem_usage.check(), mem_usage.over()), (None, 0));
    }

    #[test]
    fn uncounted_growth_is_less_than_the_batches_of_all_cores() {
        let mem_usage = MemUsage::new(BUDGET, true);
        mem_usage.add(BUDGET as i64 - 50_000);
        let mut seen = 0;
        while seen == 0 {
            mem_usage.add(100);
            seen = over(&mem_usage);
            assert!(mem_usage.over() <= BUDGET / SLACK + 100);
        }
    }

    #[test]
    fn a_core_that_has_brought_in_little_does_not_check() {
        let mem_usage = MemUsage::new(BUDGET, true);
        mem_usage.add(BUDGET as i64);
        // Every core has checked, wherever this thread runs.
        for part in mem_usage.parts.iter() {
            part.checked.store(part.bytes.load(Relaxed), Relaxed);
        }
        mem_usage.add(1);
        assert_eq!((over(&mem_usage), mem_usage.over()), (0, 1));
    }

    #[test]
    fn a_new_budget_is_seen_by_all_cores() {
        let mem_usage = MemUsage::new(0, true);
        mem_usage.add(BUDGET as i64);
        assert_eq!((over(&mem_usage), mem_usage.over()), (0, 0));
        mem_usage.set_budget(BUDGET - 1);
        for part in mem_usage.parts.iter() {
            assert_eq!(part.checked.load(Relaxed), CHECK);
        }
        assert_eq!(over(&mem_usage), 1);
    }

    #[test]
    fn a_lowered_budget_is_no_growth_but_reclaimed_bytes_that_return_are() {
        let mem_usage = MemUsage::new(BUDGET, true);
        mem_usage.add(BUDGET as i64);
        mem_usage.set_budget(BUDGET / 2);
        assert_eq!((mem_usage.over(), mem_usage.ahead()), (BUDGET / 2, 0));
        mem_usage.add(10_000);
        assert_eq!(mem_usage.ahead(), 10_000);
        mem_usage.add(-110_000);
        assert_eq!(mem_usage.ahead(), 0);
        mem_usage.lower_watermark();
        mem_usage.add(30_000);
        assert_eq!(mem_usage.ahead(), 30_000);
        // The watermark follows what is in memory, but the budget may be filled.
        mem_usage.add(-(BUDGET as i64));
        mem_usage.lower_watermark();
        mem_usage.add(BUDGET as i64 / 2 - mem_usage.sum());
        assert_eq!((mem_usage.over(), mem_usage.ahead()), (0, 0));
        mem_usage.add(1);
        assert_eq!((mem_usage.over(), mem_usage.ahead()), (1, 1));
    }

    #[test]
    fn bytes_given_back_and_taken_again_are_growth() {
        let mem_usage = MemUsage::new(BUDGET, true);
        mem_usage.add(BUDGET as i64 / 2);
        assert_eq!(over(&mem_usage), 0);
        mem_usage.add(-(BUDGET as i64) / 2);
        assert_eq!(over(&mem_usage), 0);
        // Meanwhile another core has filled the half.
        mem_usage
            .parts
            .of(cores() - 1)
            .bytes
            .fetch_add(BUDGET as i64 / 2, Relaxed);
        mem_usage.add(BUDGET as i64 / 2 + 1);
        assert_eq!(over(&mem_usage), 1);
    }
}
