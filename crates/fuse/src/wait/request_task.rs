//! A request that does not finish at once: a task of the volume's scheduler.
//!
//! Section 13 of `docs/design/scheduler.md` has its states.

use super::delay::{Delayed, delay, is_far_ahead, off_thread, suspend};
use super::enospc_retry::Retries;
use super::outcome::{
    Attempt, BlockingClass, Chunked, InlineReply, Offload, Outcome, Permits, WaitFor,
};
use super::pending_request::PendingRequest;
use super::service::Service;
use super::session_shared::SessionShared;
use super::waiting::RequestId;
use hearth::Errno;
use hearth::sched::{Spec, yield_now};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Instant;

lock_class!(CallLock = "fuse.call", 878);

/// Counts a task of a request queue until its request is finished.
pub(crate) struct OpenTask(Arc<AtomicUsize>);

impl OpenTask {
    /// Adds one to `count`.
    pub fn new(count: &Arc<AtomicUsize>) -> OpenTask {
        // Relaxed: the count is the queue's own. The reply orders what a request did.
        count.fetch_add(1, Ordering::Relaxed);
        OpenTask(Arc::clone(count))
    }
}

impl Drop for OpenTask {
    fn drop(&mut self) {
        // Relaxed: see `new`.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The life of a request from its first wait, for `first`, to its reply.
pub(crate) async fn run<S: Service>(
    shared: Arc<SessionShared<S>>,
    mut request: impl PendingRequest,
    first: WaitFor,
    _open: OpenTask,
) {
    let mut waits = Waits {
        shared: &shared,
        id: request.id(),
        retries: Retries::default(),
        has_patience: true,
        was_delayed: false,
        attempt: Attempt {
            since: Some(Instant::now()),
            ..Attempt::FIRST
        },
    };
    let (mut chunks, mut next): (Option<Chunked>, _) = (None, first);
    loop {
        let on_thread = matches!(next, WaitFor::Thread);
        match next {
            WaitFor::Worker(offload) => {
                return shared.workers.submit(offload, request.finish());
            }
            WaitFor::Chunks(all) => {
                chunks = Some(all);
                waits.retries = Retries::default();
            }
            wait => match waits.wait(wait).await {
                Ok(()) => {}
                // The next attempt, or the next chunk, gets the error and ends the request.
                Err(Failure::FetchForLast(errno)) => waits.attempt.failed = Some(errno),
                Err(Failure::Fetch(errno)) => return request.refuse(errno),
                Err(Failure::SessionEnds) => return request.refuse(Errno::ENODEV),
                Err(Failure::Killed) => return request.refuse(Errno::EINTR),
            },
        }
        next = match &mut chunks {
            Some(chunks) => match (chunks.next)(waits.attempt) {
                Outcome::Done(result) => return request.finish()(result),
                Outcome::NoReply => return,
                Outcome::Wait(wait) => wait,
            },
            None => {
                let on_thread = on_thread || shared.service.may_block(&request.header());
                let left = match on_thread {
                    true => attempt_on_thread(&shared, request, waits.attempt).await,
                    false => request.attempt(&*shared.service, waits.attempt),
                };
                let Some((same, wait)) = left else {
                    return;
                };
                request = same;
                wait
            }
        };
    }
}

/// Has a thread that may block attempt a request and reply. The request becomes a task if it is not
/// finished then.
pub(crate) fn run_on_thread<S: Service>(
    shared: Arc<SessionShared<S>>,
    request: impl PendingRequest,
) {
    let workers = Arc::clone(&shared.workers);
    let request = Arc::new(Lock::<CallLock, _>::new(Some(request)));
    let refused = Arc::clone(&request);
    let work = move || -> Result<InlineReply, Errno> {
        let request = request.lock().take();
        let service = &*shared.service;
        let attempt = Attempt {
            may_block: true,
            ..Attempt::FIRST
        };
        let left = request.and_then(|request| request.attempt(service, attempt));
        if let Some((request, wait)) = left {
            spawn_anywhere(shared, request, wait);
        }
        Ok(InlineReply::default())
    };
    let finish = move |result: Result<InlineReply, Errno>| {
        if let Err(errno) = result
            && let Some(request) = refused.lock().take()
        {
            request.refuse(errno);
        }
    };
    let offload = Offload::Blocks {
        class: BlockingClass::Call,
        work: Box::new(work),
    };
    workers.submit(offload, Box::new(finish));
}

/// Makes a task of a request that was counted and attempted, and now waits. It belongs to no
/// thread, so none has to wait for it.
pub(crate) fn spawn_anywhere<S: Service>(
    shared: Arc<SessionShared<S>>,
    request: impl PendingRequest,
    wait: WaitFor,
) {
    let spec = Spec::of(shared.tenant()).as_continuation();
    let sched = shared.sched.clone();
    let open = OpenTask::new(&Arc::default());
    drop(sched.spawn(spec, run(shared, request, wait, open)));
}

/// Attempts the request of a task on a thread that may block. Returns `None` if it is finished and
/// its reply sent; otherwise the request and what it waits for.
async fn attempt_on_thread<S: Service, R: PendingRequest>(
    shared: &SessionShared<S>,
    request: R,
    attempt: Attempt,
) -> Option<(R, WaitFor)> {
    let call = Arc::new(Call::of(request));
    let (done, refused) = (Arc::clone(&call), Arc::clone(&call));
    let service = Arc::clone(&shared.service);
    let attempt = Attempt {
        may_block: true,
        ..attempt
    };
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
    let offload = Offload::Blocks {
        class: BlockingClass::Call,
        work: Box::new(work),
    };
    shared.workers.submit(offload, Box::new(finish));
    poll_fn(|context| call.poll(context.waker())).await
}

/// The waits of one request.
struct Waits<'s, S> {
    shared: &'s SessionShared<S>,
    id: RequestId,
    retries: Retries,
    /// Whether rate limits delay the request between its chunks: no signal has come.
    has_patience: bool,
    /// Whether it has waited for a rate limit, so that an interrupt may be kept for it.
    was_delayed: bool,
    /// The arguments of the next attempt.
    attempt: Attempt,
}

/// Why a request is not attempted again.
enum Failure {
    /// The backend could not give what it missed.
    Fetch(Errno),
    /// It could not, and the request is attempted once more, with the error.
    FetchForLast(Errno),
    SessionEnds,
    /// Its caller is dead. A request that a rate limit holds back must not get through by a kill.
    Killed,
}

impl<S: Service> Waits<'_, S> {
    /// Waits until the next attempt can begin.
    async fn wait(&mut self, wait: WaitFor) -> Result<(), Failure> {
        let shared = self.shared;
        match wait {
            WaitFor::Turn | WaitFor::Thread | WaitFor::Worker(_) | WaitFor::Chunks(_) => {}
            // The request queue has seen to it.
            WaitFor::LateReply(..) => {}
            WaitFor::RateLimit(permits, held) => {
                self.delay(permits).await?;
                drop(held);
            }
            WaitFor::Test => suspend(&shared.workers).await,
            WaitFor::Fetch(missing) => {
                let service = Arc::clone(&shared.service);
                let failure = match missing.op {
                    Some(_) => Failure::Fetch,
                    None => Failure::FetchForLast,
                };
                let class = match missing.miss.waits_for_room() {
                    true => BlockingClass::Room,
                    false => BlockingClass::Fetch,
                };
                off_thread(&shared.workers, class, move || service.fetch(&missing))
                    .await
                    .map_err(failure)?;
                self.attempt.fetches = self.attempt.fetches.saturating_add(1);
            }
            WaitFor::Space(written) => {
                shared.sched.sleep(self.retries.pause()).await;
                // Read before the attempt: the attempt finds whatever has come back by now.
                self.attempt.again = !self.retries.is_last() && shared.service.awaits_returns();
                self.attempt.written = written;
            }
            WaitFor::NextChunk(bytes) => self.charge_chunk(bytes).await?,
        }
        Ok(())
    }

