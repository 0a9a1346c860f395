//! Mount options: parsed from `-o` strings, plain data with measured defaults.

use super::option_error::OptionError;
use super::option_list::split_options;
use super::security;
use crate::placement::idle_policy::SchedPolicy;
use crate::wait::Park;
use hearth::{VolumeBuilder, VolumeOptions, amount};
use std::time::Duration;

/// Which way requests travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// io_uring where the kernel offers it, `/dev/fuse` otherwise.
    #[default]
    Auto,
    /// Per-CPU io_uring queues, or no mount at all.
    Uring,
    /// Cloned `/dev/fuse` descriptors.
    Dev,
}

/// When a directory listing brings the attributes along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadDirPlus {
    /// While the reader also asks for attributes (`ls -l`, `find`).
    #[default]
    Auto,
    /// Always.
    Yes,
    /// Never.
    No,
}

/// Whether the kernel reads and writes files below by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passthrough {
    /// Where it can, and nobody has to see the data.
    #[default]
    Auto,
    /// [`Passthrough::Auto`], or no mount at all.
    On,
    /// Never.
    Off,
}

/// How a volume is mounted. `docs/semantics.md` has the price of each default.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Options of the volume itself, which the library takes as well. `quota` also says
    /// `no_writeback`; `heat=exact` is `hot_track` with `direct_io`, `heat=opens` is `hot_track` of
    /// opens alone.
    pub volume: VolumeOptions,
    /// `transport=auto|uring|dev`.
    pub transport: Transport,
    /// `entry_timeout=SECONDS`: how long the kernel believes a name.
    pub entry_timeout: Duration,
    /// `attr_timeout=SECONDS`: how long the kernel believes attributes.
    pub attr_timeout: Duration,
    /// `negative_timeout=SECONDS`: how long the kernel believes that a name is absent.
    pub negative_timeout: Duration,
    /// `writeback`, `no_writeback`: small writes are collected in the page cache. By default where
    /// the kernel can be made to drop a file's size that the library has changed (FUSE 7.45).
    pub writeback: Option<bool>,
    /// `no_open`: the kernel opens files without asking; no locks between hosts of the volume.
    pub no_open: bool,
    /// `no_opendir`: the kernel opens directories without asking.
    pub no_opendir: bool,
    /// `no_flush`: close does not report to the filesystem; record locks stay inside the kernel.
    pub no_flush: bool,
    /// `direct_io`: reads and writes bypass the page cache.
    pub direct_io: bool,
    /// `readdirplus=auto|yes|no`.
    pub readdirplus: ReadDirPlus,
    /// `passthrough=auto|on|off`: files below are read and written by the kernel itself, where what
    /// is served has such files.
    pub passthrough: Option<Passthrough>,
    /// `parallel_dirops`, `no_parallel_dirops`: lookups and listings of one directory side by side.
    pub parallel_dirops: bool,
    /// `max_write=BYTES`: largest read or write request.
    pub max_write: u32,
    /// `allow_other`: users other than the one who mounts may look. Without it only root's mounts
    /// may be looked at by others.
    pub allow_other: Option<bool>,
    /// `idmap`: mounts of the volume with mapped ids may be made (`mount_setattr(2)`, Linux 6.12).
    pub idmap: bool,
    /// `fsname=NAME`: first column of `df` and `mount`.
    pub fsname: String,
    /// `nodev`.
    pub nodev: bool,
    /// `nosuid`.
    pub nosuid: bool,
    /// `noexec`.
    pub noexec: bool,
    /// `context=` and its kin, as they were typed: for the kernel, if it has SELinux.
    pub security: Vec<String>,
    /// `sched_policy=auto|other|idle`: the last for the program that serves, which applies it to
    /// all its threads; a [`Session`](crate::Session) sees to the first.
    pub sched_policy: SchedPolicy,
    /// `park=every`, for tests of the daemon.
    pub park: Park,
    /// The directory may hold files: whoever mounts wants the mount to hide them. Cannot be typed.
    pub covers: bool,
    /// Others change what is served: see [`hearth::KernelCache::is_changed_behind`].
    /// A [`Session`](crate::Session) sets this itself.
    pub changed_behind: bool,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        let long = Duration::from_secs(60);
        MountOptions {
            volume: VolumeOptions::default(),
            transport: Transport::Auto,
            entry_timeout: long,
            attr_timeout: long,
            negative_timeout: long,
            writeback: None,
            no_open: false,
            no_opendir: false,
            no_flush: false,
            direct_io: false,
            readdirplus: ReadDirPlus::Auto,
            passthrough: None,
            parallel_dirops: true,
            max_write: 1 << 20,
            allow_other: None,
            idmap: false,
            fsname: "hearth".to_owned(),
            nodev: false,
            nosuid: false,
            noexec: false,
            security: Vec::new(),
            sched_policy: SchedPolicy::Auto,
            park: Park::Needed,
            covers: false,
            changed_behind: false,
        }
    }
}

