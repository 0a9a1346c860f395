//! What the task of a request waits for: the turn that ceilings give it, and another thread.

use crate::wait::service::{Absent, BlockingClass, InlineReply, Offload, Service};
use crate::wait::session_shared::SessionShared;
use crate::wait::waiting::RequestId;
use crate::wait::workers::Workers;
use hearth::Errno;
use hearth::sched::{Ticket, yield_now};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Duration;

/// A signal lets a request that a ceiling delays wait no longer than this.
const PATIENCE: Duration = Duration::from_millis(100);

/// Places at the ceilings of the tenants that a request is charged to.
pub(crate) type Tickets = [Option<Ticket>; 2];

/// How a delay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delay {
    /// It was the request's turn.
    Waited,
    /// A signal came first.
    Interrupted,
    /// The session ends.
    Ended,
}

/// Waits for the turns of what was charged, or a little after a signal.
pub(crate) async fn delay<S: Service>(
    hall: &SessionShared<S>,
    asker: RequestId,
    tickets: Tickets,
) -> Delay {
    let mut turns = pin!(async {
        // One after the other: each place is taken already.
        for ticket in tickets.into_iter().flatten() {
            hall.sched.turn(ticket).await;
        }
    });
    let mut came = false;
    if let Some(nudge) = hall.waiting.begin_task(asker) {
        came = first(turns.as_mut(), poll_fn(|context| nudge.poll(context))).await;
        hall.waiting.end(asker.unique);
    }
    if hall.waiting.is_closed() {
        return Delay::Ended;
    }
    if came {
        return Delay::Waited;
    }
    // The kernel says it once: what the request waits for next is to know as well.
    hall.waiting.interrupt(asker.unique);
    first(turns, hall.sched.sleep(PATIENCE)).await;
    Delay::Interrupted
}

/// Waits for one of two; the first is asked first. Whether it was that.
async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) -> bool {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Pending => other.as_mut().poll(context).map(|()| false),
        Poll::Ready(()) => Poll::Ready(true),
    })
    .await
}

/// Has a worker bring something.
pub(crate) async fn bring<S: Service>(
    hall: &SessionShared<S>,
    absent: Absent,
) -> Result<(), Errno> {
    let service = Arc::clone(&hall.service);
    elsewhere(&hall.workers, move || service.bring(&absent)).await
}

/// Suspends the task in both ways that there are: behind others, and for another thread.
pub(crate) async fn suspend<S: Service>(hall: &SessionShared<S>) {
    yield_now().await;
    // A worker that refuses is no reason to fail the request.
    let _ = elsewhere(&hall.workers, || Ok(())).await;
}

/// Waits for what another thread makes of `work`.
async fn elsewhere(
    workers: &Workers,
    work: impl FnOnce() -> Result<(), Errno> + Send + 'static,
) -> Result<(), Errno> {
    let slot = Arc::new(Slot::default());
    let filled = Arc::clone(&slot);
    let later = Offload {
        lane: BlockingClass::Load,
        work: Box::new(move || work().map(|()| InlineReply::default())),
    };
    workers.submit(later, Box::new(move |result| filled.fill(result.map(drop))));
    poll_fn(|context| slot.poll(context.waker())).await
}

lock_class!(SlotLock = "fuse.slot", 876);

/// Where the outcome of work elsewhere arrives.
#[derive(Default)]
struct Slot {
    state: Lock<SlotLock, Outcome>,
}

#[derive(Default)]
struct Outcome {
    result: Option<Result<(), Errno>>,
    waker: Option<Waker>,
}

impl Slot {
    fn fill(&self, result: Result<(), Errno>) {
        let mut state = self.state.lock();
        state.result = Some(result);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<(), Errno>> {
        let mut state = self.state.lock();
        if let Some(result) = state.result.take() {
            return Poll::Ready(result);
        }
        let old = state.waker.replace(waker.clone());
        drop(state);
        // The last waker of a task frees it: not under the lock.
        drop(old);
        Poll::Pending
    }
}
