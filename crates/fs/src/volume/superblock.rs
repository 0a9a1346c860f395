//! The one volume behind its handles, and what operations ask of it.

use super::Volume;
use super::background::Background;
use super::handle::{Handle, Shared, Shares};
use super::mem_usage::MemUsage;
use super::settings::{AtimeMode, OnError, Protection, Settings};
use super::stop::{Attempt, Fetch, Stop};
use crate::attr::{Kind, Time};
use crate::backend::Backend;
use crate::clock::Clock;
use crate::directory::Entry;
use crate::errno::{Errno, Result};
use crate::heat::Tracker;
use crate::inode::{Body, Extra, Fields, Inode, InodeInner, InodeRef};
use crate::line::OwnLine;
use crate::locks::{LockAllowance, WaitGraph};
use crate::name::NameHash;
use crate::number::{ROOT, is_control};
use crate::observer::Observer;
use crate::quota::{Ledger, NO_ACCOUNT, Reservations, Resource, Tuning};
use crate::quotactl::{EnteringLock, SettingLock};
use crate::stats::Stats;
use crate::tenant::TenantId;
use ahash::RandomState;
use hearth_sched::{MOST_WORKERS, SchedError, Scheduler};
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::lock::{Class, Lock, RawLock};
use hearth_sync::lock_class;
use hearth_sync::object::Table;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use hearth_sync::primitive::{Arc, Weak, cores};
use hearth_sync::rcu::RcuCell;
use hearth_sync::spread::Counter;
use std::collections::HashMap;

/// The one volume behind its handles. Begins a cache line, so that the count of the handles before
/// it is on another than what every operation reads.
#[repr(align(64))]
pub(crate) struct Superblock {
    me: Weak<Superblock>,
    /// Inodes in memory by number.
    pub inodes: Table<InodeInner>,
    pub backend: Box<dyn Backend>,
    pub clock: Arc<dyn Clock>,
    /// Keys of the name hash; immutable.
    pub(super) keys: RandomState,
    /// Who uses how many blocks and inodes, and may use more.
    pub ledger: Ledger,
    /// Blocks set aside for pages that a kernel has in its cache.
    pub promises: Reservations,
    /// Inodes without a name that somebody refers to: room that is to come back.
    pub(super) unlinked: Counter,
    /// Bytes in memory, and the budget for them.
    pub mem_usage: MemUsage,
    /// Held while an inode goes to the backend or comes back, by number.
    pub(super) inode_io_lock: [RawLock<InodeIoLock>; 16],
    /// Inodes that have ended and that the backend has not forgotten, with their generations: nobody
    /// brings them back. Written under `inode_io_lock` of the number.
    pub(super) orphans: Lock<OrphansLock, HashMap<u64, u32>>,
    /// Where the sweep of reclaim goes on.
    pub(super) sweep: AtomicU64,
    /// See [`Superblock::atime`].
    atime: AtomicU8,
    pub(super) errors: OnError,
    pub(super) read_only: AtomicBool,
    pub owner: (u32, u32),
    /// Renames of directories across directories.
    pub rename: OwnLine<Lock<RenameLock, ()>>,
    pub waits: WaitGraph,
    pub lock_allowance: LockAllowance,
    /// Names that a file may have; immutable.
    pub links_max: u32,
    /// Immutable.
    pub protection: Protection,
    pub stats: Stats,
    pub heat: Tracker,
    pub(super) background: Background,
    /// One change of quota settings at a time.
    pub setting: RawLock<SettingLock>,
    /// One tree becomes a project at a time.
    pub entering: RawLock<EnteringLock>,
    pub(super) observers: RcuCell<Vec<Arc<dyn Observer>>>,
    /// Serialises writers of `observers`.
    pub(super) observing: RawLock<ObservingLock>,
    shares: Shares<Superblock>,
    /// Keeps the root and the control files in memory for ever.
    kept: Lock<KeptLock, Vec<InodeRef>>,
    /// Whether an inode was ever given a project. Read by every request.
    has_projects: AtomicBool,
    /// Runs the background, and what front ends park.
    pub sched: Scheduler,
}

pub(crate) struct RenameLock;
impl Class for RenameLock {
    const NAME: &'static str = "volume.rename";
    const RANK: u32 = 10;
}

lock_class! {
    pub(super) InodeIoLock = "volume.inode_io_lock", 20;
    pub(super) ObservingLock = "volume.observing", 15;
    KeptLock = "volume.kept", 970;
    pub(super) OrphansLock = "volume.orphans", 971;
}

