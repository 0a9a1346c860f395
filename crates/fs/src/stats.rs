//! Counters and latency histograms of a volume, per CPU.
//!
//! Front ends count their operations, with times; the library counts its calls.

use crate::cache_padded::CachePadded;
use crate::calls::{Call, CallStats};
use crate::named::named;
use crate::op_rate::{OpRate, WINDOWS};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::percpu::{PerCpu, ThreadCounters};
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;

named! {
    /// An operation of a front end as statistics tell them apart.
    Op {
        Lookup "lookup", Forget "forget", GetAttr "getattr", SetAttr "setattr",
        ReadLink "readlink", Mknod "mknod", Mkdir "mkdir", Symlink "symlink", Link "link",
        Unlink "unlink", Rmdir "rmdir", Rename "rename", Open "open", Create "create",
        Tmpfile "tmpfile", Read "read", Write "write", Flush "flush", Release "release",
        Fsync "fsync", SyncFs "syncfs", OpenDir "opendir", ReadDir "readdir", StatFs "statfs",
        Access "access", GetXattr "getxattr", SetXattr "setxattr", ListXattr "listxattr",
        RemoveXattr "removexattr", Lseek "lseek", Fallocate "fallocate",
        CopyFileRange "copy_file_range", GetLk "getlk", SetLk "setlk", Ioctl "ioctl",
        Interrupt "interrupt", Poll "poll", Other "other",
    }
}

/// Histogram buckets: bucket `i` counts latencies below `2^(i+8)` ns, the last one everything
/// above.
pub const BUCKETS: usize = 24;

lock_class!(InfoLock = "stats.info", 975);

/// Statistics of one volume.
pub struct Stats {
    /// Read by every call: the written fields below lie on other cache lines.
    cpus: PerCpu<PerCpuStats>,
    /// For each call its count and its errors. It has no times: reading a clock costs more than the
    /// call, and so does a locked instruction.
    calls: ThreadCounters<{ 2 * Call::ALL.len() }>,
    pub(crate) rate: CachePadded<OpRate>,
    info: CachePadded<Lock<InfoLock, BTreeMap<&'static str, String>>>,
}

#[repr(align(64))]
struct PerCpuStats {
    ops: [OpCell; Op::ALL.len()],
    events: [AtomicU64; Event::ALL.len()],
}

/// Each CPU writes only its own cells; readers add them up. Relaxed: sums of counters order
/// nothing.
struct OpCell {
    errors: AtomicU64,
    ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// An event besides operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// A path walk began again because a directory was moved meanwhile.
    WalkRestart,
    /// A path walk went on under the rename lock.
    WalkFallback,
    /// An operation waited for the backend.
    BackendFetch,
    /// An object was dropped from memory to keep the budget.
    Reclaimed,
    /// An operation panicked.
    Panic,
    /// A setting that the backend kept could not be read when the volume was opened.
    SettingIgnored,
    /// A file was opened that the kernel reads and writes by itself.
    PassedThrough,
    /// The kernel refused to do so.
    PassthroughRefused,
    /// An open was refused since too many files are open.
    OpenRefused,
    /// A commit has made changes durable.
    Commit,
    /// An event of the stream of names was dropped before a listener had read it.
    NameEventLost,
    /// What others change behind a mount over a host directory could not be read.
    WatchFailed,
}

impl Event {
    /// Every event, in the order of their numbers.
    pub const ALL: &'static [Event] = &[
        Event::WalkRestart,
        Event::WalkFallback,
        Event::BackendFetch,
        Event::Reclaimed,
        Event::Panic,
        Event::SettingIgnored,
        Event::PassedThrough,
        Event::PassthroughRefused,
        Event::OpenRefused,
        Event::Commit,
        Event::NameEventLost,
        Event::WatchFailed,
    ];

    /// Name of its counter.
    pub fn name(self) -> &'static str {
        match self {
            Event::WalkRestart => "walk_restarts",
            Event::WalkFallback => "walk_fallbacks",
            Event::BackendFetch => "home_loads",
            Event::Reclaimed => "reclaimed_objects",
            Event::Panic => "panics",
            Event::SettingIgnored => "settings_ignored",
            Event::PassedThrough => "passthrough_opens",
            Event::PassthroughRefused => "passthrough_refused",
            Event::OpenRefused => "opens_refused",
            Event::Commit => "commits",
            Event::NameEventLost => "name_events_lost",
            Event::WatchFailed => "watch_failures",
        }
    }

    /// What it counts, for people.
    pub fn help(self) -> &'static str {
        match self {
            Event::WalkRestart => "Path walks that began again because a rename ran beside them.",
            Event::WalkFallback => "Path walks that kept renames out in the end.",
            Event::BackendFetch => "Objects that were loaded from the backend.",
            Event::Reclaimed => "Objects that were given back to the backend.",
            Event::Panic => "Panics in operations and in the background.",
            Event::SettingIgnored => "Kept settings that could not be read and do not hold.",
            Event::PassedThrough => "Opens of files that the kernel reads and writes by itself.",
            Event::PassthroughRefused => "Opens that the kernel refused to pass through.",
            Event::OpenRefused => "Opens that were refused since too many files are open.",
            Event::Commit => "Commits that made changes durable.",
            Event::NameEventLost => "Events of names that a listener lost by reading too slowly.",
            Event::WatchFailed => "Reads of what others change behind the mount that failed.",
        }
    }
}

