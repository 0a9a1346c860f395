//! Quotas of a directory of the host: reserved before a system call, settled by what the host says
//! after. `docs/design/host.md` has the rules.
//!
//! Lock order:
//! ```text
//! host.charged         what is charged for one inode, over its operation
//!   anything of this crate that is below
//!   quota.state        the ledger of the volume beside
//! ```

mod allocated;
mod amounts;
mod charged;
mod check;
mod clusters;
mod counting;
mod data;
mod dips;
mod enter_project;
mod holes;
mod known_blocks;
mod labels;
mod late;
mod lines;
mod mounts_below;
mod moving;
mod names;
mod operations;
mod projects;
mod refusals;
mod renames;
mod reserve;
mod serve;
mod settle;
mod state_dir;
mod under_way;
mod walk;

use crate::identity::Identity;
use crate::tree::Tree;
pub use charged::{Charged, Membership};
use counting::Counting;
use hearth::{Charges, Errno, KeptSetting, Result};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::AtomicU64;
use labels::Labels;
use late::Late;
use lines::Lines;
use moving::Moving;
use projects::Projects;
pub use refusals::Refusal;
use refusals::Refusals;
use rustix::fd::BorrowedFd;
use rustix::fs::fstatfs;
use state_dir::QuotaDir;
use std::collections::HashMap;
use std::path::PathBuf;
use under_way::{Operation, UnderWay};

lock_class!(PseudoLock = "host.pseudo", 817);

/// The quotas of a directory that is served.
#[derive(Debug)]
pub(crate) struct Quotas {
    tree: Arc<Tree>,
    charges: Charges,
    projects: Projects,
    moving: Moving,
    /// Operations that go by projects as they are written down beside.
    under_way: UnderWay,
    counting: Counting,
    refusals: Refusals,
    late: Late,
    /// The most that a directory has given a new file.
    labels: Labels,
    state: QuotaDir,
    source: PathBuf,
    settings: Arc<Lines<String>>,
    /// Settings as they were kept, until the walk has ended.
    kept: Vec<KeptSetting>,
    /// `f_type` of the filesystem of the root.
    magic: u64,
    /// Whether that is XFS.
    is_xfs: bool,
    /// Bytes of its blocks.
    block: u64,
    /// Bytes that XFS or ext4 allocates at least, a power of two; [`hearth::BLOCK`] elsewhere.
    unit: u64,
    /// Mounts below and their devices, and whether it is a pseudo filesystem.
    pseudo: Lock<PseudoLock, HashMap<(u64, u64), bool>>,
    /// Inodes that the walk has counted, for those who look. Relaxed: nothing depends on it.
    counted: AtomicU64,
}

impl Quotas {
    /// An operation begins that goes by projects. No tree becomes one of another project before it
    /// ends.
    fn begin(&self) -> Option<Operation<'_>> {
        // Those that the filesystem keeps change with the inode.
        (!self.tree.keeps_projects()).then(|| self.under_way.begin())
    }

    /// Waits until limits that were set are on the disk.
    ///
    /// # Errors
    /// Those of the filesystem of the state directory.
    pub fn make_settings_durable(&self) -> Result<()> {
        self.settings.make_durable().map_err(Errno::from)
    }

    /// Waits until it is on the disk of which projects inodes are.
    ///
    /// # Errors
    /// As [`Quotas::make_settings_durable`].
    pub fn make_projects_durable(&self) -> Result<()> {
        self.projects.make_durable()
    }

    /// Whether a device is that of the root.
    fn is_of_root(&self, dev: u64) -> bool {
        dev == self.tree.nodes.root().id.dev
    }

    /// `f_type` of what is open as `fd`, on this device. That of the root is known.
    fn magic_of(&self, dev: u64, fd: BorrowedFd<'_>) -> u64 {
        match self.is_of_root(dev) {
            true => self.magic,
            false => fstatfs(fd).map_or(0, |found| found.f_type as u64),
        }
    }

    /// Whether an inode is on a filesystem, mounted below, that is not counted. `look` says so of a
    /// device that was not met before.
    fn is_pseudo(&self, id: &Identity, look: impl FnOnce() -> bool) -> bool {
        if self.is_of_root(id.dev) {
            return false;
        }
        let place = (id.mount, id.dev);
        if let Some(known) = self.pseudo.lock().get(&place) {
            return *known;
        }
        let found = look();
        self.pseudo.lock().insert(place, found);
        found
    }
}

/// Whether an open with these flags cuts the file.
fn cuts(flags: i32) -> bool {
    flags & libc::O_TRUNC != 0
}
