//! The counters of the profile, and the keys that they belong to.

use std::ops::AddAssign;
use std::panic::Location;

/// How a lock was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Exclusive.
    Write,
    /// Shared.
    Read,
    /// Without taking it, until no thread holds it: the readers of a sequence lock. Reads that need
    /// not wait are not counted, because they write nothing.
    Wait,
}

/// The key of one cell: a class, a side of it, and the call site.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the class.
    pub class: &'static str,
    /// Side of the lock.
    pub side: Side,
    /// The call site.
    pub site: &'static Location<'static>,
}

/// Sums over requests. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were granted at once: the sampled ones, each times its weight.
    pub free: u64,
    /// Requests that were granted after a wait. Exact.
    pub waited: u64,
    /// Failed tries. Exact.
    pub refused: u64,
    /// Grants of a lock that was last held on another core.
    pub bounced: u64,
    /// Holds that were timed.
    pub timed: u64,
    /// Time held by all grants: each timed one times its weight.
    pub hold_ns: u64,
    /// Longest timed hold.
    pub hold_ns_max: u64,
    /// Time waited by `waited`.
    pub wait_ns: u64,
    /// Longest wait.
    pub wait_ns_max: u64,
}

impl Counts {
    /// All requests.
    pub fn total(&self) -> u64 {
        self.free + self.waited + self.refused
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.free += other.free;
        self.waited += other.waited;
        self.refused += other.refused;
        self.bounced += other.bounced;
        self.timed += other.timed;
        self.hold_ns += other.hold_ns;
        self.hold_ns_max = self.hold_ns_max.max(other.hold_ns_max);
        self.wait_ns += other.wait_ns;
        self.wait_ns_max = self.wait_ns_max.max(other.wait_ns_max);
    }
}

/// One call site of one side of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the class.
    pub class: &'static str,
    /// Side of the lock.
    pub side: Side,
    /// Source file of the call.
    pub file: &'static str,
    /// Line of the call.
    pub line: u32,
    /// Column of the call.
    pub column: u32,
    /// The counts of this call site.
    pub counts: Counts,
}

/// The profile of the process at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Whether the profile is on.
    pub running: bool,
    /// Whether every lock operation is recorded, see [`Sampling::All`](super::Sampling::All).
    pub exact: bool,
    /// Nanoseconds from the start, or the last reset, to now or to the stop.
    pub elapsed_ns: u64,
    /// Requests that are in no row, because a thread used more call sites than it has cells.
    pub lost: u64,
    /// Call sites in the order of class, side, file, line.
    pub rows: Vec<Row>,
}
