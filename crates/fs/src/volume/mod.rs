//! A volume: inode table, root, home, room, settings and statistics, and how operations run on it.
//!
//! An operation is a function of a [`Ctx`] and an epoch guard. When something that it needs is not in memory it
//! answers [`Stop::Load`]; [`Core::run`] lets go of the guard, loads it and runs the operation again. An operation
//! therefore changes nothing before it has everything.
//!
//! Lock order of a volume:
//! ```text
//! rename                     renames of directories across directories
//!   directory.grow, buckets  (see `directory`)
//!     inode.change           (see `inode`)
//! ```

mod load;
mod reclaim;
mod settings;
mod space;

pub(crate) use load::record_of;
pub use settings::{AtimeMode, OnError, VolumeBuilder};
pub(crate) use space::Pool;

use crate::attr::{Kind, Time};
use crate::caller::{Caller, Credentials, Origin};
use crate::clock::Clock;
use crate::data::Data;
use crate::directory::{Directory, Entry};
use crate::errno::{Errno, Result};
use crate::home::Home;
use crate::inode::{Body, Fields, Inode, Node, NodeExt, NodeRef};
use crate::locks::WaitGraph;
use crate::name::NameHash;
use crate::observer::{Note, Observer};
use crate::stats::{Event, Stats};
use ahash::RandomState;
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::lock::{Class, Lock};
use hearth_sync::object::Table;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use hearth_sync::primitive::{Arc, Mutex, RawLock};
use hearth_sync::rcu::RcuCell;
use hearth_sync::seq::SeqCount;
use hearth_sync::spread::Counter;
use std::cell::RefCell;

/// Number of the root directory.
pub const ROOT: u64 = 1;

/// Longest size of a file in bytes.
pub(crate) const MAX_SIZE: u64 = i64::MAX as u64;

/// A filesystem. Cheap to clone; all clones are the same volume.
///
/// ```
/// let volume = hearth::Volume::memory();
/// let process = volume.process(hearth::Credentials::root());
/// process.mkdir("/etc", 0o755)?;
/// let fd = process.open("/etc/motd", libc::O_CREAT | libc::O_RDWR, 0o644)?;
/// process.write(fd, b"warm\n")?;
/// assert_eq!(process.stat("/etc/motd")?.size, 5);
/// # Ok::<(), hearth::Errno>(())
/// ```
#[derive(Clone)]
pub struct Volume {
    pub(crate) core: Arc<Core>,
}

/// The one volume behind its handles.
pub(crate) struct Core {
    /// Inodes in memory by number.
    pub inodes: Table<Inode>,
    pub home: Box<dyn Home>,
    pub clock: Box<dyn Clock>,
    /// Keys of the name hash; immutable.
    keys: RandomState,
    /// Pages and inodes that may be used.
    pub pages: Pool,
    pub inode_room: Pool,
    /// Bytes in memory that reclaim could win back, for homes that give them back.
    pub resident: Counter,
    /// Bytes; 0 is no budget. A tunable of its own (Relaxed).
    pub budget: AtomicU64,
    /// Held while an inode goes to the home or comes back, by number.
    homing: [RawLock; 16],
    /// Where the sweep of reclaim goes on.
    sweep: AtomicU64,
    /// See [`Core::atime`].
    atime: AtomicU8,
    errors: OnError,
    read_only: AtomicBool,
    pub owner: (u32, u32),
    /// Renames of directories across directories.
    pub rename: Lock<RenameLock, ()>,
    /// Counts the renames that move a directory, so that a walk notices one. Written under `rename` and `moving`.
    pub moves: SeqCount,
    pub waits: WaitGraph,
    pub stats: Stats,
    observers: RcuCell<Vec<Arc<dyn Observer>>>,
    /// Serialises writers of `observers`.
    observing: RawLock,
    /// Keeps the root and the control files in memory for ever.
    kept: Mutex<Vec<NodeRef>>,
}

