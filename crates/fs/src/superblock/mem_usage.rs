//! Memory accounting: the bytes in memory, and the budget for them.
//!
//! Each core counts the bytes that it brings in and gives back on a cache line of its own. To add
//! up all cores is to read all these lines, which is too much for every operation. So a core adds
//! them up when its own count has grown by a [batch](MemUsage::batch) since it last did. All cores
//! together may therefore exceed the budget by a [`SLACK`]th of it before one of them sees it.
//!
//! Nor does every operation look for the count of its core: who brings bytes in says when there is
//! something to look for ([`MemUsage::is_check_due`]). So an operation that finds all it needs in
//! memory reads one word that hardly ever changes.
//!
//! A lowered budget is met slowly, but bytes that come in beyond it are reclaimed as they come. The
//! [watermark](MemUsage::ahead) distinguishes the two.

use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use hearth_sync::primitive::atomic::{AtomicI64, AtomicU32, AtomicU64};
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
    /// [`batch_of`] the budget, which every change of the bytes looks at: no division there.
    /// Relaxed: a slightly old one only moves a check.
    batch: AtomicI64,
    /// [`CALM`], [`DUE`] or [`OVER`]. Raised by exchange after the bytes are counted, and lowered
    /// by exchange before the counts of all cores are looked at: whoever lowers it sees what those
    /// have counted who raised it, and raises it again for them.
    state: AtomicU32,
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

/// The count of one core. Relaxed, but for the marks of a new budget: a slightly old sum only makes
/// a sweep begin a little later.
struct CoreBytes {
    /// Bytes brought in minus bytes given back on this core. It may be negative, because another
    /// core may have brought them in.
    bytes: AtomicI64,
    /// `bytes` at the core's last check, or less where `bytes` fell since.
    checked: AtomicI64,
}

/// The value of `checked` that makes the core check again at once.
const CHECK: i64 = i64::MIN / 2;

/// No core has grown by a batch since its last check.
const CALM: u32 = 0;
/// A core has, and has to check.
const DUE: u32 = 1;
/// So it has, and memory is over the budget: another core has looked. Only its operations pay.
const OVER: u32 = 2;

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
            state: AtomicU32::new(if counts { DUE } else { CALM }),
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
        if self.counts {
            self.check_all();
        }
    }

    /// Makes every core check again, by the budget.
    fn check_all(&self) {
        for part in self.parts.iter() {
            // Release: who takes the mark away reads this budget, or a newer one.
            part.checked.store(CHECK, Release);
        }
        self.state.fetch_max(DUE, AcqRel);
    }

    /// Adds `delta`, which may be negative, to the bytes in memory.
    #[inline]
    pub fn add(&self, delta: i64) {
        if self.counts {
            let part = self.parts.get();
            let bytes = part.bytes.fetch_add(delta, Relaxed) + delta;
            let checked = part.checked.load(Relaxed);
            // What fell is a large number.
            if (bytes - checked) as u64 >= self.batch() as u64 {
                self.note(part, checked, bytes);
            }
        }
    }

    #[inline(never)]
    fn note(&self, part: &CoreBytes, checked: i64, bytes: i64) {
        if bytes < checked {
            // What falls is noted too: other cores may bring in what this one gave back. By
            // exchange, as in `check`.
            let _ = part
                .checked
                .compare_exchange(checked, bytes, Relaxed, Relaxed);
        } else {
            self.state.fetch_max(DUE, AcqRel);
        }
    }

    /// Whether some core may have to check.
    #[inline]
    pub fn is_check_due(&self) -> bool {
        // Relaxed: a slightly old value only moves a check.
        self.state.load(Relaxed) != CALM
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
        // It may be within the budget again.
        let _ = self.state.compare_exchange(OVER, DUE, AcqRel, Relaxed);
    }

    /// Whether a core has brought in too little since its last check to make one.
    fn is_calm(&self, part: &CoreBytes) -> bool {
        part.bytes.load(Relaxed) - part.checked.load(Relaxed) < self.batch()
    }

    /// Returns what exceeds the budget, if this core has brought in enough to check.
    pub fn check(&self) -> Option<Excess> {
        self.check_of(self.parts.get())
    }

    fn check_of(&self, part: &CoreBytes) -> Option<Excess> {
        if self.is_calm(part) {
            self.check_for_others();
            return None;
        }
        let (bytes, checked) = (part.bytes.load(Relaxed), part.checked.load(Relaxed));
        // By exchange: a new budget makes every core check again, and its mark must not be
        // overwritten. Acquire: pairs with `check_all`, for the look at the budget.
        let _ = part
            .checked
            .compare_exchange(checked, bytes, Acquire, Relaxed);
        self.state.swap(CALM, AcqRel);
        if !self.parts.iter().all(|part| self.is_calm(part)) {
            self.state.fetch_max(DUE, AcqRel);
        }
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

    /// Checks for the cores that have grown, where nobody may run any more, if memory is within the
    /// budget. If it is not, they have to.
    #[inline(never)]
    fn check_for_others(&self) {
        if self.state.load(Relaxed) != DUE {
            return;
        }
        self.state.swap(CALM, AcqRel);
        let budget = self.budget();
        // The bytes that are summed are those that are noted: what comes in meanwhile is growth.
        let seen: Vec<i64> = self.parts.iter().map(|it| it.bytes.load(Relaxed)).collect();
        let sum = seen.iter().copied().fold(0, i64::wrapping_add);
        if budget > 0 && beyond(sum, budget as i64) > 0 {
            self.state.fetch_max(OVER, AcqRel);
            return;
        }
        self.note_within(budget, &seen);
    }

    /// The bytes that the cores were seen to have are within `budget`.
    fn note_within(&self, budget: u64, seen: &[i64]) {
        for (part, &bytes) in self.parts.iter().zip(seen) {
            let checked = part.checked.load(Relaxed);
            if bytes - checked >= self.batch() {
                // Acquire: pairs with `check_all`, for the look at the budget.
                let _ = part
                    .checked
                    .compare_exchange(checked, bytes, Acquire, Relaxed);
            }
        }
        // The marks that were taken away may be those of a budget that was set meanwhile.
        if self.budget() != budget {
            self.check_all();
        }
    }

    /// Bytes that a core may bring in between two checks.
    #[inline]
    fn batch(&self) -> i64 {
        self.batch.load(Relaxed)
    }
}

/// The batch of a core, of so many bytes of budget: at least one, and more than any growth where
/// there is no budget.
fn batch_of(budget: u64) -> i64 {
    match budget {
        0 => i64::MAX,
        budget => (budget / (SLACK * cores() as u64)).max(1) as i64,
    }
}

fn beyond(sum: i64, limit: i64) -> u64 {
    (sum - limit).max(0).unsigned_abs()
}

#[cfg(test)]
#[path = "mem_usage_tests.rs"]
mod tests;
