//! One waiting request, shared by its sleeper and the file's queue.

use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicU8, Ordering};

use super::Wait;
use super::held::HeldLocks;
use super::interrupt::Interrupt;
use super::request::LockRequest;
use super::wait::{Edges, WaitGraph, WaitId};

/// A request that waits, or waited.
pub(super) struct WaitingRequest {
    pub request: LockRequest,
    /// One of the constants below. Written once, under the file's lock.
    outcome: AtomicU8,
    pub bed: Interrupt,
    pub graph: WaitGraph,
}

/// Most edges of a request. Anybody may hold a range together with any number of others, and have
/// as many wait for it: without a bound these would be as many edges as the product of both.
const MOST_EDGES: usize = 64;

pub(super) const WAITING: u8 = 0;
pub(super) const GRANTED: u8 = 1;
pub(super) const DEADLOCKED: u8 = 2;
pub(super) const REFUSED: u8 = 3;

impl WaitingRequest {
    pub fn new(request: &LockRequest, wait: Wait<'_>) -> WaitingRequest {
        WaitingRequest {
            request: *request,
            outcome: AtomicU8::new(WAITING),
            bed: wait.interrupt.cloned().unwrap_or_default(),
            graph: wait.graph.clone(),
        }
    }

    pub fn detects_deadlock(&self) -> bool {
        self.request.detects_deadlock()
    }

    /// The owners that the request waits for, and who may wait for it: the oldest [`MOST_EDGES`] of
    /// them.
    pub fn edges(&self, held: &HeldLocks) -> Edges {
        let blockers = held.conflicts(&self.request);
        // An open file description is never a part of a circle.
        let blockers = blockers.filter(LockRequest::detects_deadlock);
        Edges {
            from: WaitId::of(self),
            owner: self.request.owner,
            on: blockers.map(|lock| lock.owner).take(MOST_EDGES).collect(),
        }
    }

    /// Enters the request's edges in the graph; false when that would be a deadlock.
    pub fn enter_graph(&self, held: &HeldLocks) -> bool {
        !self.detects_deadlock() || self.graph.renew(vec![self.edges(held)]).is_empty()
    }

    /// Sets the outcome of a request that has left the queue.
    pub fn end(&self, outcome: u8) {
        self.leave_queue();
        // Release: pairs with the Acquire of `WaitingRequest::outcome` in the sleeper, which then
        // returns to a caller that relies on the lock: it sees what the previous holder did before
        // it unlocked.
        self.outcome.store(outcome, Ordering::Release);
    }

    pub fn leave_queue(&self) {
        self.graph.end();
        if self.detects_deadlock() {
            self.graph.leave(WaitId::of(self), self.request.owner);
        }
    }

    pub fn outcome(&self) -> u8 {
        // Acquire: pairs with the Release in `LockState::settle`.
        self.outcome.load(Ordering::Acquire)
    }
}

/// Wakes the sleepers of decided requests; the file's lock is not held.
pub(super) fn wake(decided: Vec<Arc<WaitingRequest>>) {
    for waiting in decided {
        waiting.bed.wake();
    }
}
