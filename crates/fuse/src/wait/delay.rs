//! The ways in which a request's task is suspended: for a rate limit, and for another thread.

use super::interrupt_waker::Cut;
use super::outcome::{BlockingClass, InlineReply, Offload, Permits};
use super::waiting::{RequestId, Waiting};
use super::workers::Workers;
use hearth::Errno;
use hearth::sched::{Handle, yield_now};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The longest time that a rate limit still delays a request after a signal, where nobody can tell
/// whether that has killed the caller.
const PATIENCE: Duration = Duration::from_millis(100);
/// How far a tenant gets ahead of its rate limits by signals that nobody can tell from a kill. A
/// program that sends itself one for each request would be held by nothing else.
const AHEAD: Duration = Duration::from_secs(5);

/// How the wait for rate limits ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delayed {
    /// The limits allow the request.
    Allowed,
    /// Before they do, a little while after a signal, and not far ahead of them.
    Cut,
    /// The caller was killed: nobody hears the reply, and what it asked for need not be done.
    Killed,
    /// The session ends.
    Closed,
}

/// Waits until the rate limits of `permits` allow the request, or until its caller is killed. Where
/// the caller cannot be seen, any signal ends the wait after a little while, unless the tenant is
/// far ahead of its limits. `waiting` keeps the signal for what the request waits for next, also
/// where both came.
pub(crate) async fn delay(
    sched: &Handle,
    waiting: &Waiting,
    id: RequestId,
    permits: Permits,
) -> Delayed {
    let mut allowed = pin!(limits(sched, permits));
    let end = until_cut(allowed.as_mut(), waiting, id).await;
    if waiting.is_closed() {
        return Delayed::Closed;
    }
    match end {
        None => Delayed::Allowed,
        Some(Cut::Kill) => Delayed::Killed,
        Some(Cut::Signal) => {
            after_signal(sched, waiting, allowed, permits).await;
            Delayed::Cut
        }
    }
}

/// Calls `reply` when the rate limits of `permits` allow it, or the caller is killed, if `forgive`
/// gives something then. That is kept until they do. The end of the session ends every wait.
pub(crate) async fn delay_reply<F>(
    sched: &Handle,
    waiting: &Waiting,
    id: RequestId,
    permits: Permits,
    forgive: impl FnOnce() -> Option<F>,
    reply: impl FnOnce(),
) {
    let mut allowed = pin!(limits(sched, permits));
    let end = until_cut(allowed.as_mut(), waiting, id).await;
    waiting.end_task(id.unique);
    match end {
        _ if waiting.is_closed() => {}
        None => {}
        Some(Cut::Signal) => after_signal(sched, waiting, allowed, permits).await,
        Some(Cut::Kill) => {
            let forgiven = forgive();
            let late = match forgiven {
                Some(_) => {
                    reply();
                    None
                }
                None => Some(reply),
            };
            while !waiting.is_closed()
                && first(allowed.as_mut(), sched.sleep(PATIENCE))
                    .await
                    .is_some()
            {}
            if let Some(reply) = late {
                reply();
            }
            return;
        }
    }
    reply();
}

/// The wait of a request after a signal.
async fn after_signal(
    sched: &Handle,
    waiting: &Waiting,
    mut allowed: Pin<&mut impl Future<Output = ()>>,
    permits: Permits,
) {
    while first(allowed.as_mut(), sched.sleep(PATIENCE))
        .await
        .is_some()
        && is_far_ahead(sched, permits)
        && !waiting.is_closed()
    {}
}

/// Whether work that goes on now would be far ahead of its rate limits.
pub(crate) fn is_far_ahead(sched: &Handle, permits: Permits) -> bool {
    let left = |permit| sched.rate_limit_left(permit) > AHEAD;
    permits.into_iter().flatten().any(left)
}

/// Waits until rate limits allow a request.
async fn limits(sched: &Handle, permits: Permits) {
    // The waits may follow each other: the request already has its position at each limit.
    for permit in permits.into_iter().flatten() {
        sched.rate_limit(permit).await;
    }
}

/// Waits for `allowed` until the wait is cut; `None` if it was not.
async fn until_cut(
    allowed: impl Future<Output = ()>,
    waiting: &Waiting,
    id: RequestId,
) -> Option<Cut> {
    let Some(waker) = waiting.begin_task(id) else {
        return Some(Cut::Signal);
    };
    let end = first(allowed, poll_fn(|context| waker.poll(context))).await;
    waiting.end(id.unique);
    end
}

/// Waits for one of two futures; polls `one` first. `None` if `one` finished.
async fn first<T>(one: impl Future<Output = ()>, other: impl Future<Output = T>) -> Option<T> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Pending => other.as_mut().poll(context).map(Some),
        Poll::Ready(()) => Poll::Ready(None),
    })
    .await
}

/// Suspends the task in both ways: first behind other tasks, then for another thread.
pub(crate) async fn suspend(workers: &Workers) {
    yield_now().await;
    // The request goes on if there is no worker for it.
    let _ = off_thread(workers, BlockingClass::Fetch, || Ok(())).await;
}

/// Runs `work`, which may block, on a worker thread, and waits for its result.
pub(crate) async fn off_thread(
    workers: &Workers,
    class: BlockingClass,
    work: impl FnOnce() -> Result<(), Errno> + Send + 'static,
) -> Result<(), Errno> {
    let slot = Arc::new(ResultSlot::default());
    let filled = Arc::clone(&slot);
    let offload = Offload::Blocks {
        class,
        work: Box::new(move || work().map(|()| InlineReply::default())),
    };
    workers.submit(
        offload,
        Box::new(move |result| filled.fill(result.map(drop))),
    );
    poll_fn(|context| slot.poll(context.waker())).await
}

