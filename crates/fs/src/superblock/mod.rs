//! The superblock: the one volume behind its handles, in parts that say who may touch what.
//!
//! | part | what | changed by |
//! |---|---|---|
//! | [`Objects`] | in-core inodes, backend, clock | nobody; the table synchronises itself |
//! | [`Namespace`] | hash keys, rename lock | renames hold the lock |
//! | [`Quotas`] | ledger, reservations | operations charge, `quotactl` sets limits |
//! | [`CacheState`] | memory in use, ghosts, write-back, commits | `cache` |
//! | [`Options`] | mount options | control files, [`crate::Volume`] |
//! | [`FileLocking`] | waiters and bounds of file locks | `ops::lock` |
//! | [`Observers`] | who is notified | [`crate::Volume::observe`] |
//! | [`Front`] | where the volume is mounted | [`crate::Volume::kernel_in_front`] |
//! | [`NameRing`] | changes of names for listeners | every change while somebody listens |
//! | [`ControlFiles`] | the files below `/.hearth` | set once |
//! | [`Maintenance`] | state of the background work | `service` |
//!
//! Lock order of a volume:
//! ```text
//! volume.rename              renames of directories across directories
//!   directory.grow, buckets  (see `directory`)
//!     inode.change, .growth  (see `inode`)
//!       volume.inode_io      (see `cache_state`); its holder takes no lock of an inode
//! ```

mod attempt;
mod build_options;
mod cache_state;
mod charged_extra;
mod control;
mod crowd;
mod file_locks;
mod front;
mod ghosts;
mod handle;
mod inode_ahead;
mod leader_signal;
mod maintenance;
mod mem_usage;
mod names;
mod objects;
mod observers;
mod options;
mod page_flights;
mod panics;
mod promises;
mod quotas;
mod record;
mod room;
mod tenants;
mod times;

pub(crate) use attempt::{Attempt, Deferred, Fetch, Stop};
pub(crate) use build_options::BuildOptions;
#[cfg(feature = "store")]
pub(crate) use build_options::machine_memory;
pub use build_options::{AtimeMode, OnError, Protection};
pub use cache_state::WhenDurable;
pub(crate) use cache_state::{CommitState, WaitingCaller};
pub(crate) use control::{ControlFiles, ControlIo, OpenControl};
pub(crate) use handle::Handle;
pub(crate) use maintenance::Jobs;
pub(crate) use mem_usage::SLACK;
pub(crate) use names::{RenameLock, STILL_ATTEMPTS};
pub(crate) use objects::Objects;
pub(crate) use record::inode_record;

use crate::attr::{Kind, Time};
use crate::clock::VolumeClock;
use crate::data::Resident;
use crate::directory::{Directory, Entry, FIRST_TABLE_BYTES};
use crate::errno::{Errno, Result};
use crate::heat::Tracker;
use crate::inode::{Body, Fields, Inode, InodeInner, InodeRef, XattrsAcls};
use crate::log::ChangeLog;
use crate::number::{ROOT, is_control};
use crate::owed::LogBounds;
use crate::quota::{NO_ACCOUNT, Resource};
use crate::stats::Stats;
use crate::watch::NameRing;
use cache_state::CacheState;
use control::ControlSlot;
use file_locks::FileLocking;
use front::Front;
use handle::{HandleShares, HasHandles};
use hearth_sched::{DEFAULT_WEIGHT, MOST_WORKERS, SchedError, Scheduler};
use hearth_sync::epoch::Guard;
use hearth_sync::lock::RawLock;
use hearth_sync::lock_class;
use hearth_sync::object::Table;
use hearth_sync::primitive::{Arc, OnceLock, Weak};
use maintenance::Maintenance;
use mem_usage::MemUsage;
use names::Namespace;
use observers::Observers;
use options::Options;
use quotas::Quotas;
use tenants::Projects;

lock_class! {
    /// Orders changes of weights, rate limits and tunables.
    pub(crate) OrderLock = "settings.order", 17;
}

/// The memory budget from which on inodes lie in huge pages: less has no room for a few in each.
const HUGE_PAGES: u64 = 1 << 30;
/// The bytes of an inode in the memory budget, without what it contains.
pub(crate) const INODE_BYTES: i64 = 384;
/// The bytes of a page in the memory budget.
pub(crate) const PAGE_BYTES: i64 = 4160;
/// The bytes of a node of a file's tree of pages in the memory budget.
const NODE_BYTES: i64 = 576;

