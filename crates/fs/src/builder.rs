//! Building a volume.

use crate::backend::Backend;
use crate::clock::Clock;
use crate::control;
use crate::data::PAGE;
#[cfg(feature = "store")]
use crate::superblock::machine_memory;
use crate::superblock::{AtimeMode, BuildOptions, OnError, Protection};
use crate::volume::{BuildError, Volume};
use hearth_sync::primitive::Arc;
use std::fmt;
use std::time::Duration;

impl Volume {
    /// A volume in memory with the default settings.
    pub fn memory() -> Volume {
        Volume::builder()
            .build()
            .expect("the defaults are a valid volume")
    }

    /// Options of a new volume.
    pub fn builder() -> VolumeBuilder {
        VolumeBuilder(BuildOptions::default())
    }
}

/// Builds a [`Volume`].
pub struct VolumeBuilder(BuildOptions);

impl VolumeBuilder {
    /// Most bytes of file contents; by default half of the machine's memory, as in tmpfs. A volume
    /// with a size charges first, see [`VolumeBuilder::charge_first`].
    pub fn size(mut self, bytes: u64) -> Self {
        self.0.size = Some(bytes);
        self
    }

    /// Most bytes of file contents of a volume that is given no size: what its backend has. Unlike
    /// with a size, nothing is charged first for it.
    #[cfg(feature = "store")]
    pub(crate) fn room(mut self, bytes: u64) -> Self {
        self.0.room = Some(bytes);
        self
    }

    /// Memory that a durable volume takes where nothing else is said: an eighth of the machine's.
    #[cfg(feature = "store")]
    pub(crate) fn usual_memory() -> u64 {
        machine_memory() / 8
    }

    /// Most inodes; by default one for each 4 KiB of half the machine's memory, as in tmpfs.
    pub fn inodes(mut self, inodes: u64) -> Self {
        self.0.inodes = inodes;
        self
    }

    /// Memory for dentries, inodes and pages in bytes, where the backend can give them back; 0 (the
    /// default): unlimited.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.0.budget = bytes;
        self
    }

    /// When reads move the access time.
    pub fn atime(mut self, mode: AtimeMode) -> Self {
        self.0.atime = mode;
        self
    }

    /// What a panic in an operation leads to.
    pub fn errors(mut self, errors: OnError) -> Self {
        self.0.errors = errors;
        self
    }

    /// Refuse every change with `EROFS`.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.0.read_only = read_only;
        self
    }

    /// Gives the volume a thread for work that no request waits for, such as the ageing of heat:
    /// one worker, or none.
    pub fn background(self, on: bool) -> Self {
        self.workers(usize::from(on))
    }

    /// Threads of the volume's scheduler, at most 1,024. They do the work that no request waits
    /// for, and help the threads of front ends that fall behind. Without any (the default) call
    /// [`Volume::run_background_once`] now and then.
    pub fn workers(mut self, workers: usize) -> Self {
        self.0.workers = workers;
        self
    }

    /// Threads of front ends that can take part in the volume's scheduler at one time; one for each
    /// core by default. A FUSE mount takes one for each CPU, and a task without a run queue of its
    /// own runs on none of them: without workers there is one more.
    pub fn seats(mut self, seats: usize) -> Self {
        self.0.seats = seats;
        self
    }

    /// Track which files and ranges are hot from the start; see [`Volume::heat`].
    pub fn hot_track(mut self, on: bool) -> Self {
        self.0.hot_track = on;
        self
    }

    /// Owner and group of the root directory and of the control files.
    pub fn root_owner(mut self, uid: u32, gid: u32) -> Self {
        self.0.owner = (uid, gid);
        self
    }

    /// Permission bits of the root directory; 0755 by default.
    pub fn root_mode(mut self, mode: u16) -> Self {
        self.0.mode = mode & 0o7777;
        self
    }

    /// Most byte ranges that a process, or an open file for its own locks, may have locked over all
    /// files, one of each file not counted (`ENOLCK` beyond); 1,048,576 by default.
    pub fn lock_ranges(mut self, most: u64) -> Self {
        self.0.lock_ranges = most;
        self
    }

    /// Most names of a file (`EMLINK` beyond); 4,294,967,295 by default.
    pub fn links_max(mut self, most: u32) -> Self {
        self.0.links_max = most;
        self
    }

    /// Which tricks with links are refused; none by default.
    pub fn protection(mut self, protection: Protection) -> Self {
        self.0.protection = protection;
        self
    }

    /// The backend that objects come from; memory by default.
    pub fn backend(mut self, backend: impl Backend) -> Self {
        self.0.backend = Box::new(backend);
        self
    }

    /// How often a volume with a durable backend commits what nobody asked to sync; a thread of the
    /// volume does it. Without (the default) only syncs and memory pressure commit.
    pub fn commit_interval(mut self, interval: Duration) -> Self {
        self.0.commit_interval = Some(interval);
        self
    }

    /// The clock that stamps files.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.0.clock = Arc::new(clock);
        self
    }

    /// Whether users, groups and projects are accounted for (the default); otherwise only the
    /// volume's own size and number of inodes are limited.
    pub fn quotas(mut self, quotas: bool) -> Self {
        self.0.quotas = quotas;
        self
    }

    /// Whether a front end serves inodes that the volume does not have, those of a directory of the
    /// host. Without [`VolumeBuilder::quotas`] nobody counts them: there is no use and no limit of
    /// the volume to tell then.
    pub fn serves_elsewhere(mut self, elsewhere: bool) -> Self {
        self.0.serves_elsewhere = elsewhere;
        self
    }

    /// Whether a kernel in front (see `hearth-fuse`) may acknowledge only what is charged, even
    /// while no quota limits bytes: for volumes whose quotas must refuse at the write and not at
    /// the `fsync` from the first one on. Writes are passed on one by one then. A volume with a
    /// size always does so.
    pub fn charge_first(mut self, always: bool) -> Self {
        self.0.charge_first = always;
        self
    }

    /// Builds the volume.
    ///
    /// # Errors
    /// A fault in the options; an error of the system, or of the backend when it is asked for the
    /// root.
    pub fn build(self) -> Result<Volume, BuildError> {
        if let Some(asked) = self.0.size.filter(|&size| size < PAGE) {
            return Err(BuildError::Size { asked });
        }
        if self.0.inodes == 0 {
            return Err(BuildError::NoInode);
        }
        let volume = Volume::new(self.0)?;
        control::make_dir(&volume.sb).map_err(BuildError::Backend)?;
        Ok(volume)
    }
}

impl fmt::Debug for VolumeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeBuilder")
            .field("size", &self.0.size)
            .field("inodes", &self.0.inodes)
            .field("read_only", &self.0.read_only)
            .finish_non_exhaustive()
    }
}
