//! Requests that do not finish at once.

pub(crate) mod delay;
mod delayed_memory;
pub(crate) mod enospc_retry;
pub(crate) mod interrupt_waker;
pub(crate) mod outcome;
pub(crate) mod pending_request;
mod pool_queue;
pub(crate) mod price;
pub(crate) mod request_queue;
pub(crate) mod request_task;
pub(crate) mod service;
pub(crate) mod session_shared;
pub(crate) mod signals;
pub(crate) mod waiting;
pub(crate) mod workers;

/// Which requests become tasks of the scheduler instead of being handled at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Park {
    /// Those that have to wait.
    #[default]
    Needed,
    /// Every one, to test that each can be suspended and resumed.
    Every,
}