pub(crate) struct RenameLock;
impl Class for RenameLock {
    const NAME: &'static str = "volume.rename";
    const RANK: u32 = 10;
}

/// Why an operation did not finish.
#[derive(Debug)]
pub(crate) enum Stop {
    Errno(Errno),
    /// Something must be brought from the home first.
    Load(Load),
    /// Lost a race; from the start.
    Again,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Errno(errno)
    }
}

/// Result of a step that may need something from the home.
pub(crate) type Step<T> = std::result::Result<T, Stop>;

/// What to bring from the home.
#[derive(Debug)]
pub(crate) enum Load {
    Inode(u64),
    Entry { dir: u64, name: Box<[u8]> },
    Directory(u64),
    Page { ino: u64, index: u64 },
}

/// One request on its way.
pub(crate) struct Ctx<'a> {
    pub core: &'a Core,
    pub caller: &'a Caller<'a>,
    notes: RefCell<Vec<Note>>,
    observed: bool,
}

impl Volume {
    /// A volume in memory with the default settings.
    pub fn memory() -> Volume {
        Volume::builder().build().expect("the defaults are a valid volume")
    }

    /// Settings of a new volume.
    pub fn builder() -> VolumeBuilder {
        VolumeBuilder::default()
    }

    pub(super) fn from_settings(settings: VolumeBuilder) -> Result<Volume> {
        let core = Core {
            inodes: Table::new(ROOT + 1),
            pages: Pool::new(settings.size / crate::data::PAGE),
            inode_room: Pool::new(settings.inodes),
            resident: Counter::new(),
            budget: AtomicU64::new(settings.budget),
            homing: [const { RawLock::new() }; 16],
            sweep: AtomicU64::new(0),
            home: settings.home,
            clock: settings.clock,
            keys: RandomState::new(),
            atime: AtomicU8::new(settings.atime as u8),
            errors: settings.errors,
            read_only: AtomicBool::new(settings.read_only),
            owner: settings.owner,
            rename: Lock::new(()),
            moves: SeqCount::new(),
            waits: WaitGraph::new(),
            stats: Stats::new(),
            observers: RcuCell::new(Vec::new()),
            observing: RawLock::new(),
            kept: Mutex::new(Vec::new()),
        };
        core.make_root(settings.mode)?;
        crate::control::build(&core)?;
        Ok(Volume { core: Arc::new(core) })
    }

    /// A process on this volume: working directory and root are `/`, umask 022.
    pub fn process(&self, credentials: Credentials) -> crate::Process {
        crate::Process::new(self.clone(), credentials)
    }

    /// The inode-level door, for front ends such as FUSE.
    pub fn door(&self) -> crate::Door {
        crate::Door::new(self.clone())
    }

    /// Whether changes are refused with `EROFS`.
    pub fn read_only(&self) -> bool {
        self.core.is_read_only()
    }

    /// Refuses or allows changes from now on.
    pub fn set_read_only(&self, read_only: bool) {
        self.core.set_read_only(read_only);
    }

    /// Statistics.
    pub fn stats(&self) -> &Stats {
        &self.core.stats
    }

    /// Tells the volume of a panic that a front end caught; obeys [`VolumeBuilder::errors`].
    pub fn record_panic(&self, what: &str) {
        self.core.stats.event(Event::Panic);
        match self.core.errors {
            OnError::RemountRo => self.set_read_only(true),
            OnError::Continue => {}
            OnError::Panic => {
                eprintln!("hearth: {what}; errors=panic, aborting");
                std::process::abort();
            }
        }
    }

