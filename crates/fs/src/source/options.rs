//! Options of a volume as people write them: plain data, and how each is read.

use super::HostQuotaMode;
use super::{HostSourceOptions, StoreOptions};
use crate::amount::{self, AmountError};
use crate::builder::VolumeBuilder;
use crate::superblock::{AtimeMode, OnError, Protection};
use std::fmt;

/// How a volume is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeOptions {
    /// `ro`, `rw`.
    pub read_only: bool,
    /// `noatime`, `relatime`, `strictatime`.
    pub atime: AtimeMode,
    /// `size=BYTES` of the volume; by default half of the memory.
    pub size: Option<u64>,
    /// `inodes=COUNT` of the volume; by default one for each 4 KiB of that.
    pub inodes: Option<u64>,
    /// `links_max=COUNT`: most names of a file.
    pub links_max: Option<u32>,
    /// `lock_ranges=COUNT`: most byte ranges that a process may have locked, one of each file not
    /// counted.
    pub lock_ranges: Option<u64>,
    /// `protected_hardlinks`: files of others are linked only by who may read and write them.
    pub protected_hardlinks: bool,
    /// `errors=remount-ro|continue|panic`.
    pub errors: OnError,
    /// `hot_track`, `no_hot_track`: which files and ranges are hot.
    pub hot_track: bool,
    /// Not with `noquota`: users, groups and projects are told apart and may have limits.
    pub quotas: bool,
    /// `quota`: no write is acknowledged before it is charged, also while there is no limit. A
    /// volume that was given a `size` does the same.
    pub charge_first: bool,
    /// `workers=COUNT`: threads for background work, which also help where a CPU is behind.
    pub workers: usize,
    /// `memory=BYTES`: of a store for names, inodes and pages, an eighth of the machine's by
    /// default; of a directory of the host for inodes, 256 MiB by default.
    pub memory: Option<u64>,
    /// What only a volume in a store takes.
    pub store: StoreOptions,
    /// `xdev`: mounts below a directory of the host are not entered.
    pub xdev: bool,
    /// What else only a directory of the host takes.
    pub host: HostSourceOptions,
}

/// An option of a volume that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The option as it was given.
    pub option: String,
    /// What its value may be; `None` if the option itself is unknown.
    pub expected: Option<&'static str>,
}

/// Less memory than this cannot hold what a few requests need at once.
const MEMORY_MIN: u64 = 16 << 20;

impl Default for VolumeOptions {
    fn default() -> VolumeOptions {
        VolumeOptions {
            read_only: false,
            atime: AtimeMode::Relatime,
            size: None,
            inodes: None,
            links_max: None,
            lock_ranges: None,
            protected_hardlinks: false,
            errors: OnError::RemountRo,
            hot_track: false,
            quotas: true,
            charge_first: false,
            workers: 1,
            memory: None,
            store: StoreOptions::default(),
            xdev: false,
            host: HostSourceOptions::default(),
        }
    }
}

impl VolumeOptions {
    /// Changes the option that `option` (`name` or `name=value`) names.
    ///
    /// # Errors
    /// The option is unknown or its value makes no sense; nothing is changed.
    pub fn set(&mut self, option: &str) -> Result<(), OptionError> {
        match option.split_once('=') {
            Some((name, value)) => self.set_value(name, value, option),
            None => self.set_flag(option),
        }
    }

    /// Carries the options over to a builder.
    pub fn apply(&self, mut builder: VolumeBuilder) -> VolumeBuilder {
        if let Some(bytes) = self.size {
            builder = builder.size(bytes);
        }
        if let Some(count) = self.inodes {
            builder = builder.inodes(count);
        }
        if let Some(most) = self.links_max {
            builder = builder.links_max(most);
        }
        if let Some(most) = self.lock_ranges {
            builder = builder.lock_ranges(most);
        }
        if self.protected_hardlinks {
            builder = builder.protection(Protection {
                hardlinks: true,
                ..Protection::default()
            });
        }
        builder
            .atime(self.atime)
            .errors(self.errors)
            .read_only(self.read_only)
            .quotas(self.quotas)
            .charge_first(self.charge_first)
            .hot_track(self.hot_track)
            .workers(self.workers)
    }

