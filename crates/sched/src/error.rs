//! What is refused, and how a task can end.

use std::any::Any;
use std::fmt;

/// An input that is refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedError {
    /// A weight outside of 1 to 10,000.
    Weight {
        /// What was asked for.
        weight: u32,
    },
    /// A rate limit below one.
    Limit {
        /// Which rate limit.
        what: &'static str,
    },
    /// More workers, or more run queues, than 1,024.
    Workers {
        /// How many were asked for.
        asked: usize,
    },
    /// Every run queue, or the one that was asked for, has a owner.
    NoFreeRunQueue {
        /// How many run queues there are.
        run_queues: usize,
    },
    /// The system refuses a thread.
    Thread {
        /// Its reason.
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
                write!(f, "{asked} workers or seats: give at most 1,024 of each")
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

/// How a task ended that gave no value.
pub enum TaskError {
    /// It panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// It was cancelled, or the scheduler ended before it.
    Cancelled,
}

impl TaskError {
    /// The message of the panic, if it had one.
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
