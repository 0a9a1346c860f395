#![forbid(unsafe_code)]
//! A multi-queue scheduler that is fair between tenants.
//!
//! `docs/design/scheduler.md` has the states, who may write what, and why a runnable task runs.
//!
//! ```
//! use hearth_sched::{Scheduler, Spec, yield_now};
//!
//! let scheduler = Scheduler::builder().workers(2).start()?;
//! let alice = scheduler.tenant(1000);
//! scheduler.set_weight(alice, 300)?;
//! let task = scheduler.spawn(Spec::of(alice), async {
//!     yield_now().await;
//!     6 * 7
//! });
//! assert_eq!(task.join().expect("the task ends"), 42);
//! # Ok::<(), hearth_sched::SchedError>(())
//! ```

mod class;
pub mod fleet;
mod meter;
pub mod queue;
mod stats;

pub use class::{Class, Job, Weights};
pub use stats::{CoreStats, Histogram, Service, Stats, TenantStats};

// A task's cell is made of std's atomics, which loom cannot follow: under loom there are the
// queues and the fleet alone.
#[cfg(not(feature = "loom"))]
mod clock;
#[cfg(not(feature = "loom"))]
mod drive;
#[cfg(not(feature = "loom"))]
mod error;
#[cfg(not(feature = "loom"))]
mod forget;
#[cfg(not(feature = "loom"))]
mod outside;
#[cfg(not(feature = "loom"))]
mod rounds;
#[cfg(not(feature = "loom"))]
mod scheduler;
#[cfg(not(feature = "loom"))]
mod shared;
#[cfg(not(feature = "loom"))]
mod sleep;
#[cfg(not(feature = "loom"))]
mod spares;
#[cfg(not(feature = "loom"))]
mod task;
#[cfg(not(feature = "loom"))]
mod tenant;
#[cfg(not(feature = "loom"))]
mod timers;
#[cfg(not(feature = "loom"))]
mod turn;
#[cfg(not(feature = "loom"))]
mod yielding;

#[cfg(not(feature = "loom"))]
pub use {
    clock::{Clock, Time},
    drive::{Source, Worker, block_in_place},
    error::{SchedError, TaskError},
    fleet::Unpark,
    outside::Outside,
    rounds::Rounds,
    scheduler::{Builder, Handle, MOST_WORKERS, Scheduler},
    sleep::Sleep,
    task::{JoinHandle, Spec},
    tenant::{DEFAULT_WEIGHT, LimitChange, Limits, MAX_WEIGHT, Tenant, Ticket, check_weight},
    turn::Turn,
    yielding::{YieldNow, yield_now},
};
