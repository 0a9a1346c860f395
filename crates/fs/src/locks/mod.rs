//! Advisory locks of one file: `flock`, POSIX record locks, and locks of open file descriptions.
//!
//! Lock order (each may be taken under those above it):
//!
//! ```text
//! FileLocks (rank 920, one per file that has locks; never two at once)
//!     WaitGraph (rank 930, one per volume; only by requests that really wait)
//!     LockAllowance (rank 935, one per shard of the owners; takes nothing)
//! Interrupt (rank 940, taken with nothing else held)
//! ```
//!
//! Life of a request that has to wait: under the file's lock it joins the queue; from then on
//! *other threads* decide it. Every change of the held locks goes through the queue in order of
//! arrival and grants each request that nothing conflicts with any more. A later request can so not
//! slip in between a release and the wake-up. The sleeper only learns its outcome. As in Linux, a
//! request that conflicts with no held lock is granted even if others wait, because waiting behind
//! a waiter could deadlock with locks that the requester holds already.

mod allowance;
mod blocked;
mod circles;
mod held;
mod interrupt;
mod listed;
mod ranges;
mod request;
mod wait;
mod waiting;

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

use std::collections::VecDeque;

use hearth_sync::lock::{self, Lock, Waited};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering, fence};

use crate::cache_padded::CachePadded;
use crate::errno::Errno;
use blocked::Blocked;
use held::HeldLocks;
use wait::WaitId;
use waiting::{DEADLOCKED, GRANTED, REFUSED, WAITING, WaitingRequest, wake};

pub use allowance::LockAllowance;
pub use interrupt::Interrupt;
pub use listed::ListedLock;
pub use request::{LockKind, LockRequest};
pub use wait::WaitGraph;

/// Most pairs of a request that waits for a file and an owner of locks on it. A change of these
/// locks may have to look at all pairs, on a mount on a thread that serves others as well.
const MOST_PAIRS: usize = if cfg!(test) { 4_000 } else { 1 << 21 };

const FILE_RANK: u32 = 920;
const GRAPH_RANK: u32 = 930;
const ALLOWANCE_RANK: u32 = 935;
const SLEEPER_RANK: u32 = 940;

/// The advisory locks of one file. Clones are one table: a thread that may wait takes a clone, so
/// that it need not hold the epoch while it sleeps.
#[derive(Clone)]
// Every close reads this: it shares no line with other allocations.
#[repr(align(64))]
pub struct FileLocks {
    shared: Arc<FileLocksShared>,
}

#[repr(align(64))]
struct FileLocksShared {
    state: Lock<FileClass, LockState>,
    /// Whether anybody holds a record lock, and whether anybody holds an `flock`. Written under the
    /// lock of `state`; an owner without locks reads it and leaves the lock alone.
    any: [CachePadded<AtomicBool>; 2],
}

/// How to wait for a lock that cannot be granted at once.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    /// The graph of the file's volume.
    pub graph: &'a WaitGraph,
    /// Ends the wait early, with `EINTR`.
    pub interrupt: Option<&'a Interrupt>,
}

lock_class! {
    FileClass = "file-locks", FILE_RANK;
    /// The locks of users. Only for the profile: it is no lock of this program.
    UserClass = "file-locks.user", 0;
}

/// Protected by the lock of [`FileLocks`].
struct LockState {
    held: HeldLocks,
    /// How much owners may hold, over all files of the volume.
    allowance: LockAllowance,
    /// Waiting requests, oldest first. Each conflicts with a held lock.
    queue: VecDeque<Arc<WaitingRequest>>,
}

impl Default for FileLocks {
    fn default() -> FileLocks {
        FileLocks::new()
    }
}

impl FileLocks {
    /// No locks, no waiters, and no bound on the number of ranges.
    pub fn new() -> FileLocks {
        FileLocks::within(LockAllowance::default())
    }

    /// No locks and no waiters, in a volume with this allowance.
    pub fn within(allowance: LockAllowance) -> FileLocks {
        FileLocks {
            shared: Arc::new(FileLocksShared {
                state: Lock::new(LockState {
                    held: HeldLocks::default(),
                    allowance,
                    queue: VecDeque::new(),
                }),
                any: [const { CachePadded(AtomicBool::new(false)) }; 2],
            }),
        }
    }

