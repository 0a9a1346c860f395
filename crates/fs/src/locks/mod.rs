//! Advisory locks of one file: `flock`, POSIX record locks, and locks of open file descriptions.
//!
//! Lock order (each may be taken under those above it):
//!
//! ```text
//! FileLocks (rank 920, one per file that has locks; never two at once)
//!     WaitGraph (rank 930, one per volume; only by requests that really wait)
//!     LockAllowance (rank 935, one per part of the owners; takes nothing)
//! Interrupt (rank 940, taken with nothing else held)
//! ```
//!
//! Life of a request that has to wait: under the file's lock it joins the queue; from then on
//! *others* decide it. Whoever changes what is held goes through the queue in order of arrival and
//! hands each request that nothing is in the way of any more its lock, so a request that comes
//! later cannot slip in between a release and the wake-up. The sleeper only learns its outcome. As
//! in Linux a request that conflicts with nothing held is granted whoever waits, because waiting
//! behind a waiter could deadlock with locks that the asker holds already.

mod allowance;
mod held;
mod interrupt;
mod ranges;
mod request;
mod ticket;
mod wait;

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

use std::collections::VecDeque;

use hearth_sync::lock::{self, Lock, Waited};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering, fence};

use crate::errno::Errno;
use crate::line::OwnLine;
use held::Held;
use ticket::{DEADLOCKED, GRANTED, REFUSED, Ticket, WAITING, wake};
use wait::WaitId;

pub use allowance::LockAllowance;
pub use interrupt::Interrupt;
pub use request::{LockKind, LockRequest};
pub use wait::WaitGraph;

const FILE_RANK: u32 = 920;
const GRAPH_RANK: u32 = 930;
const ALLOWANCE_RANK: u32 = 935;
const BED_RANK: u32 = 940;

/// The advisory locks of one file. Clones are the same table: whoever may wait takes a clone, so
/// that it need not hold the epoch while it sleeps.
#[derive(Clone)]
// Who closes the file looks here: no line with things that come and go.
#[repr(align(64))]
pub struct FileLocks {
    shared: Arc<Shared>,
}

#[repr(align(64))]
struct Shared {
    state: Lock<FileClass, State>,
    /// Whether anybody holds a record lock, and whether anybody holds an `flock`. Written under the
    /// lock of `state`; who has nothing to give up looks here and leaves the lock alone.
    any: [OwnLine<AtomicBool>; 2],
}

/// How to wait for a lock that cannot be had at once.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    /// The graph of the file's volume.
    pub graph: &'a WaitGraph,
    /// Ends the wait early, with `EINTR`.
    pub interrupt: Option<&'a Interrupt>,
}

lock_class! {
    FileClass = "file-locks", FILE_RANK;
    /// What users lock. Only for the profile: it is no lock of ours.
    UserClass = "file-locks.user", 0;
}

/// Protected by the lock of [`FileLocks`].
struct State {
    held: Held,
    /// What owners may hold, over all files of the volume.
    allowance: LockAllowance,
    /// Requests that wait, oldest first. Each conflicts with something held.
    queue: VecDeque<Arc<Ticket>>,
}

impl Default for FileLocks {
    fn default() -> FileLocks {
        FileLocks::new()
    }
}

impl FileLocks {
    /// No locks, nobody waiting, and as many locks allowed as there is memory for.
    pub fn new() -> FileLocks {
        FileLocks::within(LockAllowance::default())
    }

    /// The same for a file of a volume with this allowance.
    pub fn within(allowance: LockAllowance) -> FileLocks {
        FileLocks {
            shared: Arc::new(Shared {
                state: Lock::new(State {
                    held: Held::default(),
                    allowance,
                    queue: VecDeque::new(),
                }),
                any: [const { OwnLine(AtomicBool::new(false)) }; 2],
            }),
        }
    }

