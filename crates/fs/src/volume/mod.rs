//! The handle of a volume, and what programs do with it.

mod error;
mod file_locks;
mod kernel_in_front;

pub use error::BuildError;
pub use file_locks::{FileLockReport, FileLockRow};
pub use kernel_in_front::KernelInFront;

use crate::errno::Result;
use crate::observer::Observer;
use crate::profile::{LockProfile, LockSampling};
use crate::service;
use crate::stats::Stats;
use crate::superblock::{BuildOptions, Handle, Superblock, scheduler};
use crate::tenant::TenantId;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::Arc;
use std::ops::Range;

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
    pub(crate) fn new(options: BuildOptions) -> std::result::Result<Volume, BuildError> {
        let (mode, background) = (options.mode, options.workers > 0);
        let interval = options.commit_interval;
        let sched = scheduler(&options).map_err(BuildError::Scheduler)?;
        let restart = match options.backend.is_durable() {
            true => options.backend.restart().map_err(BuildError::Backend)?,
            false => None,
        };
        let applied = restart.as_ref().map_or(0, |restart| restart.epoch);
        let applied = options.backend.is_durable().then_some(applied);
        let sb = Arc::new_cyclic(|me| Superblock::empty(options, applied, sched, me));
        match &restart {
            Some(restart) => sb.load_root(restart),
            None => sb.make_root(mode),
        }
        .map_err(BuildError::Backend)?;
        sb.open_settings(restart.as_ref().map_or(&[], |restart| &restart.settings));
        let sb = Handle::new(&sb);
        if background {
            service::start(&sb);
        }
        if let Some(interval) = interval.filter(|_| sb.is_durable()) {
            service::start_committer(&sb, interval)
                .and_then(|()| service::start_sync_leader(&sb))
                .and_then(|()| service::start_early(&sb))
                .map_err(BuildError::Backend)?;
        }
        Ok(Volume { sb })
    }

    /// Another handle of the volume; `None` when the last is going.
    pub(crate) fn of(sb: &Superblock) -> Option<Volume> {
        Some(Volume { sb: sb.handle()? })
    }

    /// Does what the maintenance task would do now, and returns: for programs that have no thread
    /// to spare (see [`crate::VolumeBuilder::workers`]) and call it about once a second. A call
    /// folds heat and does up to 64 slices of each job that is due: it reclaims 16 MiB of memory,
    /// or 64 files that are larger, looks at the accounts of 4,096 owners and as many tenants of
    /// the scheduler, and ages all records. The next call goes on with what is left. Tasks of front
    /// ends that no other thread runs get a turn as well.
    pub fn run_background_once(&self) {
        service::run_once(&self.sb);
    }

    /// Whether changes are refused with `EROFS`.
    pub fn read_only(&self) -> bool {
        self.sb.is_read_only()
    }

    /// Refuses or allows changes from now on.
    pub fn set_read_only(&self, read_only: bool) {
        self.sb.set_read_only(read_only);
    }

    /// Which locks threads wait for, which call sites hold them, and for how long. The profile is
    /// that of the process: volumes of one process share it.
    pub fn lock_profile(&self) -> LockProfile {
        LockProfile::now()
    }

    /// Begins a lock profile, unless one that samples in this way is on. False if this build has no
    /// profile.
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

    /// The volume's scheduler: it runs the maintenance work, and what front ends spawn on it. Its
    /// tenants have the numbers of [`TenantId::number`].
    pub fn scheduler(&self) -> hearth_sched::Handle {
        self.sb.sched.handle()
    }

    /// The tenant of a request by `uid` on inode `ino`.
    pub fn tenant_of(&self, ino: u64, uid: u32) -> TenantId {
        self.sb.tenant_of(ino, uid)
    }

    /// The tenant of a request on inode `ino` that has no caller, such as the write-back of a page:
    /// the inode's project, else its owner.
    pub fn tenant_behind(&self, ino: u64) -> TenantId {
        let g = pin();
        let uid = self
            .sb
            .objects
            .inodes
            .get(ino, &g)
            .map_or(0, |inode| inode.meta.uid());
        self.sb.tenant_of(ino, uid)
    }

    /// Statistics.
    pub fn stats(&self) -> &Stats {
        &self.sb.stats
    }

    /// Records a panic that a front end caught; obeys [`crate::VolumeBuilder::errors`].
    pub fn record_panic(&self, what: &str) {
        self.sb.record_panic(what);
    }

    /// Notifies `observer` of every change made through the library from now on.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.sb
            .observers
            .change(|observers| observers.push(observer));
    }

    /// Forgets an observer.
    pub fn unobserve(&self, observer: &Arc<dyn Observer>) {
        let is_other = |other: &Arc<dyn Observer>| !Arc::ptr_eq(other, observer);
        self.sb
            .observers
            .change(|observers| observers.retain(is_other));
    }

    /// Notifies observers that somebody else has changed what `name` in directory `parent` means:
    /// for what serves files that are not the volume's.
    pub fn announce_entry(&self, parent: u64, name: &[u8]) {
        for observer in self.sb.observers() {
            observer.entry_changed(parent, name);
        }
    }

    /// Notifies observers that somebody else has changed attributes of an inode, and its contents
    /// in `data`, if given. See [`Volume::announce_entry`].
    pub fn announce_inode(&self, ino: u64, data: Option<Range<u64>>) {
        for observer in self.sb.observers() {
            observer.inode_changed(ino, data.clone());
        }
    }

    /// Asks observers to forget those of these inodes that nobody uses, because there are too many.
    /// They may do so later. See [`Volume::announce_entry`].
    pub fn announce_crowded(&self, inodes: &[u64]) {
        for observer in self.sb.observers() {
            observer.crowded(inodes);
        }
    }

    /// Whether space is taken by what a kernel in front may have given up already: unlinked files
    /// that it refers to, and reservations. A kernel closes files and forgets inodes by messages
    /// that nobody waits for.
    pub fn awaits_returns(&self) -> bool {
        self.sb.cache.unlinked.sum() > 0 || self.sb.quotas.reservations.any()
    }

    /// Writes everything back and returns when it is durable.
    ///
    /// # Errors
    /// The backend's error. `EDEADLK` inside a callback of the library, such as that of
    /// [`crate::Process::getdents`]: what is under way there would wait for itself. Return from
    /// the callback first.
    pub fn sync(&self) -> Result<()> {
        self.sb.sync_all()
    }

    /// Ends the volume: what was changed is durable when this returns, and the backend is free for
    /// others. Changes are refused from now on. A volume that was not closed does the same when its
    /// last handle goes, but tells nobody if that fails.
    ///
    /// # Errors
    /// The backend's error. `EDEADLK` inside a callback of the library; nothing has ended then.
    pub fn close(&self) -> Result<()> {
        self.sb.close()
    }

    /// Ends the volume without another word to the backend, as if the machine had stopped: for
    /// tests of what survives.
    pub fn abandon(&self) {
        self.sb.abandon();
    }

    /// Evicts objects until about `bytes` are free or nothing more can be evicted; returns the
    /// bytes freed.
    pub fn reclaim(&self, bytes: u64) -> u64 {
        self.sb.reclaim(bytes)
    }

    /// From now on a kernel in front acknowledges only what is charged: see
    /// [`crate::VolumeBuilder::charge_first`]. Applies to files that are opened later.
    pub fn charge_first(&self) {
        self.sb.quotas.ledger.charge_first(&pin());
    }

    /// Whether kernels in front acknowledge only what is charged: [`Volume::charge_first`] was
    /// called, the volume was given a size, or somebody has a limit of bytes.
    pub fn charges_first(&self) -> bool {
        self.sb.quotas.ledger.charges_first()
    }

    /// For how long commits and write-backs have waited for the disk of a durable backend while it
    /// has answered none of them.
    pub fn disk_silent(&self) -> std::time::Duration {
        let now = self.sb.objects.clock.monotonic();
        std::time::Duration::from_millis(self.sb.cache.disk_silent(now))
    }

    /// Number of inodes in memory.
    pub fn inodes_in_memory(&self) -> usize {
        self.sb.objects.inodes.len()
    }

    /// Number of calls that wait for a file lock (`flock`, `fcntl`), of the library and of front
    /// ends.
    pub fn lock_waiters(&self) -> u64 {
        self.sb.file_locks.waits.waiting()
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume")
            .field("read_only", &self.read_only())
            .finish_non_exhaustive()
    }
}
