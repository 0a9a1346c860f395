//! Quotas of a directory of the host: reserved before a system call, settled by what the host says
//! after. `docs/design/host.md` has the rules.
//!
//! Lock order:
//! ```text
//! host.charged         what is charged for one inode, over its operation
//!   anything of this crate that is below
//!   quota.state        the ledger of the volume beside
//! ```

mod amounts;
mod charged;
mod check;
mod counting;
mod data;
mod holes;
mod late;
mod mounts_below;
mod names;
mod projects;
mod refusals;
mod serve;
mod settle;
mod state_dir;
mod walk;

use crate::tree::Tree;
pub use charged::{Charged, Membership};
use counting::Counting;
use hearth::{Charges, KeptSetting};
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::AtomicU64;
use late::Late;
use projects::Projects;
pub use refusals::Refusal;
use refusals::Refusals;
use state_dir::{Lines, QuotaDir};
use std::path::PathBuf;

/// The quotas of a directory that is served.
#[derive(Debug)]
pub(crate) struct Quotas {
    tree: Arc<Tree>,
    charges: Charges,
    projects: Projects,
    counting: Counting,
    refusals: Refusals,
    late: Late,
    state: QuotaDir,
    source: PathBuf,
    settings: Lines,
    /// Settings as they were kept, until the walk has ended.
    kept: Vec<KeptSetting>,
    /// Whether the root is on XFS.
    is_xfs: bool,
    /// Inodes that the walk has counted, for those who look. Relaxed: nothing depends on it.
    counted: AtomicU64,
}

/// Whether an open with these flags cuts the file.
fn cuts(flags: i32) -> bool {
    flags & libc::O_TRUNC != 0
}