    /// The first option that was given, by name, and that has a meaning only where Hearth itself
    /// has the files.
    pub(super) fn given_to_the_core(&self) -> Option<&'static str> {
        let given = [
            (self.size.is_some(), "size"),
            (self.inodes.is_some(), "inodes"),
            (self.links_max.is_some(), "links_max"),
            (self.lock_ranges.is_some(), "lock_ranges"),
            (self.protected_hardlinks, "protected_hardlinks"),
            (self.atime == AtimeMode::No, "noatime"),
            (self.atime == AtimeMode::Strict, "strictatime"),
        ];
        given.iter().find(|(is, _)| *is).map(|(_, name)| *name)
    }

    fn set_flag(&mut self, name: &str) -> Result<(), OptionError> {
        match name {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "atime" | "relatime" => self.atime = AtimeMode::Relatime,
            "noatime" => self.atime = AtimeMode::No,
            "strictatime" => self.atime = AtimeMode::Strict,
            "quota" => {
                (self.quotas, self.charge_first) = (true, true);
                self.host.quota = self.host.quota.filter(|&mode| mode != HostQuotaMode::Off);
            }
            // The last of them holds, as of `ro` and `rw`.
            "noquota" => {
                (self.quotas, self.charge_first) = (false, false);
                self.host.quota = self.host.quota.map(|_| HostQuotaMode::Off);
            }
            "hot_track" => self.hot_track = true,
            "no_hot_track" => self.hot_track = false,
            "protected_hardlinks" => self.protected_hardlinks = true,
            "create" => self.store.create = true,
            "xdev" => self.xdev = true,
            "watch" => self.host.watch = true,
            "observe" => (self.hot_track, self.host.observe) = (true, true),
            _ => return Err(OptionError::unknown(name)),
        }
        Ok(())
    }

    fn set_value(&mut self, name: &str, value: &str, option: &str) -> Result<(), OptionError> {
        let bad = |expected| OptionError {
            option: option.to_owned(),
            expected: Some(expected),
        };
        match name {
            "errors" => {
                self.errors = match value {
                    "remount-ro" => OnError::RemountRo,
                    "continue" => OnError::Continue,
                    "panic" => OnError::Panic,
                    _ => return Err(bad("remount-ro, continue or panic")),
                };
            }
            "quota" => {
                let mode = match value {
                    "wait" => HostQuotaMode::Wait,
                    "background" => HostQuotaMode::Background,
                    "off" => HostQuotaMode::Off,
                    _ => return Err(bad("wait, background or off")),
                };
                self.host.quota = Some(mode);
                // An earlier `quota` asks for less than this, and an earlier `noquota` is undone.
                self.quotas = mode != HostQuotaMode::Off;
                self.charge_first &= self.quotas;
            }
            "state" if value.is_empty() => return Err(bad("a directory")),
            "state" => self.host.state = Some(value.into()),
            "workers" => {
                let count = value.parse().ok();
                let count = count.filter(|count| (1..=1024).contains(count));
                self.workers = count.ok_or(bad("1 to 1024"))?;
            }
            "size" => {
                let least = (4096, "at least 4096 bytes, such as 512MiB or 2G");
                self.size = Some(at_least(least, amount::bytes(value)).map_err(bad)?);
            }
            "memory" => {
                let least = (MEMORY_MIN, "at least 16 MiB, such as 512MiB or 2G");
                self.memory = Some(at_least(least, amount::bytes(value)).map_err(bad)?);
            }
            "inodes" => {
                let least = (1, "at least 1, such as 50k or 2m");
                self.inodes = Some(at_least(least, amount::count(value)).map_err(bad)?);
            }
            "links_max" => {
                let most = amount::count(value).ok();
                let most = most.and_then(|most| u32::try_from(most).ok());
                let most = most.filter(|&most| most > 0);
                self.links_max = Some(most.ok_or(bad("1 to 4294967295"))?);
            }
            "lock_ranges" => {
                let least = (1, "at least 1, such as 50k or 2m");
                self.lock_ranges = Some(at_least(least, amount::count(value)).map_err(bad)?);
            }
            _ => {
                let of_store = self.store.set_value(name, value);
                of_store
                    .ok_or_else(|| OptionError::unknown(name))?
                    .map_err(bad)?;
            }
        }
        Ok(())
    }
}

impl OptionError {
    /// An option of a store that was given for a volume in memory.
    pub(super) fn of_a_store(name: &str) -> OptionError {
        OptionError {
            option: name.to_owned(),
            expected: Some(match name {
                "memory" => "a source store:DIR or host:DIR; give memory: a size",
                _ => "a source store:DIR, since memory: keeps nothing",
            }),
        }
    }

    /// An option of a host directory that was given for something else.
    pub(super) fn of_a_host(name: &str) -> OptionError {
        let expected = match name {
            "xdev" => "a source host:DIR, since nothing else has mounts below it",
            "state" => "a source host:DIR, since a store keeps its state itself",
            "observe" => "a source host:DIR, since nothing else is there to be observed",
            "watch" => "a source host:DIR, since nothing else is changed by others",
            "quota=" => "a source host:DIR, since other volumes count what is used at any time",
            _ => "a source host:DIR, since elsewhere each access is seen",
        };
        OptionError {
            option: name.to_owned(),
            expected: Some(expected),
        }
    }

    /// An option that a directory of the host cannot have.
    pub(super) fn not_of_a_host(name: &str) -> OptionError {
        let expected = match name {
            "noatime" | "strictatime" => "none for a host directory, whose own mount decides that",
            _ => "none for a host directory, whose own filesystem decides that",
        };
        OptionError {
            option: name.to_owned(),
            expected: Some(expected),
        }
    }

    fn unknown(option: &str) -> OptionError {
        OptionError {
            option: option.to_owned(),
            expected: None,
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.expected {
            Some(expected) => write!(f, "option '{}': expected {expected}", self.option),
            None => write!(f, "unknown option '{}'", self.option),
        }
    }
}

impl std::error::Error for OptionError {}

/// The amount, if it is at least as much; else what is expected.
fn at_least(
    (least, expected): (u64, &'static str),
    amount: Result<u64, AmountError>,
) -> Result<u64, &'static str> {
    match amount {
        Ok(amount) if amount >= least => Ok(amount),
        Err(AmountError::TooLarge) => Err("less than 2^63, such as 2G of bytes or 2m inodes"),
        _ => Err(expected),
    }
}