impl MountOptions {
    /// The defaults changed by what `-o` says; each string may hold several options separated by
    /// commas.
    ///
    /// # Errors
    /// The first option that is unknown or whose value makes no sense.
    pub fn parse<S: AsRef<str>>(given: &[S]) -> Result<MountOptions, OptionError> {
        MountOptions::default().with(given)
    }

    /// The defaults where others change what is served without a word: what the kernel knows is
    /// true for a second.
    pub fn changed_behind() -> MountOptions {
        let short = Duration::from_secs(1);
        MountOptions {
            entry_timeout: short,
            attr_timeout: short,
            negative_timeout: short,
            ..MountOptions::default()
        }
    }

    /// These options changed by what `-o` says.
    ///
    /// # Errors
    /// The first option that is unknown or whose value makes no sense.
    pub fn with<S: AsRef<str>>(mut self, given: &[S]) -> Result<MountOptions, OptionError> {
        for option in given.iter().flat_map(|list| split_options(list.as_ref())) {
            self.set(option)?;
        }
        Ok(self)
    }

    /// Changes the option that `option` (`name` or `name=value`) names; an empty string changes
    /// nothing.
    ///
    /// # Errors
    /// The option is unknown or its value makes no sense.
    pub fn set(&mut self, option: &str) -> Result<(), OptionError> {
        match option.split_once('=') {
            Some((name, value)) => self.set_value(name, value, option),
            None => self.set_flag(option),
        }
    }

    /// What to ask of the kernel about attributes in listings. Where neither names nor attributes
    /// are cached for any time, what comes along would be asked for again at once.
    pub fn agreed_readdirplus(&self) -> ReadDirPlus {
        let is_believed = !self.entry_timeout.is_zero() || !self.attr_timeout.is_zero();
        match self.readdirplus {
            ReadDirPlus::Auto if !is_believed => ReadDirPlus::No,
            given => given,
        }
    }

    /// Whether the kernel is asked to pass data through: with a mode of its own for each file, and
    /// only where there are files below, which others may change too.
    pub fn passes_through(&self) -> bool {
        let is_wanted = self.passthrough != Some(Passthrough::Off);
        is_wanted && self.changed_behind && !self.direct_io && !self.no_open
    }

    /// Carries the options that concern the volume itself over to its builder.
    pub fn volume(&self, builder: VolumeBuilder) -> VolumeBuilder {
        self.volume.apply(builder)
    }

    fn set_flag(&mut self, name: &str) -> Result<(), OptionError> {
        match name {
            "" | "default_permissions" | "async" => {}
            "dev" => self.nodev = false,
            "nodev" => self.nodev = true,
            "suid" => self.nosuid = false,
            "nosuid" => self.nosuid = true,
            "exec" => self.noexec = false,
            "noexec" => self.noexec = true,
            "allow_other" => self.allow_other = Some(true),
            "idmap" => self.idmap = true,
            "writeback" => self.writeback = Some(true),
            "no_writeback" => self.writeback = Some(false),
            "no_open" => self.no_open = true,
            "no_opendir" => self.no_opendir = true,
            "no_flush" => self.no_flush = true,
            "direct_io" => self.direct_io = true,
            "parallel_dirops" => self.parallel_dirops = true,
            "no_parallel_dirops" => self.parallel_dirops = false,
            "quota" => {
                self.volume.set(name)?;
                self.writeback = Some(false);
            }
            _ => self.volume.set(name)?,
        }
        Ok(())
    }