    /// Charges the last chunk and lets others go first.
    async fn charge_chunk(&mut self, bytes: u64) -> Result<(), Failure> {
        let shared = self.shared;
        (self.retries, self.attempt.again) = (Retries::default(), true);
        if shared.waiting.is_closed() {
            return Err(Failure::SessionEnds);
        }
        let permit = match bytes > 0 && shared.sched.has_limits() {
            true => shared.sched.charge(shared.tenant(), 0, bytes),
            false => None,
        };
        let may_go = !self.has_patience && !is_far_ahead(&shared.sched, [permit, None]);
        if permit.is_none() || may_go {
            // After a signal the request ends soon; the tenant's next requests wait for the rest.
            yield_now().await;
            return Ok(());
        }
        self.has_patience = self.delay([permit, None]).await?;
        Ok(())
    }

    /// Waits for rate limits. Returns false after a signal.
    async fn delay(&mut self, permits: Permits) -> Result<bool, Failure> {
        self.was_delayed = true;
        match delay(&self.shared.sched, &self.shared.waiting, self.id, permits).await {
            Delayed::Allowed => Ok(true),
            Delayed::Cut => Ok(false),
            Delayed::Killed => Err(Failure::Killed),
            Delayed::Closed => Err(Failure::SessionEnds),
        }
    }
}

impl<S> Drop for Waits<'_, S> {
    fn drop(&mut self) {
        if self.was_delayed {
            self.shared.waiting.end_task(self.id.unique);
        }
    }
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