    /// Whether nothing is held and no request waits.
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

    /// The first held lock that conflicts with `request`; `None` if it would be granted.
    pub fn get(&self, request: &LockRequest) -> Option<LockRequest> {
        let request = request.normalised().ok()?;
        self.shared.state.lock().held.conflicts(&request).next()
    }

    /// Takes, converts or releases a lock.
    ///
    /// `ENOLCK` when the owner would hold more ranges than it may, also after a wait, and when too
    /// many wait for a file on which too many have locks. `EAGAIN` for a conflict without `wait`.
    /// With `wait` the calling thread blocks: `EINTR` when interrupted, `EDEADLK` when a POSIX
    /// request would wait for itself. The thread must not be pinned then: nothing retired would be
    /// freed while it sleeps. Converting an `flock` releases the old lock
    /// first, as Linux does: a conversion that fails leaves none.
    #[track_caller]
    pub fn set(&self, request: &LockRequest, wait: Option<Wait<'_>>) -> Result<(), Errno> {
        let request = request.normalised()?;
        match request.kind {
            LockKind::Unlock => self.decide(&request, wait).0,
            _ => lock::request::<UserClass, _>(|| self.decide(&request, wait)),
        }
    }

    /// The result, and whether a granted lock took a sleep.
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
        // SeqCst: pairs with the fence in `release_owner`. If the requester finds its descriptor
        // open after this, `release_owner` sees that it holds a lock.
        fence(Ordering::SeqCst);
        match answer {
            Ok(None) => (Ok(()), Some(Waited::No)),
            Ok(Some(waiting)) => {
                let woken = self.sleep(&waiting);
                (woken, woken.is_ok().then_some(Waited::Yes))
            }
            Err(errno) => (Err(errno), None),
        }
    }

    /// Releases all locks of `owner`: `flock` locks or record locks. Waiting requests of that owner
    /// go on waiting. Writes nothing if nobody holds a lock.
    ///
    /// An owner who takes a lock meanwhile must check afterwards whether it may have one: see
    /// `ops::lock`.
    pub fn release_owner(&self, owner: u64, flock: bool) {
        // SeqCst: pairs with the fence in `decide`: the descriptor was closed before.
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

    fn sleep(&self, waiting: &Arc<WaitingRequest>) -> Result<(), Errno> {
        waiting.bed.sleep_until(|| waiting.outcome() != WAITING);
        if waiting.outcome() == WAITING {
            let mut state = self.shared.state.lock();
            // Under the file's lock the outcome is final: either the request was decided after the
            // interrupt, and that counts, or it can not be decided any more.
            if waiting.outcome() == WAITING {
                state.queue.retain(|other| !Arc::ptr_eq(other, waiting));
                waiting.leave_queue();
                return Err(Errno::EINTR);
            }
        }
        match waiting.outcome() {
            GRANTED => Ok(()),
            REFUSED => Err(Errno::ENOLCK),
            _ => Err(Errno::EDEADLK),
        }
    }
}

impl FileLocksShared {
    /// Records what is held; the caller holds the lock of `state`.
    fn note(&self, state: &LockState) {
        for (any, is_held) in self.any.iter().zip(state.held.sorts()) {
            // Relaxed: the lock orders writers, a fence the reader that does not take it.
            if any.0.load(Ordering::Relaxed) != is_held {
                any.0.store(is_held, Ordering::Relaxed);
            }
        }
    }
}

impl LockState {
    /// Decides a request now (`None`) or queues it. Waiting requests that this decides as well are
    /// added to `decided`, to be woken once the file's lock is released.
    fn set(
        &mut self,
        request: &LockRequest,
        wait: Option<Wait<'_>>,
        decided: &mut Vec<Arc<WaitingRequest>>,
    ) -> Result<Option<Arc<WaitingRequest>>, Errno> {
        if request.flock {
            if self.held.has_flock(request) {
                return Ok(None);
            }
            self.release(request.owner, true);
        }
        let in_the_way = self.held.conflicts(request).next().is_some();
        let answer = match (in_the_way, wait) {
            (false, _) if !self.has_room_for_owner(request) => Err(Errno::ENOLCK),
            (false, _) => apply(&mut self.held, request, &self.allowance).map(|()| None),
            (true, None) => Err(Errno::EAGAIN),
            (true, Some(wait)) => self.enqueue(request, wait).map(Some),
        };
        // Who waits or is refused has changed nothing, but for the `flock` that it gave up.
        if !in_the_way || request.flock {
            self.settle(decided);
        }
        answer
    }

