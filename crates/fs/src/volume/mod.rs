//! A volume: inode table, root, backend, room, settings and statistics, and how operations run on it.
//!
//! An operation is a function of a [`Ctx`] and an epoch guard. When something that it needs is not
//! in memory it answers [`Stop::Miss`]; [`Superblock::run`] lets go of the guard, loads it and runs the
//! operation again. An operation therefore changes nothing before it has everything.
//!
//! Lock order of a volume:
//! ```text
//! rename                     renames of directories across directories
//!   directory.grow, buckets  (see `directory`)
//!     inode.change, .growth  (see `inode`)
//! ```

mod absent;
mod background;
mod ending;
mod error;
mod handle;
mod load;
mod mem_usage;
mod pace;
mod reclaim;
mod request;
mod root;
mod run;
mod settings;
mod stop;
mod superblock;

pub use absent::{Absent, may_wait, without_waiting};
pub use error::BuildError;
pub(crate) use load::record_of;
pub(crate) use pace::Stroll;
pub(crate) use request::Ctx;
pub(crate) use run::Run;
pub(crate) use settings::Settings;
pub use settings::{AtimeMode, OnError, Protection};
pub(crate) use stop::{Attempt, Fetch, Stop};
use superblock::scheduler;
pub(crate) use superblock::{PAGE_BYTES, RenameLock, Superblock};

use crate::errno::Result;
use crate::observer::Observer;
use crate::profile::{LockProfile, LockSampling};
use crate::stats::{Event, Stats};
use crate::tenant::TenantId;
use handle::Handle;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::Arc;
use std::io::{Write, stderr};

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
    pub(crate) sb: Handle<Superblock>,
}

impl Volume {
    /// A volume with a root directory and nothing else.
    pub(crate) fn new(settings: Settings) -> std::result::Result<Volume, BuildError> {
        let (mode, background) = (settings.mode, settings.workers > 0);
        let sched = scheduler(&settings).map_err(BuildError::Scheduler)?;
        let sb = Arc::new_cyclic(|me| Superblock::empty(settings, sched, me));
        sb.make_root(mode).map_err(BuildError::Backend)?;
        let volume = Volume {
            sb: Handle::new(&sb),
        };
        if background {
            volume.start_background();
        }
        Ok(volume)
    }

    /// Whether changes are refused with `EROFS`.
    pub fn read_only(&self) -> bool {
        self.sb.is_read_only()
    }

    /// Refuses or allows changes from now on.
    pub fn set_read_only(&self, read_only: bool) {
        self.sb.set_read_only(read_only);
    }

    /// Which locks threads wait for, who holds them, and for how long. It is the profile of the
    /// process: volumes that share one share it.
    pub fn lock_profile(&self) -> LockProfile {
        LockProfile::now()
    }

    /// Begins a lock profile; nothing happens if one is on that draws the same way. False if this
    /// build has none.
    pub fn start_lock_profile(&self, draw: LockSampling) -> bool {
        hearth_sync::profile::start(draw)
    }

    /// Ends the lock profile; what was recorded stays until the next start or reset.
    pub fn stop_lock_profile(&self) {
        hearth_sync::profile::stop();
    }

    /// Forgets what was recorded; a profile that is on begins again.
    pub fn reset_lock_profile(&self) {
        hearth_sync::profile::reset();
    }

    /// The volume's scheduler: it runs the background work, and what front ends spawn on it. Its
    /// tenants have the numbers of [`TenantId::number`].
    pub fn scheduler(&self) -> hearth_sched::Handle {
        self.sb.sched.handle()
    }

    /// Whose a request is that names the inode `ino`, when `uid` asks.
    pub fn tenant_of(&self, ino: u64, uid: u32) -> TenantId {
        self.sb.tenant_of(ino, uid)
    }

    /// Whose a request is that names the inode `ino` and that nobody asks for, such as the writing
    /// back of a page: the project's, else the owner's.
    pub fn tenant_behind(&self, ino: u64) -> TenantId {
        let g = pin();
        let uid = self
            .sb
            .inodes
            .get(ino, &g)
            .map_or(0, |inode| inode.meta.uid());
        self.sb.tenant_of(ino, uid)
    }

    /// Statistics.
    pub fn stats(&self) -> &Stats {
        &self.sb.stats
    }

    /// Tells the volume of a panic that a front end caught; obeys [`crate::VolumeBuilder::errors`].
    pub fn record_panic(&self, what: &str) {
        self.sb.record_panic(what);
    }

    /// Tells `observer` of every change made through the library from now on.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        let _one = self.sb.observing.lock_guard();
        let g = pin();
        let mut observers = self.sb.observers.load(&g).clone();
        observers.push(observer);
        self.sb.observers.replace(observers, &g);
    }

    /// Forgets an observer.
    pub fn unobserve(&self, observer: &Arc<dyn Observer>) {
        let _one = self.sb.observing.lock_guard();
        let g = pin();
        let mut observers = self.sb.observers.load(&g).clone();
        observers.retain(|o| !Arc::ptr_eq(o, observer));
        self.sb.observers.replace(observers, &g);
    }

    /// Whether room is taken by what a kernel in front may have given up without the volume having
    /// heard of it: files without a name that it refers to, and promises. It closes files and
    /// forgets inodes by messages that nobody waits for.
    pub fn awaits_returns(&self) -> bool {
        self.sb.unlinked.sum() > 0 || self.sb.promises.any()
    }

    /// Whether anybody observes the volume.
    pub fn is_observed(&self) -> bool {
        !self.sb.observers.load(&pin()).is_empty()
    }

    /// Writes everything back and returns when it is durable.
    ///
    /// # Errors
    /// What the backend answers.
    pub fn sync(&self) -> Result<()> {
        self.sb.write_back_all()?;
        self.sb.backend.sync()
    }

    /// Drops objects that the backend can give back until about `bytes` are free or nothing more can
    /// be dropped; answers the bytes won.
    pub fn reclaim(&self, bytes: u64) -> u64 {
        self.sb.reclaim(bytes)
    }

    /// From now on kernels in front acknowledge nothing that is not charged: see
    /// [`crate::VolumeBuilder::charge_first`]. Concerns files that are opened later.
    pub fn charge_first(&self) {
        self.sb.ledger.charge_first(&pin());
    }

    /// Whether they do: it was asked for, the volume was given a size, or somebody has a limit of
    /// bytes.
    pub fn charges_first(&self) -> bool {
        self.sb.ledger.charges_first()
    }

    /// Number of inodes in memory.
    pub fn inodes_in_memory(&self) -> usize {
        self.sb.inodes.len()
    }

    /// Number of calls that wait for a lock of a file (`flock`, `fcntl`), through both doors.
    pub fn lock_waiters(&self) -> u64 {
        self.sb.waits.waiting()
    }
}

impl Superblock {
    /// See [`Volume::record_panic`].
    fn record_panic(&self, what: &str) {
        self.stats.event(Event::Panic);
        match self.errors {
            OnError::RemountRo => self.set_read_only(true),
            OnError::Continue => {}
            OnError::Panic => {
                // Also where nobody can read it.
                let _ = writeln!(stderr(), "hearth: {what}; errors=panic, aborting");
                std::process::abort();
            }
        }
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume")
            .field("read_only", &self.read_only())
            .finish_non_exhaustive()
    }
}