/// Sums over all CPUs for one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpStats {
    /// Number of operations, errors included.
    pub count: u64,
    /// Number of errors.
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
        let make = |_| PerCpuStats {
            ops: std::array::from_fn(|_| cell()),
            events: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Stats {
            cpus: PerCpu::new(make),
            calls: ThreadCounters::new(),
            rate: CachePadded(OpRate::default()),
            info: CachePadded(Lock::new(BTreeMap::new())),
        }
    }

    /// Counts one operation of a front end that took `ns` nanoseconds.
    pub fn count(&self, op: Op, ns: u64, ok: bool) {
        let cell = &self.cpus.get().ops[op as usize];
        let bucket = (64 - (ns >> 8).leading_zeros() as usize).min(BUCKETS - 1);
        cell.buckets[bucket].fetch_add(1, Relaxed);
        cell.ns.fetch_add(ns, Relaxed);
        if !ok {
            cell.errors.fetch_add(1, Relaxed);
        }
    }

    /// Counts one call of the library.
    #[inline]
    pub(crate) fn count_call(&self, call: Call) {
        self.calls.add(2 * call as usize, 1);
    }

    /// Counts the error of a library call that was counted before.
    #[cold]
    pub(crate) fn count_call_error(&self, call: Call) {
        self.calls.add(2 * call as usize + 1, 1);
    }

    /// Operations of front ends, of every kind.
    pub fn operations(&self) -> u64 {
        let ops = self.cpus.iter().flat_map(|cpu| &cpu.ops);
        ops.flat_map(|cell| &cell.buckets)
            .map(|bucket| bucket.load(Relaxed))
            .sum()
    }

    /// Operations of front ends per second, averaged over the last 1, 5 and 15 minutes, with the
    /// name of each window.
    pub fn ops_per_second(&self) -> [(&'static str, f64); 3] {
        let rates = self.rate.0.per_second();
        std::array::from_fn(|window| (WINDOWS[window].0, rates[window]))
    }

    /// Counts one event.
    pub fn event(&self, event: Event) {
        self.count_events(event, 1);
    }

    /// Counts `n` events of one kind.
    pub(crate) fn count_events(&self, event: Event, n: u64) {
        self.cpus.get().events[event as usize].fetch_add(n, Relaxed);
    }

    /// Sum of one event.
    pub fn events(&self, event: Event) -> u64 {
        self.cpus
            .iter()
            .map(|cpu| cpu.events[event as usize].load(Relaxed))
            .sum()
    }

    /// Sum of one operation of front ends.
    pub fn op(&self, op: Op) -> OpStats {
        let mut sum = OpStats::default();
        for cpu in self.cpus.iter() {
            let cell = &cpu.ops[op as usize];
            sum.errors += cell.errors.load(Relaxed);
            sum.ns += cell.ns.load(Relaxed);
            for (total, bucket) in sum.buckets.iter_mut().zip(&cell.buckets) {
                *total += bucket.load(Relaxed);
            }
        }
        sum.count = sum.buckets.iter().sum();
        sum
    }

    /// Sum of one call of the library, all processes together.
    pub fn call(&self, call: Call) -> CallStats {
        let sum = |which| self.calls.sum(2 * call as usize + which).cast_unsigned();
        CallStats {
            count: sum(0),
            errors: sum(1),
        }
    }

    /// Sets a label of the volume, such as `("transport", "uring")`.
    pub fn set_info(&self, key: &'static str, value: &str) {
        self.info.0.lock().insert(key, value.to_owned());
    }

    /// The labels of [`Stats::set_info`].
    pub fn info(&self) -> BTreeMap<&'static str, String> {
        self.info.0.lock().clone()
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

    #[test]
    fn a_call_of_the_library_is_no_operation_of_a_front_end() {
        let stats = Stats::new();
        stats.count_call(Call::Read);
        stats.count_call(Call::Read);
        stats.count_call_error(Call::Read);
        let sum = CallStats {
            count: 2,
            errors: 1,
        };
        assert_eq!(stats.call(Call::Read), sum);
        assert_eq!(stats.call(Call::Write), CallStats::default());
        assert_eq!(stats.op(Op::Read), OpStats::default());
        assert_eq!(stats.operations(), 0);
    }
}
