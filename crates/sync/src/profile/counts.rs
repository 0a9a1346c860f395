//! What is counted, and of what.

use std::ops::AddAssign;
use std::panic::Location;

/// In which way a lock was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// To have it alone.
    Write,
    /// To be inside with others.
    Read,
    /// Not to have it, only until nobody has it: the readers of a sequence lock. Those that need
    /// not wait are not counted, because they write nothing.
    Wait,
}

/// What one cell counts: a class, a side of it, and the place that asked.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the class.
    pub class: &'static str,
    /// Side of the lock.
    pub side: Side,
    /// Where the lock was asked for.
    pub site: &'static Location<'static>,
}

/// Sums over requests. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were granted at once. Drawn ones, each times what it stands for.
    pub free: u64,
    /// Requests that were granted after a wait. Exact.
    pub waited: u64,
    /// Tries in vain. Exact.
    pub refused: u64,
    /// Grants of a lock that another core had last.
    pub bounced: u64,
    /// Holds that were timed.
    pub timed: u64,
    /// Time held by all grants together, each timed one times what it stands for.
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
    /// What was counted there.
    pub counts: Counts,
}

/// The profile of the process at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Whether it goes on.
    pub running: bool,
    /// Whether every lock is recorded, see [`Sampling::All`](super::Sampling::All).
    pub exact: bool,
    /// Nanoseconds from the start, or the last reset, to now or to the stop.
    pub elapsed_ns: u64,
    /// Requests that are in no row, because a thread used more call sites than it has cells.
    pub lost: u64,
    /// Call sites in the order of class, side, file, line.
    pub rows: Vec<Row>,
}
