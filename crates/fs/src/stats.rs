//! Counters and latency histograms of a volume, per core; shown in `.hearth/stats`.

use crate::op_rate::OpRate;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use hearth_sync::spread::PerCore;
use std::collections::BTreeMap;

macro_rules! ops {
    ($($op:ident $name:literal),* $(,)?) => {
        /// An operation as statistics tell them apart.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Op { $($op),* }

        impl Op {
            /// Every operation, in the order of their numbers.
            pub const ALL: &'static [Op] = &[$(Op::$op),*];

            /// Lower-case name, the label in `.hearth/stats`.
            pub fn name(self) -> &'static str {
                match self { $(Op::$op => $name),* }
            }
        }
    };
}

ops! {
    Lookup "lookup", Forget "forget", GetAttr "getattr", SetAttr "setattr", ReadLink "readlink",
    Mknod "mknod", Mkdir "mkdir", Symlink "symlink", Link "link", Unlink "unlink", Rmdir "rmdir",
    Rename "rename", Open "open", Create "create", Tmpfile "tmpfile", Read "read", Write "write",
    Flush "flush", Release "release", Fsync "fsync", SyncFs "syncfs", OpenDir "opendir",
    ReadDir "readdir", StatFs "statfs", Access "access", GetXattr "getxattr", SetXattr "setxattr",
    ListXattr "listxattr", RemoveXattr "removexattr", Lseek "lseek", Fallocate "fallocate",
    CopyFileRange "copy_file_range", GetLk "getlk", SetLk "setlk", Ioctl "ioctl",
    Interrupt "interrupt",
    Poll "poll", Other "other",
}

/// Histogram buckets: bucket `i` counts latencies below `2^(i+8)` ns, the last one everything
/// above.
pub const BUCKETS: usize = 24;

lock_class!(InfoLock = "stats.info", 975);

/// Statistics of one volume.
pub struct Stats {
    cores: PerCore<Core>,
    pub(crate) rate: OpRate,
    info: Lock<InfoLock, BTreeMap<&'static str, String>>,
}

#[repr(align(64))]
struct Core {
    ops: [OpCell; Op::ALL.len()],
    events: [AtomicU64; Event::ALL.len()],
}

/// Each core writes its own cells alone; readers add up (hence `Relaxed`: sums of counters order
/// nothing).
struct OpCell {
    errors: AtomicU64,
    ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// Something that happened besides operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// A path walk began again because a directory was moved meanwhile.
    WalkRestart,
    /// A path walk went on under the rename lock.
    WalkFallback,
    /// An operation waited for the home.
    HomeLoad,
    /// An object was dropped from memory to keep the budget.
    Reclaimed,
    /// An operation panicked.
    Panic,
}

impl Event {
    /// Every event, in the order of their numbers.
    pub const ALL: &'static [Event] = &[
        Event::WalkRestart,
        Event::WalkFallback,
        Event::HomeLoad,
        Event::Reclaimed,
        Event::Panic,
    ];

    /// Name of its counter.
    pub fn name(self) -> &'static str {
        match self {
            Event::WalkRestart => "walk_restarts",
            Event::WalkFallback => "walk_fallbacks",
            Event::HomeLoad => "home_loads",
            Event::Reclaimed => "reclaimed_objects",
            Event::Panic => "panics",
        }
    }

    /// What it counts, for people.
    pub fn help(self) -> &'static str {
        match self {
            Event::WalkRestart => "Path walks that began again because a rename ran beside them.",
            Event::WalkFallback => "Path walks that kept renames out in the end.",
            Event::HomeLoad => "Objects that were loaded from the home.",
            Event::Reclaimed => "Objects that were given back to the home.",
            Event::Panic => "Panics in operations and in the background.",
        }
    }
}

/// Sum over all cores for one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpStats {
    /// Times the operation ran, errors included.
    pub count: u64,
    /// Times it answered an error.
    pub errors: u64,
    /// Time spent in nanoseconds.
    pub ns: u64,
    /// Latency histogram.
    pub buckets: [u64; BUCKETS],
}

impl Default for Stats {
    fn default() -> Stats {
        Stats::new()
    }
}

impl Stats {
    /// Everything zero.
    pub fn new() -> Stats {
        let cell = || OpCell {
            errors: AtomicU64::new(0),
            ns: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        };
        let core = |_| Core {
            ops: std::array::from_fn(|_| cell()),
            events: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Stats {
            cores: PerCore::new(core),
            rate: OpRate::default(),
            info: Lock::new(BTreeMap::new()),
        }
    }

    /// Counts one operation that took `ns` nanoseconds.
    pub fn count(&self, op: Op, ns: u64, ok: bool) {
        let cell = &self.cores.get().ops[op as usize];
        let bucket = (64 - (ns >> 8).leading_zeros() as usize).min(BUCKETS - 1);
        cell.buckets[bucket].fetch_add(1, Relaxed);
        cell.ns.fetch_add(ns, Relaxed);
        if !ok {
            cell.errors.fetch_add(1, Relaxed);
        }
    }

    /// Operations of every kind.
    pub fn operations(&self) -> u64 {
        let ops = self.cores.iter().flat_map(|core| &core.ops);
        ops.flat_map(|cell| &cell.buckets)
            .map(|bucket| bucket.load(Relaxed))
            .sum()
    }

    /// Counts one event.
    pub fn event(&self, event: Event) {
        self.cores.get().events[event as usize].fetch_add(1, Relaxed);
    }

    /// Sum of one event.
    pub fn events(&self, event: Event) -> u64 {
        self.cores
            .iter()
            .map(|core| core.events[event as usize].load(Relaxed))
            .sum()
    }

    /// Sum of one operation.
    pub fn op(&self, op: Op) -> OpStats {
        let mut sum = OpStats::default();
        for core in self.cores.iter() {
            let cell = &core.ops[op as usize];
            sum.errors += cell.errors.load(Relaxed);
            sum.ns += cell.ns.load(Relaxed);
            for (total, bucket) in sum.buckets.iter_mut().zip(&cell.buckets) {
                *total += bucket.load(Relaxed);
            }
        }
        sum.count = sum.buckets.iter().sum();
        sum
    }

    /// Says something about the volume that is not a number, `("transport", "uring")` for one.
    pub fn set_info(&self, key: &'static str, value: &str) {
        self.info.lock().insert(key, value.to_owned());
    }

    /// What was said by [`Stats::set_info`].
    pub fn info(&self) -> BTreeMap<&'static str, String> {
        self.info.lock().clone()
    }
}

impl std::fmt::Debug for Stats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stats")
            .field("info", &self.info())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_lands_in_the_bucket_of_its_latency() {
        let stats = Stats::new();
        stats.count(Op::Lookup, 0, true);
        stats.count(Op::Lookup, 256, false);
        stats.count(Op::Lookup, u64::MAX >> 1, true);
        let sum = stats.op(Op::Lookup);
        assert_eq!((sum.count, sum.errors), (3, 1));
        assert_eq!(
            (sum.buckets[0], sum.buckets[1], sum.buckets[BUCKETS - 1]),
            (1, 1, 1)
        );
        assert_eq!(stats.op(Op::Read), OpStats::default());
        stats.count(Op::Read, 300, true);
        assert_eq!(stats.operations(), 4);
    }
}
