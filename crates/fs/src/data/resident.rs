//! What of a file lies in memory.

use hearth_sync::epoch::Guard;

use super::root::Data;

/// Pages, and nodes of the tree that they hang on. Nodes stay while their pages are at the backend:
/// they have the states of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    pub pages: u64,
    /// Leaves and interior nodes, which have one size.
    pub nodes: u64,
}

impl Resident {
    pub(super) fn add(&mut self, other: Resident) {
        self.pages += other.pages;
        self.nodes += other.nodes;
    }
}

impl Data {
    /// What is in memory, counted one by one.
    pub fn resident(&self, g: &Guard) -> Resident {
        let mut all = Resident {
            pages: u64::from(!self.first.is_empty()),
            nodes: 0,
        };
        if let Some(leaf) = self.near.load(g) {
            all.add(leaf.resident());
        }
        if let Some(far) = self.far.load(g) {
            all.add(far.resident(g));
        }
        all
    }
}