/// The one volume behind its handles. Aligned to a cache line, so that the handle count before it
/// lies on another line than what every operation reads.
#[repr(align(64))]
pub(crate) struct Superblock {
    /// Makes another handle possible. Immutable.
    me: Weak<Superblock>,
    pub objects: Objects,
    pub names: Namespace,
    pub quotas: Quotas,
    pub cache: CacheState,
    pub options: Options,
    pub file_locks: FileLocking,
    /// Counted per core.
    pub stats: Stats,
    /// Recorded per core; `service` drains it.
    pub heat: Tracker,
    pub maintenance: Maintenance,
    pub observers: Observers,
    pub front: Front,
    /// Written while somebody listens. Shared with those who do.
    pub watched_names: Arc<NameRing>,
    pub control: ControlSlot,
    handles: HandleShares<Superblock>,
    /// The process that built the volume. Immutable.
    process: u32,
    projects: Projects,
    /// Orders the changes of settings that no other lock orders.
    pub settings_order: RawLock<OrderLock>,
    /// Runs the background work, and what front ends park.
    pub sched: Scheduler,
}

impl HasHandles for Superblock {
    fn handles(&self) -> &HandleShares<Superblock> {
        &self.handles
    }

    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }
}

impl Superblock {
    /// Refuses a fork of the process that built the volume, of which it has a copy: what is durable
    /// belongs to that process. Asked where a commit is asked for, before a lock is taken that a
    /// thread may have held at the fork.
    pub fn check_own(&self) -> Result<()> {
        match self.is_durable() && self.is_forked() {
            true => Err(Errno::ESTALE),
            false => Ok(()),
        }
    }
}

/// The bytes of an inode in the memory budget, without pages and with few names.
pub(crate) fn inode_bytes(inode: &InodeInner, g: &Guard) -> i64 {
    bytes_of(&inode.body, inode.extra(g))
}

fn bytes_of(body: &Body, extra: Option<&XattrsAcls>) -> i64 {
    let contents = match body {
        Body::Directory(_) => FIRST_TABLE_BYTES,
        Body::Symlink(target) => target.memory() as i64,
        _ => 0,
    };
    INODE_BYTES + contents + extra.map_or(0, |extra| extra.memory() as i64)
}

/// The bytes of what a file has in memory in the memory budget.
pub(crate) fn resident_bytes(resident: Resident) -> i64 {
    resident.pages as i64 * PAGE_BYTES + resident.nodes as i64 * NODE_BYTES
}

impl Superblock {
    /// Makes a volume without any object. The caller makes the root next.
    ///
    /// `applied`: the last epoch of a durable backend.
    pub fn empty(
        options: BuildOptions,
        applied: Option<u64>,
        sched: Scheduler,
        me: &Weak<Superblock>,
    ) -> Superblock {
        let quotas = Quotas::new(&options);
        let mem_usage = MemUsage::new(options.budget, applied.is_some());
        let tenants = sched.handle();
        let weight = move |tenant| match tenants.known_tenant(tenant) {
            Some(tenant) => tenants.weight(tenant),
            None => DEFAULT_WEIGHT,
        };
        let inodes = match options.budget {
            1..HUGE_PAGES => Table::sparse(ROOT + 1),
            _ => Table::new(ROOT + 1),
        };
        let bounds = LogBounds::of(options.budget);
        let log = |applied| Arc::new(ChangeLog::new(applied, bounds, Box::new(weight)));
        let log = applied.map(log);
        Superblock {
            me: me.clone(),
            options: Options::new(&options),
            quotas,
            cache: CacheState::new(mem_usage),
            names: Namespace::new(),
            file_locks: FileLocking::new(options.lock_ranges),
            stats: Stats::new(),
            heat: Tracker::new(options.hot_track),
            maintenance: Maintenance::new(),
            observers: Observers::new(),
            front: Front::new(),
            watched_names: Arc::new(NameRing::new()),
            control: ControlSlot::new(),
            handles: HandleShares::new(),
            process: std::process::id(),
            projects: Projects::none(),
            settings_order: RawLock::new(),
            objects: Objects {
                inodes,
                backend: options.backend,
                log,
                clock: VolumeClock::new(options.clock),
                foreign: OnceLock::new(),
            },
            sched,
        }
    }

    /// Takes another handle. Returns `None` while the last one is being dropped.
    pub fn handle(&self) -> Option<Handle<Superblock>> {
        Some(Handle::new(&self.me.upgrade()?))
    }

