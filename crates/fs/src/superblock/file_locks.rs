//! The state that the file locks of a volume share: the graph of waiters and the bound on byte
//! ranges.

use crate::locks::{LockAllowance, WaitGraph};

/// The state that `flock` and `fcntl` locks of all files share. Each field synchronises itself.
pub(crate) struct FileLocking {
    /// The wait-for graph, for deadlock detection.
    pub waits: WaitGraph,
    /// How many byte ranges each owner may still lock.
    pub allowance: LockAllowance,
}

impl FileLocking {
    /// No locks; an owner may lock `ranges` byte ranges.
    pub fn new(ranges: u64) -> FileLocking {
        FileLocking {
            waits: WaitGraph::new(),
            allowance: LockAllowance::new(ranges),
        }
    }
}
