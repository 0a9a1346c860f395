//! The options of a volume when it is built: plain data, and its replaceable parts.

use crate::backend::{Backend, MemoryBackend};
use crate::clock::{Clock, SystemClock};
use crate::data::PAGE;
use hearth_sync::primitive::{Arc, cores};
use std::time::Duration;

/// When reads move the access time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtimeMode {
    /// If the access time is older than the last change, or than a day (Linux's default).
    #[default]
    Relatime,
    /// At every read.
    Strict,
    /// Never.
    No,
}

/// What a panic in an operation leads to, like `errors=` of ext4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The volume becomes read-only.
    #[default]
    RemountRo,
    /// The volume goes on.
    Continue,
    /// The program is aborted.
    Panic,
}

/// Protection against attacks through links in world-writable directories, like the
/// `fs.protected_*` settings of Linux. Off by default, as in Linux itself (most distributions turn
/// it on). On a mount the kernel's own settings hold, and of these only `hardlinks` in addition:
/// the kernel follows symbolic links and looks up the name of an `O_CREAT` before it asks the
/// volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// `protected_hardlinks`: a caller may link another user's file only if it is a regular file
    /// without setuid and executable setgid that the caller may read and write (`EPERM`).
    pub hardlinks: bool,
    /// `protected_symlinks`: a symbolic link in a sticky, world-writable directory is followed only
    /// if it belongs to the caller or to the directory's owner (`EACCES`).
    pub symlinks: bool,
    /// `protected_regular`: in a sticky directory that all may write to (1) or that its group may
    /// write to (2), `O_CREAT` opens only files of the caller or of the directory's owner
    /// (`EACCES`).
    pub regular: u8,
}

/// The options of a volume; see [`crate::VolumeBuilder`] for the meaning of each.
pub(crate) struct BuildOptions {
    /// `None` if not given: half of the machine's memory.
    pub size: Option<u64>,
    pub inodes: u64,
    pub budget: u64,
    pub atime: AtimeMode,
    pub errors: OnError,
    pub read_only: bool,
    /// Whether heat is tracked from the start.
    pub hot_track: bool,
    /// The number of threads for background work, which no request waits for.
    pub workers: usize,
    /// The number of front-end threads that may take part in the scheduler.
    pub seats: usize,
    pub owner: (u32, u32),
    pub mode: u16,
    pub lock_ranges: u64,
    pub links_max: u32,
    pub protection: Protection,
    pub backend: Box<dyn Backend>,
    pub clock: Arc<dyn Clock>,
    /// Size of a volume that was given none, where its backend has one.
    pub room: Option<u64>,
    /// How often a durable volume commits by itself; `None`: never.
    pub commit_interval: Option<Duration>,
    /// Whether users, groups and projects are accounted for.
    pub quotas: bool,
    /// Whether a front end serves inodes that the volume does not have.
    pub serves_elsewhere: bool,
    /// Whether a kernel in front acknowledges only writes that are charged, even without limits.
    pub charge_first: bool,
}

impl Default for BuildOptions {
    fn default() -> BuildOptions {
        BuildOptions {
            size: None,
            inodes: half_of_memory() / PAGE,
            budget: 0,
            atime: AtimeMode::Relatime,
            errors: OnError::RemountRo,
            read_only: false,
            hot_track: false,
            workers: 0,
            seats: cores(),
            owner: (0, 0),
            mode: 0o755,
            lock_ranges: 1 << 20,
            links_max: u32::MAX,
            protection: Protection::default(),
            backend: Box::new(MemoryBackend),
            clock: Arc::new(SystemClock),
            room: None,
            commit_interval: None,
            quotas: true,
            serves_elsewhere: false,
            charge_first: false,
        }
    }
}

impl BuildOptions {
    /// Size of the volume in bytes.
    pub fn bytes(&self) -> u64 {
        self.size.or(self.room).unwrap_or_else(half_of_memory)
    }
}

/// Half of the machine's memory, as in tmpfs.
fn half_of_memory() -> u64 {
    (machine_memory() / 2).max(PAGE)
}

/// Bytes of memory of the machine.
pub(crate) fn machine_memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}