    pub fn now(&self) -> Time {
        self.objects.clock.now()
    }

    /// The inode with number `ino`, which a front end refers to by that number.
    pub fn inode<'g>(&self, ino: u64, g: &'g Guard) -> Attempt<&'g Inode> {
        match self.objects.inodes.get(ino, g) {
            Some(inode) => Ok(inode),
            None if self.is_durable() => Err(Stop::miss(Fetch::Inode(ino))),
            None => Err(Stop::Errno(Errno::ESTALE)),
        }
    }

    /// The inode of an entry of `parent` that was found under `g`. The inode may have lost its last
    /// name and be gone since. Then the entry is gone as well, and the lookup restarts.
    // Always inlined: it is a part of every step of a walk.
    #[inline(always)]
    pub fn entry_inode<'g>(
        &self,
        parent: &Inode,
        entry: &Entry,
        g: &'g Guard,
    ) -> Attempt<&'g Inode> {
        match self.objects.inodes.get(entry.ino(), g) {
            Some(inode) if inode.generation() == entry.generation() => Ok(inode),
            None if self.is_durable() => Err(Stop::miss(named(parent, entry))),
            _ => Err(Stop::Restart),
        }
    }

    /// Makes an inode and charges its owners, whose account is added to `fields`. The number of
    /// names is in `fields`; `hint` is an account that may be theirs.
    // Always inlined: the attributes of a new inode are then written once, to where they stay.
    #[inline(always)]
    pub fn make_inode(
        &self,
        (kind, mut fields): (Kind, Fields),
        body: impl FnOnce() -> Body,
        extra: Option<Box<XattrsAcls>>,
        hint: u32,
        g: &Guard,
    ) -> Result<InodeRef> {
        let owners = fields.owners();
        let one = (Resource::Inodes, 1);
        let mut inode_charge = self.quotas.ledger.charge_new(hint, owners, one, g)?;
        fields.account = inode_charge.account();
        // In a box: few inodes have it, and what is not there would be moved as well.
        let extra = match extra {
            Some(extra) => Some(self.charge_extra(fields.account, extra, g)?),
            None => None,
        };
        let mut spent = None;
        let inode = self.objects.inodes.insert_prepared(
            move |number, generation| InodeInner::new((number, generation), kind, &fields, body()),
            |inode| spent = extra.map(|extra| extra.give_to(inode, g)),
            g,
        );
        inode_charge.spend(1);
        if let Some(charged) = spent {
            charged.spend();
        }
        if self.is_durable() {
            // Nobody else knows it yet.
            self.cache.mem_usage.add(inode_bytes(&inode, g));
        }
        Ok(inode)
    }

    /// Counts in the memory budget what a table of names has grown by.
    pub fn recount(&self, directory: &Directory, g: &Guard) {
        self.cache.mem_usage.add(directory.recount(g));
    }

    /// The account that pays for `inode`; none for a control file. The caller holds `change` or
    /// `growth`, or is inside the gate and holds the inode.
    pub fn payer(&self, inode: &Inode) -> Attempt<Option<u32>> {
        match inode.meta.account() {
            _ if is_control(inode.number()) => Ok(None),
            // The inode has ended since it was found.
            NO_ACCOUNT => Err(Stop::Restart),
            account => Ok(Some(account)),
        }
    }
}

/// The key by which an entry's inode is fetched.
#[cold]
fn named(parent: &Inode, entry: &Entry) -> Fetch {
    Fetch::Named {
        dir: parent.number(),
        name: entry.name().into(),
        ino: entry.ino(),
        generation: entry.generation(),
    }
}

/// The scheduler of a volume with these options.
pub(crate) fn scheduler(options: &BuildOptions) -> std::result::Result<Scheduler, SchedError> {
    // Without workers, one run queue is kept from the front ends, for tasks that have no run queue
    // of their own.
    let spare = usize::from(options.workers == 0 && options.seats < MOST_WORKERS);
    let builder = Scheduler::builder().workers(options.workers);
    builder.external_workers(options.seats + spare).start()
}

impl Drop for Superblock {
    fn drop(&mut self) {
        // Nobody is left who could be told of an error. A panic has told already.
        if !hearth_sync::primitive::thread::panicking() {
            let _ = self.close();
        }
        // These references point into the inode table and go first.
        self.cache.unpin();
    }
}
