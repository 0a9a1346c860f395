//! What can do operations: the model and what is compared with it.

use crate::model::Model;
use crate::op::Op;
use crate::outcome::Outcome;

/// Anything that can do operations.
///
/// A system starts as [`PROCESSES`] says: an empty tree whose root directory is 0755 of root, and
/// those processes with umask 022 and no descriptor.
pub trait System {
    /// Lets process `p` do one operation.
    fn apply(&mut self, p: usize, op: &Op) -> Outcome;

    /// Whether it refuses hard links to files that the process could not have made
    /// (`fs.protected_hardlinks`).
    fn protects_hardlinks(&self) -> bool {
        false
    }

    /// Whether Linux's FUSE stands in front of it. That passes on no attributes of inodes, and
    /// does not say which record locks are those of descriptions.
    fn is_mounted(&self) -> bool {
        false
    }
}

impl System for Model {
    fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        Model::apply(self, p, op)
    }
}

/// Process that looks at the tree and does nothing else.
pub const OBSERVER: usize = 0;

/// Credentials of the processes that a script starts with: the observer, root, and a user.
pub const PROCESSES: [(u32, u32, &[u32]); 3] = [(0, 0, &[]), (0, 0, &[]), (1000, 1000, &[2000])];
