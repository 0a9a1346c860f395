//! Benchmarks of Hearth: the program `hearth-bench`, see `docs/benchmarks.md`.
//!
//! A measurement is **workload x target x tasks -> samples**, one sample a round:
//!
//! - *Workloads* are data: a [`script::Script`] is a tree and the calls of one operation, and
//!   [`workloads`] are the tables of them. What no script can say is a [`workload::Workload`] of
//!   its own: repeated for a while, or a fixed amount in phases.
//! - *Targets* are behind [`target::Client`]: the library in process, or a directory of the host.
//!   A [`contender::Contender`] is a target by its name, of which every run gets a fresh one.
//! - [`measure`] runs one workload once on one target with its tasks on pinned threads;
//!   [`runner::Effort`] alternates everything that is compared, round by round.
//!   [`runner::rounds`] does the same with jobs of any kind, as those in directories by programs
//!   ([`children`]).
//! - [`stats`] keeps samples ([`stats::Samples`]: for each metric a [`stats::Grid`] by workload,
//!   target and tasks; a [`stats::Pair`] with a feature on and off) and has every median, interval
//!   and ratio.
//! - A [`report::Report`] collects rows (JSON lines), and the [`ask::Ask`]s of a suite: what the
//!   figures have to show. It prints their table and decides whether the run fails.
//!
//! A suite is a verb of the program ([`cli`] has the table): its parts are functions that fill a
//! report. Small ones are in [`suites`]; [`seeds`] are the tests of the seed patch sets, [`heat`]
//! switches heat between blocks of runs, [`sched`] is about the scheduler, [`store`] about
//! volumes on a disk. Counts of instructions run this program again under valgrind
//! ([`callgrind::counted`]) with a verb of its own.
//!
//! Mounts are taken down whatever happens ([`mounted`]), also when nothing moves any more
//! ([`watchdog`]).
#![allow(
    missing_docs,
    reason = "the parts of one program, which nobody else uses"
)]

pub mod allocations;
pub mod ask;
pub mod backed;
pub mod callgrind;
pub mod chart;
pub mod children;
pub mod cli;
pub mod contender;
pub mod cpu_time;
pub mod daemons;
pub mod failure;
pub mod fs_mark;
pub mod git_checkout;
pub mod heat;
pub mod histogram;
pub mod host;
pub mod instrumented;
pub mod loops;
pub mod measure;
pub mod mounted;
pub mod options;
pub mod pinned;
pub mod random;
pub mod record;
pub mod report;
pub mod room;
pub mod row;
pub mod runner;
pub mod sched;
pub mod script;
pub mod seeds;
pub mod stats;
pub mod store;
pub mod suites;
pub mod table;
pub mod target;
pub mod uring_switch;
pub mod valgrind;
pub mod watchdog;
pub mod while_running;
pub mod workload;
pub mod workloads;