    /// Tells `observer` of every change made through the library from now on.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        let _one = self.core.observing.lock_guard();
        let g = pin();
        let mut observers = self.core.observers.load(&g).clone();
        observers.push(observer);
        self.core.observers.replace(observers, &g);
    }

    /// Forgets an observer.
    pub fn unobserve(&self, observer: &Arc<dyn Observer>) {
        let _one = self.core.observing.lock_guard();
        let g = pin();
        let mut observers = self.core.observers.load(&g).clone();
        observers.retain(|o| !Arc::ptr_eq(o, observer));
        self.core.observers.replace(observers, &g);
    }

    /// Writes everything back and returns when it is durable.
    ///
    /// # Errors
    /// What the home answers.
    pub fn sync(&self) -> Result<()> {
        self.core.write_back_all()?;
        self.core.home.sync()
    }

    /// Drops objects that the home can give back until about `bytes` are free or nothing more can be dropped;
    /// answers the bytes won.
    pub fn reclaim(&self, bytes: u64) -> u64 {
        self.core.reclaim(bytes)
    }

    /// Number of inodes in memory.
    pub fn inodes_in_memory(&self) -> usize {
        self.core.inodes.len()
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("read_only", &self.read_only()).finish_non_exhaustive()
    }
}

impl Core {
    /// Runs an operation until it finishes, loading what it lacks, and tells observers what it changed.
    pub fn run<T>(
        &self,
        caller: &Caller<'_>,
        mut operation: impl FnMut(&Ctx<'_>, &Guard) -> Step<T>,
    ) -> Result<T> {
        self.keep_budget();
        let mut guard = pin();
        let observed =
            caller.origin == Origin::Library && !self.observers.load(&guard).is_empty();
        let cx = Ctx { core: self, caller, notes: RefCell::new(Vec::new()), observed };
        let result = loop {
            match operation(&cx, &guard) {
                Ok(value) => break Ok(value),
                Err(Stop::Errno(errno)) => break Err(errno),
                Err(Stop::Again) => {
                    drop(guard);
                    hearth_sync::primitive::thread::yield_now();
                }
                Err(Stop::Load(load)) => {
                    drop(guard);
                    if let Err(errno) = self.load(&load) {
                        return Err(errno);
                    }
                }
            }
            guard = pin();
        };
        if observed {
            self.tell(&cx.notes.take(), guard);
        }
        result
    }

    #[cold]
    fn tell(&self, notes: &[Note], guard: Guard) {
        let observers = self.observers.load(&guard).clone();
        drop(guard);
        for note in notes {
            observers.iter().for_each(|observer| note.tell(&**observer));
        }
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
        if self.is_read_only() { Err(Errno::EROFS) } else { Ok(()) }
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

    pub fn hash(&self, name: &[u8]) -> NameHash {
        NameHash::of(&self.keys, name)
    }

    /// The inode `ino`, which somebody refers to by number.
    pub fn node<'g>(&self, ino: u64, g: &'g Guard) -> Step<&'g Node> {
        match self.inodes.get(ino, g) {
            Some(node) => Ok(node),
            None if self.home.evictable() => Err(Stop::Load(Load::Inode(ino))),
            None => Err(Stop::Errno(Errno::ESTALE)),
        }
    }

