//! Attempts of a task at its request on a thread that may block.

use super::outcome::{Attempt, BlockingClass, InlineReply, Offload, WaitFor};
use super::pending_request::{CallLock, PendingRequest};
use super::service::Service;
use super::session_shared::SessionShared;
use hearth::Errno;
use hearth_sync::lock::Lock;
use hearth_sync::primitive::Arc;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Hands over a request of a task. Returns `None` if it is finished and its reply sent; otherwise
/// the request and what it waits for.
pub(crate) async fn attempt<S: Service, R: PendingRequest>(
    shared: &SessionShared<S>,
    request: R,
    attempt: Attempt,
) -> Option<(R, WaitFor)> {
    let call = Arc::new(Call::of(request));
    let (done, refused) = (Arc::clone(&call), Arc::clone(&call));
    let service = Arc::clone(&shared.service);
    let work = move || -> Result<InlineReply, Errno> {
        if let Some(request) = done.take() {
            done.fill(request.attempt(&*service, attempt));
        }
        Ok(InlineReply::default())
    };
    let finish = move |result: Result<InlineReply, Errno>| {
        if let Err(errno) = result
            && let Some(request) = refused.take()
        {
            request.refuse(errno);
            refused.fill(None);
        }
    };
    let offload = Offload {
        class: BlockingClass::Call,
        work: Box::new(work),
    };
    shared.workers.submit(offload, Box::new(finish));
    poll_fn(|context| call.poll(context.waker())).await
}

/// An attempt on another thread that a task waits for.
struct Call<R> {
    state: Lock<CallLock, CallState<R>>,
}

struct CallState<R> {
    /// Until a thread takes it.
    request: Option<R>,
    /// What the attempt left, once it has ended.
    left: Option<Option<(R, WaitFor)>>,
    waker: Option<Waker>,
}

impl<R> Call<R> {
    fn of(request: R) -> Call<R> {
        Call {
            state: Lock::new(CallState {
                request: Some(request),
                left: None,
                waker: None,
            }),
        }
    }

    fn take(&self) -> Option<R> {
        self.state.lock().request.take()
    }

    fn fill(&self, left: Option<(R, WaitFor)>) {
        let mut state = self.state.lock();
        state.left = Some(left);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Option<(R, WaitFor)>> {
        let mut state = self.state.lock();
        if let Some(left) = state.left.take() {
            return Poll::Ready(left);
        }
        let old = state.waker.replace(waker.clone());
        drop(state);
        // Dropping the last waker of a task frees the task, so it is dropped after the lock is
        // released.
        drop(old);
        Poll::Pending
    }
}
