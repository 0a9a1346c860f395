//! What of a file lies in memory.

/// Pages, and nodes of the tree that they hang on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    pub pages: u64,
    /// Leaves and interior nodes, which have about one size.
    pub nodes: u64,
}

impl Resident {
    pub(super) fn add(&mut self, other: Resident) {
        self.pages += other.pages;
        self.nodes += other.nodes;
    }
}