    fn set_value(&mut self, name: &str, value: &str, option: &str) -> Result<(), OptionError> {
        let bad = |expected| OptionError::bad(option, expected);
        match name {
            "transport" => {
                self.transport = match value {
                    "auto" => Transport::Auto,
                    "uring" => Transport::Uring,
                    "dev" => Transport::Dev,
                    _ => return Err(bad("auto, uring or dev")),
                };
            }
            "readdirplus" => {
                self.readdirplus = match value {
                    "auto" => ReadDirPlus::Auto,
                    "yes" => ReadDirPlus::Yes,
                    "no" => ReadDirPlus::No,
                    _ => return Err(bad("auto, yes or no")),
                };
            }
            "passthrough" => {
                self.passthrough = Some(match value {
                    "auto" => Passthrough::Auto,
                    "on" => Passthrough::On,
                    "off" => Passthrough::Off,
                    _ => return Err(bad("auto, on or off")),
                });
            }
            "heat" => match value {
                // The kernel's page cache would serve reads that are then not counted.
                "exact" => (self.volume.hot_track, self.direct_io) = (true, true),
                "opens" => {
                    (self.volume.hot_track, self.volume.host.heat_by_opens) = (true, true);
                }
                _ => return Err(bad("exact or opens; or the option hot_track")),
            },
            "sched_policy" => {
                let policy = SchedPolicy::parse(value);
                self.sched_policy = policy.ok_or(bad("auto, other or idle"))?;
            }
            "park" => match value {
                "needed" => self.park = Park::Needed,
                "every" => self.park = Park::Every,
                _ => return Err(bad("needed or every")),
            },
            "entry_timeout" => self.entry_timeout = seconds(value).ok_or(bad(SECONDS))?,
            "attr_timeout" => self.attr_timeout = seconds(value).ok_or(bad(SECONDS))?,
            "negative_timeout" => self.negative_timeout = seconds(value).ok_or(bad(SECONDS))?,
            "max_write" => {
                let bytes = amount::bytes(value).ok();
                let bytes = bytes.filter(|bytes| (4096..=16 << 20).contains(bytes));
                self.max_write = bytes.ok_or(bad("4096 to 16M bytes"))? as u32 / 4096 * 4096;
            }
            "fsname" if !value.is_empty() => self.fsname = value.to_owned(),
            "fsname" => return Err(bad("a name")),
            _ if security::NAMES.contains(&name) => self.security.push(option.to_owned()),
            _ => self.volume.set(option)?,
        }
        Ok(())
    }
}

const SECONDS: &str = "seconds, 0 to 31536000";

/// Seconds with an optional fraction, at most a year.
fn seconds(value: &str) -> Option<Duration> {
    let seconds: f64 = value.parse().ok()?;
    (0.0..=31_536_000.0)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_in_lists_and_in_pieces() {
        let options =
            MountOptions::parse(&["ro,transport=dev", "attr_timeout=0.5,size=2g,inodes=10k"])
                .unwrap();
        assert!(options.volume.read_only);
        assert_eq!(options.transport, Transport::Dev);
        assert_eq!(options.attr_timeout, Duration::from_millis(500));
        assert_eq!(
            (options.volume.size, options.volume.inodes),
            (Some(2 << 30), Some(10_000))
        );
    }

    #[test]
    fn an_unknown_option_is_named() {
        let error = MountOptions::parse(&["ro,frobnicate"]).unwrap_err();
        assert_eq!(error.to_string(), "unknown mount option 'frobnicate'");
    }

    #[test]
    fn a_value_that_makes_no_sense_is_named_with_what_would() {
        for option in [
            "transport=smoke",
            "readdirplus=maybe",
            "passthrough=maybe",
            "errors=ignore",
            "attr_timeout=-1",
            "entry_timeout=nan",
            "negative_timeout=1e99",
            "max_write=1",
            "max_write=17m",
            "heat=nonsense",
            "size=10q",
            "size=99999999999t",
            "inodes=0",
            "links_max=0",
            "links_max=4294967296",
            "lock_ranges=0",
            "fsname=",
            "workers=0",
            "workers=1025",
            "park=never",
            "sched_policy=fifo",
        ] {
            let error = MountOptions::parse(&[option]).unwrap_err();
            assert!(error.expected.is_some(), "{option}");
            assert!(error.to_string().contains(option), "{error}");
        }
    }
}