    /// Whether nothing is held and nobody waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        let state = self.shared.state.lock();
        state.held.is_empty() && state.queue.is_empty()
    }

    /// How many requests wait.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.shared.state.lock().queue.len()
    }

    /// The first held lock that keeps `request` from being granted, `None` when it would be.
    pub fn get(&self, request: &LockRequest) -> Option<LockRequest> {
        let request = request.normalised().ok()?;
        self.shared.state.lock().held.conflicts(&request).next()
    }

    /// Takes, converts or gives up a lock.
    ///
    /// `ENOLCK` when the owner would hold more ranges than it may, also after a wait. `EAGAIN` when
    /// something is in the way and `wait` is not given. With it the calling thread
    /// blocks: `EINTR` when interrupted, `EDEADLK` when a POSIX request would wait for itself. It
    /// must not be pinned to the epoch then: nothing retired would be dropped while it sleeps.
    /// Converting an `flock` gives the old lock up first, as Linux does: a conversion that fails
    /// leaves none.
    #[track_caller]
    pub fn set(&self, request: &LockRequest, wait: Option<Wait<'_>>) -> Result<(), Errno> {
        let request = request.normalised()?;
        match request.kind {
            LockKind::Unlock => self.decide(&request, wait).0,
            _ => lock::request::<UserClass, _>(|| self.decide(&request, wait)),
        }
    }

    /// The answer, and if the lock was granted, whether that took a sleep.
    fn decide(
        &self,
        request: &LockRequest,
        wait: Option<Wait<'_>>,
    ) -> (Result<(), Errno>, Option<Waited>) {
        let mut decided = Vec::new();
        let answer = {
            let mut state = self.shared.state.lock();
            let answer = state.set(request, wait, &mut decided);
            self.shared.note(&state);
            answer
        };
        wake(decided);
        // SeqCst: pairs with the fence in `release_owner`. Whoever finds its descriptor open after
        // this is seen there to hold something.
        fence(Ordering::SeqCst);
        match answer {
            Ok(None) => (Ok(()), Some(Waited::No)),
            Ok(Some(ticket)) => {
                let woken = self.sleep(&ticket);
                (woken, woken.is_ok().then_some(Waited::Yes))
            }
            Err(errno) => (Err(errno), None),
        }
    }

    /// Gives up everything that `owner` holds: `flock` locks or record locks. Requests of the same
    /// owner that wait go on waiting. Writes nothing where nobody holds anything.
    ///
    /// An owner who takes a lock meanwhile must look after that whether it may have one: see
    /// `ops::lock`.
    pub fn release_owner(&self, owner: u64, flock: bool) {
        // SeqCst: pairs with the fence in `decide`: what closes the descriptor came before.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders it.
        if !self.shared.any[usize::from(flock)]
            .0
            .load(Ordering::Relaxed)
        {
            return;
        }
        let mut decided = Vec::new();
        {
            let mut state = self.shared.state.lock();
            state.release(owner, flock);
            state.settle(&mut decided);
            self.shared.note(&state);
        }
        wake(decided);
    }

    fn sleep(&self, ticket: &Arc<Ticket>) -> Result<(), Errno> {
        ticket.bed.sleep_until(|| ticket.outcome() != WAITING);
        if ticket.outcome() == WAITING {
            let mut state = self.shared.state.lock();
            // Under the file's lock the outcome is final: either it was decided after the
            // interrupt, and counts, or nobody can decide it any more.
            if ticket.outcome() == WAITING {
                state.queue.retain(|other| !Arc::ptr_eq(other, ticket));
                ticket.leave_queue();
                return Err(Errno::EINTR);
            }
        }
        match ticket.outcome() {
            GRANTED => Ok(()),
            REFUSED => Err(Errno::ENOLCK),
            _ => Err(Errno::EDEADLK),
        }
    }
}