impl Shared for Superblock {
    fn shares(&self) -> &Shares<Superblock> {
        &self.shares
    }
}

impl Superblock {
    /// A volume with nothing in it, not even a root.
    pub(super) fn empty(settings: Settings, sched: Scheduler, me: &Weak<Superblock>) -> Superblock {
        let room = (settings.bytes() / crate::data::PAGE, settings.inodes);
        let clock = Arc::clone(&settings.clock);
        let ledger = Ledger::new(Tuning::of(cores()), room, settings.quotas, move || {
            clock.now().sec
        });
        // Who was given a size is refused at the write what is beyond it.
        if settings.charge_first || settings.size.is_some() {
            ledger.charge_first(&pin());
        }
        Superblock {
            me: me.clone(),
            inodes: Table::new(ROOT + 1),
            ledger,
            promises: Reservations::new(),
            unlinked: Counter::new(),
            mem_usage: MemUsage::new(settings.budget, settings.backend.evictable()),
            inode_io_lock: [const { RawLock::new() }; 16],
            orphans: Lock::new(HashMap::new()),
            sweep: AtomicU64::new(0),
            backend: settings.backend,
            clock: settings.clock,
            keys: keys(),
            atime: AtomicU8::new(settings.atime as u8),
            errors: settings.errors,
            read_only: AtomicBool::new(settings.read_only),
            owner: settings.owner,
            rename: OwnLine(Lock::new(())),
            waits: WaitGraph::new(),
            lock_allowance: LockAllowance::new(settings.lock_ranges),
            links_max: settings.links_max,
            protection: settings.protection,
            stats: Stats::new(),
            heat: Tracker::new(settings.hot_track),
            background: Background::new(),
            setting: RawLock::new(),
            entering: RawLock::new(),
            observers: RcuCell::new(Vec::new()),
            observing: RawLock::new(),
            shares: Shares::new(),
            kept: Lock::new(Vec::new()),
            has_projects: AtomicBool::new(false),
            sched,
        }
    }

    /// Who observes the volume now.
    pub fn observers(&self) -> Vec<Arc<dyn Observer>> {
        self.observers.load(&pin()).clone()
    }

    /// Another handle of the volume; `None` when the last is going.
    pub(super) fn handle(&self) -> Option<Volume> {
        let sb = self.me.upgrade()?;
        Some(Volume {
            sb: Handle::new(&sb),
        })
    }

    pub fn is_read_only(&self) -> bool {
        // Relaxed: see `set_read_only`.
        self.read_only.load(Ordering::Relaxed)
    }

    pub fn set_read_only(&self, read_only: bool) {
        // Relaxed: a flag of its own; an operation already past its check may still finish.
        self.read_only.store(read_only, Ordering::Relaxed);
    }

    /// `EROFS` where changes are refused.
    pub fn check_writable(&self) -> Result<()> {
        if self.is_read_only() {
            Err(Errno::EROFS)
        } else {
            Ok(())
        }
    }

    /// When reads move the access time.
    pub fn atime(&self) -> AtimeMode {
        // Relaxed: a tunable of its own.
        match self.atime.load(Ordering::Relaxed) {
            a if a == AtimeMode::Strict as u8 => AtimeMode::Strict,
            a if a == AtimeMode::No as u8 => AtimeMode::No,
            _ => AtimeMode::Relatime,
        }
    }

