//! A request that does not finish at once: a task of the volume's scheduler.
//!
//! Its states are section 13 of `docs/design/scheduler.md`.

use crate::hall::Hall;
use crate::room;
use crate::service::{Answer, Attempt, Lane, Later, Service, Small};
use crate::workers::{Finish, Workers};
use hearth::sched::{Ticket, yield_now};
use hearth::{Absent, Errno};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// A signal lets a request that its tenant's ceiling delays wait no longer than this.
const PATIENCE: Duration = Duration::from_millis(100);

/// A request in the hands of a task, with the way back for its answer.
pub(crate) trait Parcel: Send + 'static {
    /// The kernel's number for it.
    fn unique(&self) -> u64;

    /// Works on it, once more. Unless it needs something, the answer goes its way.
    fn work<S: Service>(self, service: &S, attempt: Attempt) -> Step<Self>
    where
        Self: Sized;

    /// Sends this error for an answer.
    fn refuse(self, errno: Errno);

    /// Sends what a worker makes of it.
    fn finish(self) -> Finish;
}

/// What working on a parcel leads to.
pub(crate) enum Step<P> {
    /// It was answered.
    Done,
    /// To be finished by a worker.
    Later(P, Later),
    /// To be worked on again when this was brought.
    Absent(P, Absent),
    /// To be worked on again a little later; so many bytes of it are written.
    Refused(P, usize),
}

impl<P> Step<P> {
    /// What an answer leads to, `send` being its way.
    pub fn of(answer: Answer, parcel: P, send: impl FnOnce(P, Result<usize, Errno>)) -> Step<P> {
        match answer {
            Answer::Reply(size) => send(parcel, Ok(size)),
            Answer::Error(errno) => send(parcel, Err(errno)),
            Answer::Silent => send(parcel, Ok(0)),
            Answer::Later(later) => return Step::Later(parcel, later),
            Answer::Absent(absent) => return Step::Absent(parcel, absent),
            Answer::Refused(done) => return Step::Refused(parcel, done),
        }
        Step::Done
    }

    /// The same with another parcel.
    pub fn with<Q>(self, parcel: Q) -> Step<Q> {
        match self {
            Step::Done => Step::Done,
            Step::Later(_, later) => Step::Later(parcel, later),
            Step::Absent(_, absent) => Step::Absent(parcel, absent),
            Step::Refused(_, done) => Step::Refused(parcel, done),
        }
    }
}

/// Why a request is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Others are ahead of it.
    Turn,
    /// Its tenant's ceilings say so, until its turn.
    Ceiling(Ticket),
    /// The mount is told to park everything.
    Test,
    /// It was refused for want of room, some of which may be on its way back. So many bytes of it
    /// are written.
    Room(usize),
}

/// Counts a parked request of a desk until it is answered.
pub(crate) struct Open(Arc<AtomicUsize>);

impl Open {
    /// One more.
    pub fn new(count: &Arc<AtomicUsize>) -> Open {
        // Relaxed: the desk's own count; what a request did is ordered by its answer.
        count.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Relaxed: as above.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The life of a parked request; `absent` is what it lacked before it was parked.
pub(crate) async fn live<S: Service>(
    hall: Arc<Hall<S>>,
    mut parcel: impl Parcel,
    reason: Option<Reason>,
    mut absent: Option<Absent>,
    open: Open,
) {
    let since = Instant::now();
    match reason {
        Some(Reason::Ceiling(ticket)) if !delay(&hall, parcel.unique(), ticket).await => {
            return parcel.refuse(Errno::ENODEV);
        }
        Some(Reason::Test) => suspend(&hall).await,
        _ => {}
    }
    let (mut pause, mut pauses) = (Duration::ZERO, room::PAUSES.into_iter());
    let (mut refused, mut done) = match reason {
        Some(Reason::Room(done)) => (true, done),
        _ => (false, 0),
    };
    loop {
        if refused {
            // At once the first time: room may have come back since.
            hall.sched.sleep(pause).await;
            pause = pauses.next().unwrap_or_default();
        }
        if let Some(absent) = absent.take()
            && let Err(errno) = bring(&hall, absent).await
        {
            return parcel.refuse(errno);
        }
        let attempt = Attempt {
            since: Some(since),
            // Looked at before: what has come back by then is there for this attempt.
            again: !refused || pauses.len() > 0 && hall.service.awaits_returns(),
            done,
        };
        refused = false;
        parcel = match parcel.work(&*hall.service, attempt) {
            Step::Done => break,
            Step::Later(parcel, later) => {
                hall.workers.submit(later, parcel.finish());
                break;
            }
            Step::Absent(parcel, lacks) => {
                absent = Some(lacks);
                parcel
            }
            Step::Refused(parcel, written) => {
                (refused, done) = (true, written);
                parcel
            }
        }
    }
    drop(open);
}

/// Waits for the turn of what was charged, or a little after a signal; false if the session ends.
async fn delay<S: Service>(hall: &Hall<S>, unique: u64, ticket: Ticket) -> bool {
    let mut turn = pin!(hall.sched.turn(ticket));
    if let Some(nudge) = hall.waiting.begin_task(unique) {
        first(turn.as_mut(), poll_fn(|context| nudge.poll(context))).await;
        hall.waiting.end(unique);
    }
    if hall.waiting.is_closed() {
        return false;
    }
    first(turn, hall.sched.sleep(PATIENCE)).await;
    true
}

/// Waits for one of two; the first is asked first.
async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Pending => other.as_mut().poll(context),
        ready => ready,
    })
    .await;
}

/// Has a worker bring something.
async fn bring<S: Service>(hall: &Hall<S>, absent: Absent) -> Result<(), Errno> {
    let service = Arc::clone(&hall.service);
    elsewhere(&hall.workers, move || service.bring(&absent)).await
}

/// Suspends the task in both ways that there are: behind others, and for another thread.
async fn suspend<S: Service>(hall: &Hall<S>) {
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
    let later = Later {
        lane: Lane::Load,
        work: Box::new(move || work().map(|()| Small::default())),
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
