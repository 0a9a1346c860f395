//! Systems: the model and what is compared with it.

use crate::model::Model;
use crate::op::Op;
use crate::outcome::Outcome;

/// A system that applies operations.
///
/// It starts as [`PROCESSES`] says: an empty tree whose root directory is 0755 of root, and these
/// processes with umask 022 and no descriptor.
pub trait System {
    /// Applies one operation of process `p`.
    fn apply(&mut self, p: usize, op: &Op) -> Outcome;

    /// Returns whether it refuses hard links to files that the process could not have made
    /// (`fs.protected_hardlinks`).
    fn protects_hardlinks(&self) -> bool {
        false
    }

    /// Returns whether Linux's FUSE is in front of it. FUSE passes no attributes of inodes on, and
    /// does not tell which record locks belong to descriptions.
    fn is_mounted(&self) -> bool {
        false
    }
}

impl System for Model {
    fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        Model::apply(self, p, op)
    }
}

/// The process that only observes the tree.
pub const OBSERVER: usize = 0;

/// Credentials of the processes that a script starts with: the observer, root, and a user.
pub const PROCESSES: [(u32, u32, &[u32]); 3] = [(0, 0, &[]), (0, 0, &[]), (1000, 1000, &[2000])];
