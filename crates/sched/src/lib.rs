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
mod cpu_accounting;
pub mod queue;
pub mod runtime;
mod stats;

pub use class::{Class, Job, Weights};
pub use stats::{CoreStats, Histogram, Service, Stats, TenantStats};

// The cell of a task uses std's atomics, which loom cannot follow: with loom there are only the
// queues and the runtime.
#[cfg(not(feature = "loom"))]
mod blocking_pool;
#[cfg(not(feature = "loom"))]
mod clock;
#[cfg(not(feature = "loom"))]
mod error;
#[cfg(not(feature = "loom"))]
mod external_task;
#[cfg(not(feature = "loom"))]
mod fair_queue;
#[cfg(not(feature = "loom"))]
mod forget;
#[cfg(not(feature = "loom"))]
mod rate_limit;
#[cfg(not(feature = "loom"))]
mod run_loop;
#[cfg(not(feature = "loom"))]
mod scheduler;
#[cfg(not(feature = "loom"))]
mod shared;
#[cfg(not(feature = "loom"))]
mod sleep;
#[cfg(not(feature = "loom"))]
mod task;
#[cfg(not(feature = "loom"))]
mod tenant;
#[cfg(not(feature = "loom"))]
mod timers;
#[cfg(not(feature = "loom"))]
mod yielding;

#[cfg(not(feature = "loom"))]
pub use {
    clock::{Clock, Time},
    error::{SchedError, TaskError},
    external_task::ExternalTask,
    fair_queue::FairQueue,
    rate_limit::RateLimit,
    run_loop::{Source, Worker, block_in_place},
    runtime::Unpark,
    scheduler::{Builder, Handle, MOST_WORKERS, Scheduler},
    sleep::Sleep,
    task::{JoinHandle, Spec},
    tenant::{DEFAULT_WEIGHT, LimitChange, Limits, MAX_WEIGHT, Permit, Tenant, check_weight},
    yielding::{YieldNow, yield_now},
};
