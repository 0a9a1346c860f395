//! Lockmeter's columns.

use super::{LockCounts, LockSide};

/// The columns of one line. `None` where nothing was measured for the column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Columns {
    /// UTIL: percent of the time of the profile that locks of the class were held, added up over
    /// all of them.
    pub util: Option<f64>,
    /// CON: percent of the requests that were not granted at once.
    pub con: Option<f64>,
    /// HOLD: time held by a request, on average over all requests, in nanoseconds.
    pub hold_mean: Option<f64>,
    /// HOLD, in brackets: the longest, in nanoseconds.
    pub hold_max: Option<u64>,
    /// WAIT: time waited by a request that had to wait, in nanoseconds.
    pub wait_mean: Option<f64>,
    /// WAIT, in brackets: the longest, in nanoseconds.
    pub wait_max: Option<u64>,
    /// TOTAL: requests.
    pub total: u64,
    /// BOUNCE: percent of the requests that got a lock last held on another CPU.
    pub bounce: Option<f64>,
}

impl Columns {
    /// The columns for what was counted on a side of a class during `elapsed_ns`.
    pub fn of(counts: &LockCounts, side: LockSide, elapsed_ns: u64) -> Columns {
        let total = counts.total();
        // Waits without a lock hold nothing, and are not counted when they need not wait.
        let asks = (side != LockSide::Wait && total > 0).then_some(total as f64);
        let holds = asks.filter(|_| counts.timed > 0);
        let waits = (counts.waited > 0).then_some(counts.waited as f64);
        let hold = counts.hold_ns as f64;
        Columns {
            util: holds
                .filter(|_| elapsed_ns > 0)
                .map(|_| 100.0 * hold / elapsed_ns as f64),
            con: asks.map(|total| 100.0 - 100.0 * counts.free as f64 / total),
            hold_mean: holds.map(|total| hold / total),
            hold_max: holds.map(|_| counts.hold_ns_max),
            wait_mean: waits.map(|waits| counts.wait_ns as f64 / waits),
            wait_max: waits.map(|_| counts.wait_ns_max),
            total,
            bounce: asks
                .filter(|_| side == LockSide::Write && counts.timed > 0)
                .map(|total| 100.0 * counts.bounced as f64 / total),
        }
    }
}