    pub fn set_atime(&self, mode: AtimeMode) {
        // Relaxed: as `atime`.
        self.atime.store(mode as u8, Ordering::Relaxed);
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// An inode is in a project, or is about to be.
    pub fn note_project(&self, project: u32) {
        // Relaxed: in force soon. Stored once, so that the line stays with its readers.
        if project != 0 && !self.has_projects.load(Ordering::Relaxed) {
            self.has_projects.store(true, Ordering::Relaxed);
        }
    }

    /// Whose a request is that names the inode `ino`, when `uid` asks: the inode's project's, else
    /// the user's.
    #[inline]
    pub fn tenant_of(&self, ino: u64, uid: u32) -> TenantId {
        // Relaxed: as `note_project`.
        match self.has_projects.load(Ordering::Relaxed) {
            true => self.project_of(ino).unwrap_or(TenantId::User(uid)),
            false => TenantId::User(uid),
        }
    }

    fn project_of(&self, ino: u64) -> Option<TenantId> {
        let g = pin();
        let project = self.inodes.get(ino, &g)?.meta.project();
        (project != 0).then_some(TenantId::Project(project))
    }

    pub fn hash(&self, name: &[u8]) -> NameHash {
        NameHash::of(&self.keys, name)
    }

    /// The inode `ino`, which somebody refers to by number.
    pub fn inode<'g>(&self, ino: u64, g: &'g Guard) -> Attempt<&'g Inode> {
        match self.inodes.get(ino, g) {
            Some(inode) => Ok(inode),
            None if self.backend.evictable() => Err(Stop::Miss(Fetch::Inode(ino))),
            None => Err(Stop::Errno(Errno::ESTALE)),
        }
    }

    /// The inode that an entry of `parent` found under `g` means. It may have lost its last name
    /// and be gone since; then the entry is gone as well and the lookup is to be made again.
    pub fn entry_inode<'g>(
        &self,
        parent: &Inode,
        entry: &Entry,
        g: &'g Guard,
    ) -> Attempt<&'g Inode> {
        match self.inodes.get(entry.ino(), g) {
            Some(inode) if inode.generation() == entry.generation() => Ok(inode),
            None if self.backend.evictable() => Err(Stop::Miss(named(parent, entry))),
            _ => Err(Stop::Restart),
        }
    }

    /// A new inode; the number of names is in `fields`. Its owners are charged; `hint` is an
    /// account that may be theirs.
    pub fn make_inode(
        &self,
        (kind, mut fields): (Kind, Fields),
        body: Body,
        extra: Option<Extra>,
        hint: u32,
        g: &Guard,
    ) -> Result<InodeRef> {
        let owners = fields.owners();
        let one = (Resource::Inodes, 1);
        let mut inode_room = self.ledger.charge_new(hint, owners, one, g)?;
        fields.account = inode_room.account();
        let blocks = extra.as_ref().map_or(0, Extra::blocks);
        let mut room = self
            .ledger
            .charge(fields.account, Resource::Blocks, blocks, g)?;
        let inode = self.inodes.insert(|number, generation| {
            let inode = InodeInner::new((number, generation), kind, &fields, body);
            if let Some(extra) = extra {
                inode.set_extra_blocks(blocks);
                inode.set_extra(extra, |_| {}, g);
            }
            inode
        });
        inode_room.spend(1);
        room.spend(blocks);
        self.mem_usage.add(INODE_BYTES);
        Ok(inode)
    }

    /// The account that pays for `inode`; none for a control file. The caller holds `change` or
    /// `growth`, or is inside the gate and holds the inode.
    pub fn payer(&self, inode: &Inode) -> Attempt<Option<u32>> {
        match inode.meta.account() {
            _ if is_control(inode.number()) => Ok(None),
            // It has ended since it was found.
            NO_ACCOUNT => Err(Stop::Restart),
            account => Ok(Some(account)),
        }
    }

    pub(super) fn inode_io_lock(&self, ino: u64) -> &RawLock<InodeIoLock> {
        &self.inode_io_lock[ino as usize % self.inode_io_lock.len()]
    }

    pub fn pin_forever(&self, inode: InodeRef) {
        self.kept.lock().push(inode);
    }
}

/// What to bring for an entry.
#[cold]
fn named(parent: &Inode, entry: &Entry) -> Fetch {
    Fetch::Named {
        dir: parent.number(),
        name: entry.name().into(),
        ino: entry.ino(),
        generation: entry.generation(),
    }
}

pub(super) fn scheduler(settings: &Settings) -> std::result::Result<Scheduler, SchedError> {
    // Without workers, what has no place of its own needs one that no front end takes.
    let spare = usize::from(settings.workers == 0 && settings.seats < MOST_WORKERS);
    let builder = Scheduler::builder().workers(settings.workers);
    builder.seats(settings.seats + spare).start()
}

/// Keys of the hashes of names: nobody outside can choose names that meet.
fn keys() -> RandomState {
    if cfg!(feature = "shuttle") {
        // A schedule that failed is to fail again.
        return RandomState::with_seeds(1, 2, 3, 4);
    }
    RandomState::new()
}

impl Drop for Superblock {
    fn drop(&mut self) {
        // These references point into the table and go first.
        self.kept.lock().clear();
    }
}

/// What an inode counts for in the memory budget.
pub(crate) const INODE_BYTES: i64 = 256;
/// What a page counts for in the memory budget.
pub(crate) const PAGE_BYTES: i64 = 4160;
