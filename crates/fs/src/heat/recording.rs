//! What the recording of an access returns, and how much a CPU may record one by one.

use super::sample_budget::BudgetRate;

/// Entries of a CPU's overflow ring; a power of two.
pub(super) const RING: usize = if cfg!(feature = "shuttle") { 32 } else { 4096 };
/// Accesses a second up to which a CPU has each of them recorded.
const EXACT: u64 = 100_000;
/// How fast a CPU may fill its ring. An entry costs about two microseconds in all, so sampled ones
/// take a thousandth of a CPU.
pub(super) const ENTRIES: BudgetRate = BudgetRate {
    burst: if cfg!(feature = "shuttle") {
        RING as u64 / 2
    } else {
        2 * RING as u64
    },
    exact: EXACT,
    most: RING as u64 / if cfg!(feature = "shuttle") { 2 } else { 4 },
    per_second: 320,
    step: RING as u64 / if cfg!(feature = "shuttle") { 8 } else { 256 },
};
/// How fast a CPU may record accesses. One costs about 25 nanoseconds, more if cold.
pub(super) const RECORDS: BudgetRate = BudgetRate {
    burst: 1 << 15,
    exact: EXACT,
    most: 1 << 14,
    per_second: 5120,
    step: 1 << 7,
};

/// The result of recording an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recording {
    /// One access in this many should be recorded from here on.
    pub weight: u64,
    /// Whether a drain is due.
    pub due: Due,
    /// There was no room for the access.
    pub is_lost: bool,
}

/// Whether a drain is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    No,
    /// Accesses are sampled from now on, or will be if nobody renews the budget.
    Soon,
    /// The ring fills.
    Now,
}

/// The result of the end of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndNotice {
    /// The ring had space for the notice.
    pub is_queued: bool,
    /// A drain is due.
    pub drain_requested: bool,
}
