//! Ends the wait of a task for a rate limit.

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use std::task::{Context, Poll, Waker};

lock_class!(WakerLock = "fuse.waker", 875);

/// Why a task stops waiting for a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A signal came for a thread that cannot be looked at, or the session ends.
    Signal,
    /// The thread was killed: nobody hears the reply.
    Kill,
}

/// Wakes a task that waits for a rate limit, after a signal that ends its wait.
#[derive(Debug, Default)]
pub(crate) struct InterruptWaker {
    state: Lock<WakerLock, WakerState>,
}

#[derive(Debug, Default)]
struct WakerState {
    cut: Option<Cut>,
    waker: Option<Waker>,
}

impl InterruptWaker {
    /// Ready once the wait is cut.
    pub fn poll(&self, context: &Context<'_>) -> Poll<Cut> {
        let mut state = self.state.lock();
        let old = state.waker.replace(context.waker().clone());
        let cut = state.cut;
        drop(state);
        // Dropping the last waker of a task frees the task, so it is dropped after the lock is
        // released.
        drop(old);
        cut.map_or(Poll::Pending, Poll::Ready)
    }

    /// Cuts the wait.
    pub fn give(&self, cut: Cut) {
        let mut state = self.state.lock();
        state.cut = Some(cut);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