impl Shared {
    /// Notes what is held; the caller holds the lock of `state`.
    fn note(&self, state: &State) {
        for (any, is_held) in self.any.iter().zip(state.held.sorts()) {
            // Relaxed: the lock orders writers, a fence the reader that goes without it.
            if any.0.load(Ordering::Relaxed) != is_held {
                any.0.store(is_held, Ordering::Relaxed);
            }
        }
    }
}

impl State {
    /// Decides a request now (`None`) or queues it. Waiting requests that this decides as well
    /// come out in `decided`, to be woken once the file's lock is given back.
    fn set(
        &mut self,
        request: &LockRequest,
        wait: Option<Wait<'_>>,
        decided: &mut Vec<Arc<Ticket>>,
    ) -> Result<Option<Arc<Ticket>>, Errno> {
        if request.flock {
            if self.held.has_flock(request) {
                return Ok(None);
            }
            self.release(request.owner, true);
        }
        let in_the_way = self.held.conflicts(request).next().is_some();
        let answer = match (in_the_way, wait) {
            (false, _) => apply(&mut self.held, request, &self.allowance).map(|()| None),
            (true, None) => Err(Errno::EAGAIN),
            (true, Some(wait)) => self.enqueue(request, wait).map(Some),
        };
        self.settle(decided);
        answer
    }

    /// Gives up what `owner` holds, of one of the two sorts.
    fn release(&mut self, owner: u64, flock: bool) {
        if !flock {
            let ranges = self.held.ranges_held(owner) as i64;
            self.allowance.charge(owner, ranges, 0);
        }
        self.held.release(owner, flock);
    }

    fn enqueue(&mut self, request: &LockRequest, wait: Wait<'_>) -> Result<Arc<Ticket>, Errno> {
        let ticket = Arc::new(Ticket::new(request, wait));
        if !ticket.enter_graph(&self.held) {
            return Err(Errno::EDEADLK);
        }
        ticket.graph.begin();
        self.queue.push_back(Arc::clone(&ticket));
        Ok(ticket)
    }

    /// Decides every waiting request that what is held now decides: first those that have nothing
    /// in the way any more, then those that wait for themselves.
    ///
    /// Granting one may free the way for an earlier one (it may turn an exclusive range of its
    /// owner into a shared one), so this goes round until nothing changes. Only then are circles
    /// looked for: a request that is about to be granted waits for nobody.
    fn settle(&mut self, decided: &mut Vec<Arc<Ticket>>) {
        let State {
            held,
            queue,
            allowance,
        } = self;
        let mut changed = !queue.is_empty();
        while changed {
            changed = false;
            queue.retain(|ticket| {
                if held.conflicts(&ticket.request).next().is_some() {
                    return true;
                }
                changed = true;
                let outcome = match apply(held, &ticket.request, allowance) {
                    Ok(()) => GRANTED,
                    Err(_) => REFUSED,
                };
                ticket.end(outcome);
                decided.push(Arc::clone(ticket));
                false
            });
        }
        let waits = queue.iter().filter(|ticket| ticket.detects_deadlock());
        let waits: Vec<_> = waits.map(|ticket| ticket.edges(held)).collect();
        let Some(first) = queue.front().filter(|_| !waits.is_empty()) else {
            return;
        };
        let refused = first.graph.renew(waits);
        queue.retain(|ticket| {
            let is_refused = refused.contains(&WaitId::of(&**ticket));
            if is_refused {
                ticket.end(DEADLOCKED);
                decided.push(Arc::clone(ticket));
            }
            !is_refused
        });
    }
}

/// Does what `request` says, unless the owner would hold too much; nothing is in the way.
fn apply(held: &mut Held, request: &LockRequest, allowance: &LockAllowance) -> Result<(), Errno> {
    let before = held.ranges_held(request.owner) as i64;
    let after = before + held.growth(request);
    if !allowance.charge(request.owner, before, after) {
        return Err(Errno::ENOLCK);
    }
    held.apply(request);
    debug_assert_eq!(held.ranges_held(request.owner) as i64, after);
    Ok(())
}
