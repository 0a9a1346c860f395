//! Errors: refused input, and tasks that end without a value.

use std::any::Any;
use std::fmt;

/// Refused input; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedError {
    /// A weight outside of 1 to 10,000.
    Weight {
        /// The weight that was given.
        weight: u32,
    },
    /// A rate limit below one.
    Limit {
        /// Which limit: operations or bandwidth.
        what: &'static str,
    },
    /// More than 1,024 workers or external workers.
    Workers {
        /// The number that was given.
        asked: usize,
    },
    /// Every run queue, or the requested one, is owned by a thread.
    NoFreeRunQueue {
        /// The number of run queues.
        run_queues: usize,
    },
    /// The system refuses a thread.
    Thread {
        /// The reason the system gives.
        reason: String,
    },
}

impl fmt::Display for SchedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedError::Weight { weight } => {
                write!(
                    f,
                    "weight {weight}: give a weight from 1 to 10,000 (default 100)"
                )
            }
            SchedError::Limit { what } => {
                write!(f, "{what} limit 0: give 1 or more, or no limit at all")
            }
            SchedError::Workers { asked } => {
                write!(
                    f,
                    "{asked} workers or external workers: give at most 1,024 of each"
                )
            }
            SchedError::NoFreeRunQueue { run_queues } => write!(
                f,
                "no free run_queue among {run_queues}: build the scheduler with more queue_refs, \
                 or drop a worker"
            ),
            SchedError::Thread { reason } => write!(
                f,
                "a worker thread cannot be started ({reason}): use fewer workers, or raise the \
                 limit of threads"
            ),
        }
    }
}

impl std::error::Error for SchedError {}

/// Why a task has no value.
pub enum TaskError {
    /// It panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// It was cancelled, or the scheduler ended first.
    Cancelled,
}

impl TaskError {
    /// Returns the message of the panic, if it has one.
    pub fn message(&self) -> Option<&str> {
        match self {
            TaskError::Panicked(payload) => payload
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| payload.downcast_ref::<String>().map(String::as_str)),
            TaskError::Cancelled => None,
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskError::Panicked(_) => {
                write!(
                    f,
                    "the task panicked: {}",
                    self.message().unwrap_or("no message")
                )
            }
            TaskError::Cancelled => write!(f, "the task was cancelled"),
        }
    }
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for TaskError {}
