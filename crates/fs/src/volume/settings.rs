//! What a volume is built with: plain data, and the parts that are handed in.

use crate::clock::{Clock, SystemClock};
use crate::data::PAGE;
use crate::home::{Home, MemoryHome};

/// When reads move the access time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtimeMode {
    /// If it is older than the last change, or than a day (Linux's default).
    #[default]
    Relatime,
    /// At every read.
    Strict,
    /// Never.
    No,
}

/// What a panic in an operation leads to, as `errors=` of ext4.
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

/// Settings of a volume; see [`crate::VolumeBuilder`] for what each means.
pub(crate) struct Settings {
    pub size: u64,
    pub inodes: u64,
    pub budget: u64,
    pub atime: AtimeMode,
    pub errors: OnError,
    pub read_only: bool,
    pub owner: (u32, u32),
    pub mode: u16,
    pub home: Box<dyn Home>,
    pub clock: Box<dyn Clock>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            size: half_of_memory(),
            inodes: half_of_memory() / PAGE,
            budget: 0,
            atime: AtimeMode::Relatime,
            errors: OnError::RemountRo,
            read_only: false,
            owner: (0, 0),
            mode: 0o755,
            home: Box::new(MemoryHome),
            clock: Box::new(SystemClock),
        }
    }
}

/// As tmpfs: half of the machine's memory.
fn half_of_memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram / 2)
        .saturating_mul(u64::from(info.mem_unit))
        .max(PAGE)
}
