//! A request that does not finish at once: a task of the volume's scheduler.
//!
//! Its states are section 13 of `docs/design/scheduler.md`.

use crate::wait::chunked;
use crate::wait::delay::{Delay, Tickets, bring, delay, suspend};
use crate::wait::enospc_retry;
use crate::wait::service::{Absent, Answer, Attempt, Offload, Pieces, Service};
use crate::wait::session_shared::SessionShared;
use crate::wait::waiting::RequestId;
use crate::wait::workers::Finish;
use hearth::Errno;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A request in the hands of a task, with the way back for its answer.
pub(crate) trait PendingRequest: Send + 'static {
    /// Which request it is, and whose.
    fn asker(&self) -> RequestId;

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
    Offload(P, Offload),
    /// To be finished in pieces.
    Pieces(P, Pieces),
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
            Answer::Offload(later) => return Step::Offload(parcel, later),
            Answer::Pieces(pieces) => return Step::Pieces(parcel, pieces),
            Answer::Absent(absent) => return Step::Absent(parcel, absent),
            Answer::Refused(done) => return Step::Refused(parcel, done),
        }
        Step::Done
    }

    /// The same with another parcel.
    pub fn with<Q>(self, parcel: Q) -> Step<Q> {
        match self {
            Step::Done => Step::Done,
            Step::Offload(_, later) => Step::Offload(parcel, later),
            Step::Pieces(_, pieces) => Step::Pieces(parcel, pieces),
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
    /// Ceilings say so, until its turn.
    Ceiling(Tickets),
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
    hall: Arc<SessionShared<S>>,
    mut parcel: impl PendingRequest,
    reason: Option<Reason>,
    mut absent: Option<Absent>,
    open: Open,
) {
    let since = Instant::now();
    match reason {
        Some(Reason::Ceiling(tickets))
            if delay(&hall, parcel.asker(), tickets).await == Delay::Ended =>
        {
            return parcel.refuse(Errno::ENODEV);
        }
        Some(Reason::Test) => suspend(&hall).await,
        _ => {}
    }
    let (mut pause, mut pauses) = (Duration::ZERO, enospc_retry::PAUSES.into_iter());
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
            Step::Offload(parcel, later) => {
                hall.workers.submit(later, parcel.finish());
                break;
            }
            Step::Pieces(parcel, work) => {
                let result = chunked::run(&hall, parcel.asker(), work).await;
                parcel.finish()(result);
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

/// The life of a request that was found to be done in pieces before it was parked.
pub(crate) async fn live_in_pieces<S: Service>(
    hall: Arc<SessionShared<S>>,
    parcel: impl PendingRequest,
    work: Pieces,
    open: Open,
) {
    let result = chunked::run(&hall, parcel.asker(), work).await;
    parcel.finish()(result);
    drop(open);
}