    /// Releases the locks of `owner`, of one of the two sorts.
    fn release(&mut self, owner: u64, flock: bool) {
        if !flock {
            let ranges = self.held.ranges_held(owner) as i64;
            self.allowance.charge(owner, ranges, 0);
        }
        self.held.release(owner, flock);
    }

    /// Whether `request` may be granted although others wait. An owner that is known, and one that
    /// gives up its locks, add nothing.
    fn has_room_for_owner(&self, request: &LockRequest) -> bool {
        let waiting = self.queue.len();
        waiting == 0
            || request.kind == LockKind::Unlock
            || waiting.saturating_mul(self.held.owners() + 1) <= MOST_PAIRS
            || !self.held.is_new(request)
    }

    fn enqueue(
        &mut self,
        request: &LockRequest,
        wait: Wait<'_>,
    ) -> Result<Arc<WaitingRequest>, Errno> {
        let waiting = self.queue.len() + 1;
        if waiting.saturating_mul(self.held.owners()) > MOST_PAIRS {
            return Err(Errno::ENOLCK);
        }
        let waiting = Arc::new(WaitingRequest::new(request, wait));
        if !waiting.enter_graph(&self.held) {
            return Err(Errno::EDEADLK);
        }
        waiting.graph.begin();
        self.queue.push_back(Arc::clone(&waiting));
        Ok(waiting)
    }

    /// Decides every waiting request that the held locks decide now: first those without a
    /// conflict, then those that wait for themselves. Only when no more can be granted are cycles
    /// looked for: a request that is about to be granted waits for nobody.
    fn settle(&mut self, decided: &mut Vec<Arc<WaitingRequest>>) {
        self.grant(decided);
        let (held, queue) = (&self.held, &mut self.queue);
        let waits = queue.iter().filter(|waiting| waiting.detects_deadlock());
        let waits: Vec<_> = waits.map(|waiting| waiting.edges(held)).collect();
        let Some(first) = queue.front().filter(|_| !waits.is_empty()) else {
            return;
        };
        let refused = first.graph.renew(waits);
        queue.retain(|waiting| {
            let is_refused = refused.contains(&WaitId::of(&**waiting));
            if is_refused {
                waiting.end(DEADLOCKED);
                decided.push(Arc::clone(waiting));
            }
            !is_refused
        });
    }

    /// Grants every waiting request that nothing conflicts with, in the order of arrival. Each is
    /// looked at once, and again where [`Blocked`] says so, until nothing changes.
    fn grant(&mut self, decided: &mut Vec<Arc<WaitingRequest>>) {
        let LockState {
            held,
            queue,
            allowance,
        } = self;
        let before = decided.len();
        let mut blocked = Blocked::default();
        let mut once = 0..queue.len();
        let mut next = |blocked: &mut Blocked| {
            let once = once.next().map(|index| (index, 0));
            once.or_else(|| blocked.next())
        };
        while let Some((index, place)) = next(&mut blocked) {
            let waiting = &queue[index];
            let request = &waiting.request;
            if let Some((place, lock)) = held.conflict_from(request, place) {
                blocked.add((index, request), (place, &lock));
                continue;
            }
            match apply(held, request, allowance) {
                Ok(()) => {
                    waiting.end(GRANTED);
                    blocked.granted(index, request);
                }
                Err(_) => waiting.end(REFUSED),
            }
            decided.push(Arc::clone(waiting));
        }
        if decided.len() > before {
            queue.retain(|waiting| waiting.outcome() == WAITING);
        }
    }
}

/// Carries `request` out, unless the owner would hold too much; nothing conflicts with it.
fn apply(
    held: &mut HeldLocks,
    request: &LockRequest,
    allowance: &LockAllowance,
) -> Result<(), Errno> {
    let before = held.ranges_held(request.owner) as i64;
    let after = before + held.growth(request);
    if !allowance.charge(request.owner, before, after) {
        return Err(Errno::ENOLCK);
    }
    held.apply(request);
    debug_assert_eq!(held.ranges_held(request.owner) as i64, after);
    Ok(())
}