    /// The inode that an entry found under `g` means. It may have lost its last name and be gone since; then the
    /// entry is gone as well and the lookup is to be made again.
    pub fn entry_node<'g>(&self, entry: &Entry, g: &'g Guard) -> Step<&'g Node> {
        match self.inodes.get(entry.ino(), g) {
            Some(node) if node.generation() == entry.generation() => Ok(node),
            None if self.home.evictable() => Err(Stop::Load(Load::Inode(entry.ino()))),
            _ => Err(Stop::Again),
        }
    }

    /// A new inode; the number of names is in `fields`. It takes room for one inode.
    pub fn make_node(&self, kind: Kind, fields: &Fields, body: Body) -> Result<NodeRef> {
        let mut room = self.inode_room.reserve(1).ok_or(Errno::ENOSPC)?;
        let node = self.inodes.insert(|_, _| Inode::new(kind, fields, body));
        room.spend(1);
        self.resident.add(INODE_BYTES);
        Ok(node)
    }

    /// Gives a reference back, and the inode with it if that was the last one of a file without a name.
    pub fn release(&self, node: NodeRef, g: &Guard) {
        let number = node.number();
        drop(node);
        if let Some(node) = self.inodes.get(number, g) {
            self.reap(node, g);
        }
    }

    /// Frees an inode that has neither name nor reference.
    pub fn reap(&self, node: &Node, g: &Guard) {
        // Who takes the last name stores the link count and then looks for references; who gives the last reference
        // back subtracts it and then looks at the link count. SeqCst: partner is this fence in the other thread; of
        // the two, at least one sees what the other did before it.
        fence(Ordering::SeqCst);
        if node.meta.nlink() > 0 || !self.inodes.retire(node, g) {
            return;
        }
        let pages = if node.data().is_some() { node.pages() } else { 0 };
        self.pages.free(pages);
        self.inode_room.free(1);
        self.resident.add(-INODE_BYTES);
        if self.home.evictable() {
            self.resident.add(-(node.data().map_or(0, |d| d.resident(g)) as i64 * PAGE_BYTES));
            // The inode has no name, so a home that fails here keeps an orphan that fsck finds; nobody can be told.
            let _ = self.home.commit(&[crate::home::Change::Drop(node.number())]);
        }
    }

    pub(super) fn homing(&self, ino: u64) -> &RawLock {
        &self.homing[ino as usize % self.homing.len()]
    }

    pub fn keep_forever(&self, node: NodeRef) {
        self.kept.lock().push(node);
    }

    fn make_root(&self, mode: u16) -> Result<()> {
        let now = self.now();
        let mut fields = Fields::new(mode, self.owner.0, self.owner.1, now);
        fields.nlink = 2;
        let _room = self.inode_room.reserve(1).map(|mut room| room.spend(1));
        let evictable = self.home.evictable();
        let root = match self.home.load_inode(ROOT)? {
            Some(record) => self.inodes.insert_at(ROOT, 0, |_, _| load::inode_of(&record)),
            None => self.inodes.insert_at(ROOT, 0, |_, _| {
                let body = Body::Directory(Box::new(Directory::new(ROOT, true)));
                Inode::new(Kind::Directory, &fields, body)
            }),
        };
        let root = root.map_err(|_| Errno::EEXIST)?;
        if evictable {
            let g = pin();
            self.home.commit(&[crate::home::Change::Put(&load::record_of(&root, &g))])?;
        }
        self.keep_forever(root);
        Ok(())
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // These references point into the table and go first.
        self.kept.lock().clear();
    }
}

impl Ctx<'_> {
    /// Remembers that `name` in `parent` changed.
    pub fn entry_changed(&self, parent: &Node, name: &[u8]) {
        if self.observed {
            let mut notes = self.notes.borrow_mut();
            notes.push(Note::Entry(parent.number(), name.into()));
            notes.push(Note::Node(parent.number(), None));
        }
    }

    /// Remembers that attributes, and contents in `data`, changed.
    pub fn node_changed(&self, node: &Node, data: Option<std::ops::Range<u64>>) {
        if self.observed {
            self.notes.borrow_mut().push(Note::Node(node.number(), data));
        }
    }

    /// Keeps `node` in memory while it is changed. Costs nothing where nothing is ever evicted.
    pub fn keep<'c>(&'c self, node: &Node, g: &'c Guard) -> Step<Kept<'c>> {
        if !self.core.home.evictable() {
            return Ok(Kept { core: self.core, g, node: None });
        }
        let held = node.hold().ok_or(Stop::Again)?;
        Ok(Kept { core: self.core, g, node: Some(held) })
    }
}

/// An inode that stays in memory until this is dropped.
pub(crate) struct Kept<'c> {
    core: &'c Core,
    g: &'c Guard,
    node: Option<NodeRef>,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            self.core.release(node, self.g);
        }
    }
}

/// An empty file's contents, which are all known.
pub(crate) fn empty_file() -> Body {
    Body::File(Data::new(true))
}

/// What an inode counts for in the memory budget.
pub(crate) const INODE_BYTES: i64 = 256;
/// What a page counts for in the memory budget.
pub(crate) const PAGE_BYTES: i64 = 4160;
