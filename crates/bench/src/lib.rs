//! Benchmarks of Hearth, and the test whether commuting operations are conflict-free.
//!
//! Everything is a verb of the program `hearth-bench`; see `docs/benchmarks.md`.

pub mod activity;
pub mod allocations;
pub mod backed;
pub mod cell;
pub mod chart;
pub mod compare;
pub mod cpu_time;
pub mod daemons;
pub mod freeing;
pub mod git_checkout;
pub mod heat_bench;
pub mod histogram;
pub mod instructions;
pub mod instrumented;
pub mod latency;
pub mod library_bench;
pub mod live;
pub mod lock_price;
pub mod lookup;
pub mod measure;
pub mod memory;
pub mod mount_bench;
pub mod mounted;
pub mod options;
pub mod pair;
pub mod patience;
pub mod pinned;
pub mod quota_bench;
pub mod quota_mount;
mod quota_sides;
pub mod record;
pub mod row;
pub mod sched_bench;
pub mod seeds;
pub mod sessions;
pub mod table;
pub mod target;
pub mod uring_switch;
pub mod valgrind;
pub mod workload;
