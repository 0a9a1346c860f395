//! Who waits for whom, over all files of a volume: the graph that finds deadlocks.
//!
//! An edge goes from the owner of a waiting POSIX request to every owner whose lock is in its way.
//! The edges of a request change only under the lock of its file; they are entered and checked for
//! a cycle in one step under the graph's lock. A cycle is closed by its last edge, so whoever
//! enters that edge sees it. Requests that do not wait never come here.

use std::collections::{HashMap, HashSet};

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;

/// The wait-for graph of one volume. Clones are the same graph.
#[derive(Clone)]
pub struct WaitGraph {
    edges: Arc<Lock<GraphClass, Edges>>,
}

/// Entering the edges would close a cycle.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Deadlock;

/// Names one waiting request among all of the volume: where it lives in memory. Its edges leave
/// the graph before it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitId(usize);

impl WaitId {
    pub(super) fn of<T>(request: &T) -> WaitId {
        WaitId(std::ptr::from_ref(request).addr())
    }
}

lock_class!(GraphClass = "lock-wait-graph", super::GRAPH_RANK);

#[derive(Default)]
struct Edges {
    /// By waiting owner: one entry per waiting request (threads of one process share an owner).
    waits: HashMap<u64, Vec<Edge>>,
}

struct Edge {
    from: WaitId,
    on: Box<[u64]>,
}

impl Default for WaitGraph {
    fn default() -> WaitGraph {
        WaitGraph::new()
    }
}

impl WaitGraph {
    /// A graph without edges.
    pub fn new() -> WaitGraph {
        WaitGraph {
            edges: Arc::new(Lock::new(Edges::default())),
        }
    }

    /// Enters, or replaces, the edges of a waiting request; refused when `owner` would then wait
    /// for itself, and in that case the request has no edges any more.
    pub(super) fn enter(&self, from: WaitId, owner: u64, on: Box<[u64]>) -> Result<(), Deadlock> {
        let mut edges = self.edges.lock();
        edges.remove(from, owner);
        if edges.reaches(&on, owner) {
            return Err(Deadlock);
        }
        edges
            .waits
            .entry(owner)
            .or_default()
            .push(Edge { from, on });
        Ok(())
    }

    /// Removes the edges of a request that waits no more.
    pub(super) fn leave(&self, from: WaitId, owner: u64) {
        self.edges.lock().remove(from, owner);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.edges.lock().waits.is_empty()
    }
}

impl Edges {
    fn remove(&mut self, from: WaitId, owner: u64) {
        let Some(of_owner) = self.waits.get_mut(&owner) else {
            return;
        };
        of_owner.retain(|edge| edge.from != from);
        if of_owner.is_empty() {
            self.waits.remove(&owner);
        }
    }

    /// Whether a chain of waits leads from one of `from` to `target`.
    fn reaches(&self, from: &[u64], target: u64) -> bool {
        let mut seen = HashSet::new();
        let mut open = from.to_vec();
        while let Some(owner) = open.pop() {
            if owner == target {
                return true;
            }
            if seen.insert(owner) {
                let waits = self.waits.get(&owner).into_iter().flatten();
                open.extend(waits.flat_map(|edge| edge.on.iter().copied()));
            }
        }
        false
    }
}