lock_class!(SlotLock = "fuse.slot", 876);

/// Where the result of work on another thread arrives.
#[derive(Default)]
struct ResultSlot {
    state: Lock<SlotLock, SlotState>,
}

#[derive(Default)]
struct SlotState {
    result: Option<Result<(), Errno>>,
    waker: Option<Waker>,
}

impl ResultSlot {
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
        // Dropping the last waker of a task frees the task, so it is dropped after the lock is
        // released.
        drop(old);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth::sched::{Clock, Limits, Permit, Scheduler};
    use std::cell::Cell;
    use std::task::Context;

    /// A scheduler, and a charge that waits at the limit of tenant 7.
    fn limited() -> (Scheduler, Option<Permit>) {
        limited_by(Clock::system())
    }

    fn limited_by(clock: Clock) -> (Scheduler, Option<Permit>) {
        let scheduler = Scheduler::builder().clock(clock).start().unwrap();
        let (sched, tenant) = (scheduler.handle(), scheduler.tenant(7));
        let one = Limits {
            ops: Some(1),
            ..Limits::default()
        };
        sched.set_limits(tenant, one).unwrap();
        let permit = (0..1_000).find_map(|_| sched.charge(tenant, 1, 0));
        (scheduler, permit)
    }

    /// A program that is started and killed for each write would be held to nothing else.
    #[test]
    fn a_kill_ends_the_wait_for_a_reply_if_it_is_forgiven() {
        for is_forgiven in [true, false] {
            let (scheduler, permit) = limited();
            let sched = scheduler.handle();
            let (waiting, id) = (Arc::new(Waiting::default()), RequestId::new(1, 99));
            let (forgiven, replied) = (Arc::new(()), Cell::new(false));
            let forgive = || is_forgiven.then(|| Arc::clone(&forgiven));
            let reply = || replied.set(true);
            let mut delayed = pin!(delay_reply(
                &sched,
                &waiting,
                id,
                [permit, None],
                forgive,
                reply
            ));
            let mut context = Context::from_waker(Waker::noop());
            assert!(delayed.as_mut().poll(&mut context).is_pending());
            waiting.interrupt(id.unique);
            assert!(delayed.as_mut().poll(&mut context).is_pending());
            assert!(!replied.get(), "a signal alone");
            waiting.cut(id.unique, Cut::Kill);
            assert!(delayed.as_mut().poll(&mut context).is_pending());
            assert_eq!(replied.get(), is_forgiven);
            let count = if is_forgiven { 2 } else { 1 };
            assert_eq!(Arc::strong_count(&forgiven), count, "until its time comes");
            let free = Limits::default();
            sched.set_limits(scheduler.tenant(7), free).unwrap();
            assert!(delayed.as_mut().poll(&mut context).is_ready());
            assert!(replied.get() && Arc::strong_count(&forgiven) == 1);
        }
    }

    /// Once, a program that the daemon cannot see had no limit: each signal ended a wait.
    #[test]
    fn signals_bring_nobody_far_ahead_of_the_limits() {
        let clock = Clock::manual();
        let (scheduler, permit) = limited_by(clock.clone());
        let (sched, tenant) = (scheduler.handle(), scheduler.tenant(7));
        let waiting = Waiting::default();
        let mut context = Context::from_waker(Waker::noop());
        assert!(!is_far_ahead(&sched, [permit, None]));
        // What comes next waits for all of it.
        let _ = sched.charge(tenant, 60, 0);
        let far = sched.charge(tenant, 1, 0);
        assert!(is_far_ahead(&sched, [far, None]));
        let id = RequestId::new(1, 0);
        let mut delayed = pin!(delay(&sched, &waiting, id, [far, None]));
        assert!(delayed.as_mut().poll(&mut context).is_pending());
        waiting.interrupt(id.unique);
        assert!(delayed.as_mut().poll(&mut context).is_pending());
        let mut waited = Duration::ZERO;
        let end = loop {
            clock.advance(PATIENCE);
            waited += PATIENCE;
            if let Poll::Ready(end) = delayed.as_mut().poll(&mut context) {
                break end;
            }
        };
        assert_eq!(end, Delayed::Cut);
        assert!(!is_far_ahead(&sched, [far, None]));
        let left = sched.rate_limit_left(far.unwrap());
        assert!(AHEAD - left <= 2 * PATIENCE, "{left:?} after {waited:?}");
    }

    /// Regression: the delay was over, its task had not run yet, and INTERRUPT came. It was lost,
    /// and the request then waited for a lock without an end.
    #[test]
    fn an_interrupt_that_comes_when_the_delay_is_over_ends_the_next_wait() {
        let (scheduler, permit) = limited();
        let (sched, tenant) = (scheduler.handle(), scheduler.tenant(7));
        let waiting = Arc::new(Waiting::default());
        let id = RequestId::new(1, 0);
        let mut delayed = pin!(delay(&sched, &waiting, id, [permit, None]));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(delayed.as_mut().poll(&mut context), Poll::Pending);
        sched.set_limits(tenant, Limits::default()).unwrap();
        waiting.interrupt(id.unique);
        let end = delayed.as_mut().poll(&mut context);
        assert_eq!(end, Poll::Ready(Delayed::Allowed));
        assert!(waiting.begin(id).is_none(), "a lock would be waited for");
    }
}
