//! The wait-for graph: which owners wait for which, over all files of a volume. It finds deadlocks.
//!
//! An edge goes from the owner of a waiting POSIX request to the owners whose locks conflict with
//! it, the oldest 64 of them: circles through others are not found. The edges of a request change
//! only under the lock of its file; all edges of a file that change at once are entered and checked
//! for a cycle in one step under the graph's lock. A cycle is closed by its last edge, so whoever
//! enters that edge sees it. Requests that do not wait never come here.

use std::collections::HashMap;

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};

use super::circles::Circles;

/// The wait-for graph of one volume. Clones are the same graph.
#[derive(Clone)]
pub struct WaitGraph {
    shared: Arc<GraphShared>,
}

struct GraphShared {
    edges: Lock<GraphClass, Graph>,
    /// Waiting requests of all sorts. Written at the beginning and the end of a wait, under the
    /// lock of the file.
    waiting: AtomicU64,
}

/// Most cycles of one change that are broken one by one, each by the request that has waited
/// longest. Each is looked for along all edges: without a bound a change that closes a cycle for
/// each request would follow each edge as often as there are requests.
const SINGLY: usize = 8;

/// Identifies one waiting request of the volume: its address. Its edges leave the graph before it
/// is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitId(usize);

impl WaitId {
    pub(super) fn of<T>(request: &T) -> WaitId {
        WaitId(std::ptr::from_ref(request).addr())
    }
}

lock_class!(GraphClass = "lock-wait-graph", super::GRAPH_RANK);

/// The owners that a waiting request waits for.
pub(super) struct Edges {
    pub from: WaitId,
    /// The waiting owner.
    pub owner: u64,
    pub on: Box<[u64]>,
}

#[derive(Default)]
struct Graph {
    /// By waiting owner: one entry per waiting request (threads of one process share an owner).
    waits: HashMap<u64, Vec<Edge>>,
}

struct Edge {
    from: WaitId,
    on: Box<[u64]>,
}

#[cfg(test)]
std::thread_local! {
    /// How many edges this thread has followed.
    pub(super) static FOLLOWED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
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
            shared: Arc::new(GraphShared {
                edges: Lock::new(Graph::default()),
                waiting: AtomicU64::new(0),
            }),
        }
    }

    /// Waiting requests, of all sorts, over all files.
    pub fn waiting(&self) -> u64 {
        // Relaxed: a figure by itself.
        self.shared.waiting.load(Relaxed)
    }

    /// A request begins to wait.
    pub(super) fn begin(&self) {
        self.shared.waiting.fetch_add(1, Relaxed);
    }

    /// A request waits no longer.
    pub(super) fn end(&self) {
        self.shared.waiting.fetch_sub(1, Relaxed);
    }

    /// Enters, or replaces, the edges of waiting requests. Returns the requests whose owners then
    /// wait for themselves: these have no edges any more. Where several are in one cycle, the first
    /// of them is returned; of more than [`SINGLY`] cycles, all in the others.
    ///
    /// All edges are replaced before any is checked: an edge that does not hold any more closes no
    /// cycle. Where none is new there is nothing to check.
    pub(super) fn renew(&self, waits: Vec<Edges>) -> Vec<WaitId> {
        let mut edges = self.shared.edges.lock();
        let asked: Vec<(WaitId, u64)> = waits.iter().map(|one| (one.from, one.owner)).collect();
        let mut has_new = false;
        for Edges { from, owner, on } in waits {
            has_new |= edges.replace(owner, Edge { from, on });
        }
        let mut refused = Vec::new();
        if !has_new {
            return refused;
        }
        let mut asked = &asked[..];
        while let Some(first) = edges.first_in_circle(asked) {
            let (from, owner) = asked[first];
            edges.remove(from, owner);
            refused.push(from);
            asked = &asked[first + 1..];
            if refused.len() == SINGLY {
                let rest = edges.all_in_circles(asked);
                rest.iter()
                    .for_each(|&(from, owner)| edges.remove(from, owner));
                refused.extend(rest.iter().map(|(from, _)| from));
                break;
            }
        }
        refused
    }

    /// Removes the edges of a request that waits no longer.
    pub(super) fn leave(&self, from: WaitId, owner: u64) {
        self.shared.edges.lock().remove(from, owner);
    }

    /// How many edges there are.
    #[cfg(test)]
    pub(super) fn edges(&self) -> usize {
        let edges = self.shared.edges.lock();
        let all = edges.waits.values().flatten();
        all.map(|edge| edge.on.len()).sum()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.shared.edges.lock().waits.is_empty()
    }
}

impl Graph {
    /// Enters the edges of a request of `owner` in the place of those that it has. Returns whether
    /// one of them is new.
    fn replace(&mut self, owner: u64, edge: Edge) -> bool {
        let of_owner = self.waits.entry(owner).or_default();
        match of_owner.iter_mut().find(|old| old.from == edge.from) {
            Some(old) => {
                let is_new = |on: &u64| !old.on.contains(on);
                let has_new = *old.on != *edge.on && edge.on.iter().any(is_new);
                *old = edge;
                has_new
            }
            None => {
                of_owner.push(edge);
                true
            }
        }
    }

    fn remove(&mut self, from: WaitId, owner: u64) {
        let Some(of_owner) = self.waits.get_mut(&owner) else {
            return;
        };
        of_owner.retain(|edge| edge.from != from);
        if of_owner.is_empty() {
            self.waits.remove(&owner);
        }
    }

    /// The first of these requests from which a chain of waits leads back to its owner.
    fn first_in_circle(&self, asked: &[(WaitId, u64)]) -> Option<usize> {
        let leads_back = self.leads_back(asked);
        asked.iter().position(leads_back)
    }

    /// All of these requests from which one does.
    fn all_in_circles(&self, asked: &[(WaitId, u64)]) -> Vec<(WaitId, u64)> {
        let leads_back = self.leads_back(asked);
        asked.iter().copied().filter(leads_back).collect()
    }

    /// Whether a chain of waits leads from one of these requests back to its owner.
    fn leads_back(&self, asked: &[(WaitId, u64)]) -> impl Fn(&(WaitId, u64)) -> bool {
        let of = |owner| self.waits.get(&owner).into_iter().flatten();
        let owners = asked.iter().map(|(_, owner)| *owner);
        let targets = |owner| {
            let on = of(owner).flat_map(|edge| edge.on.iter().copied());
            #[cfg(test)]
            let on = on.inspect(|_| FOLLOWED.set(FOLLOWED.get() + 1));
            on
        };
        let circles = Circles::from(owners, targets);
        move |&(from, owner)| {
            let own = of(owner).filter(|edge| edge.from == from);
            let mut on = own.flat_map(|edge| edge.on.iter());
            on.any(|on| circles.has(*on, owner))
        }
    }
}
