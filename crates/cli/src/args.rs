//! What can be typed.

use crate::events::NameEventsArgs;
use crate::heat::HeatArgs;
use crate::metrics::{MetricsArgs, WorkArgs};
use crate::quota::QuotaArgs;
use crate::run::{InitArgs, RunArgs, ServerArgs};
use crate::sched::SchedArgs;
use crate::store::{DumpArgs, FsckArgs, InfoArgs, LoadArgs, MkfsArgs, PassphraseArgs};
use crate::top::LiveArgs;
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A multicore-scalable filesystem in user space.
#[derive(Debug, Parser)]
#[command(
    name = "hearth",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs of `hearth`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Mount a volume
    Mount(MountArgs),
    /// Unmount a volume; its daemon ends
    Umount(UmountArgs),
    /// Started by `hearth mount` and `hearth umount`: looks into a mount that may not answer
    #[command(hide = true)]
    Inquire,
    /// Run a program in the current directory, served meanwhile, and say what it did there
    Run(RunArgs),
    /// Started by `hearth run`: serves the directory
    #[command(hide = true)]
    RunServer(ServerArgs),
    /// Started by `hearth run`: process 1 of the program's namespace
    #[command(hide = true)]
    RunInit(InitArgs),
    /// Make what was written to a mounted volume durable
    Sync(SyncArgs),
    /// Make a volume in a directory
    Mkfs(MkfsArgs),
    /// Say what a volume is, in a directory or mounted, and who has it open
    Info(InfoArgs),
    /// Check a volume in a directory, and put right what is wrong
    Fsck(FsckArgs),
    /// Write a volume as one stream, a tar archive
    Dump(DumpArgs),
    /// Make a volume, or plain files, of what 'hearth dump' wrote
    Load(LoadArgs),
    /// Change the passphrase of an encrypted volume
    Passphrase(PassphraseArgs),
    /// Show what a mounted volume does
    Stats(StatsArgs),
    /// Print, or serve, what all mounted volumes do, for Prometheus
    Metrics(MetricsArgs),
    /// Started by `hearth metrics`: looks into the mounts
    #[command(hide = true)]
    MetricsWorker(WorkArgs),
    /// Show live what a mounted volume does, who does it, what is hot and what waits
    Top(LiveArgs),
    /// Show which locks a mounted volume waits for, or its file locks
    Locks(LocksArgs),
    /// Print names of a mounted volume as they are made, removed and renamed, and by whom
    Events(NameEventsArgs),
    /// Put one question to a mounted volume, as it takes them in .hearth/ask
    Ask {
        /// Where the volume is mounted
        mount: PathBuf,
        /// The question; 'help' lists what may be asked
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Show and set who may use how much of a mounted volume
    Quota(QuotaArgs),
    /// Show which files and ranges of a mounted volume are hot
    Heat(HeatArgs),
    /// Show who gets how much of the cores of a mounted volume, and set it
    Sched(SchedArgs),
    /// Show the tunables of a mounted volume, and set them
    Tune(TuneArgs),
    /// Say whether this machine can mount, by which transport, and what to do if not
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages
    Man {
        /// Directory that receives them; it is made if it is not there
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Print the version
    Version {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// What `-o` takes; `docs/semantics.md` has the price of each default.
const MOUNT_OPTIONS: &str = "\
Mount options (-o), the default first:
  transport=auto|uring|dev         io_uring queues, or /dev/fuse
  ro                               refuse every change
  relatime, strictatime, noatime   when reads move the access time
  nodev, nosuid, noexec            as mount(8)
  size=BYTES, inodes=COUNT         room of the volume (2G, 512MiB; 50k): half of the memory, or
                                   as much as the disk of a store has
  create                           make the volume of store:DIR if DIR is new or empty
  xdev                             do not enter mounts below host:DIR
  watch                            see changes of others in host:DIR at once (root)
  quota=off|wait|background        quotas of host:DIR; wait: count what is used before the mount
                                   answers
  memory=BYTES                     memory for what is kept of a store: an eighth of the machine's
  commit=SECONDS                   time between commits of a store that nobody asked for: 5
  compress=lz4|none|zstd           how a store compresses what is written: as it was made
  encrypt=FILE|env                 the passphrase of a store, in FILE or in HEARTH_PASSPHRASE
  links_max=COUNT                  most names of a file; 4294967295
  lock_ranges=COUNT                most byte ranges that a process may have locked, one of each
                                   file not counted; 1048576
  protected_hardlinks              who may not write a file may not link it either
  errors=remount-ro|continue|panic what a panic in an operation leads to
  entry_timeout=SECONDS            how long the kernel believes a name
  attr_timeout=SECONDS             how long it believes attributes
  negative_timeout=SECONDS         how long it believes that a name is absent
  writeback, no_writeback          collect small writes in the page cache
  quota                            charge every write before it returns (no_writeback)
  noquota                          do not tell users, groups and projects apart
  direct_io                        reads and writes bypass the page cache
  hot_track, no_hot_track          record which files and ranges are hot
  heat=exact                       the same, with every read visible (direct_io)
  heat=opens                       the same for host:DIR, of opens and sizes alone
  observe                          heat, statistics and lock profile of host:DIR, and no quotas
  state=DIR                        where heat of host:DIR outlives the mount: /var/lib/hearth for
                                   root, ~/.local/state/hearth for others
  workers=COUNT                    threads for background work, 1 to 1024: 1
  sched_policy=auto|other|idle     auto: answered programs stay on their CPU where that is quicker
  park=needed|every                suspend every request, for tests of the daemon
  no_open, no_opendir, no_flush    the kernel does not report these
  readdirplus=auto|yes|no          listings bring attributes along
  passthrough=auto|on|off          the kernel itself reads and writes the files of host:DIR where
                                   nobody has to see the data
  no_parallel_dirops               one lookup or listing of a directory at a time
  max_write=BYTES                  largest read or write request
  allow_other                      users other than yourself may look
  idmap                            mounts with mapped ids may be made of it (Linux 6.12)
  fsname=NAME                      first column of df
Options of mount(8) and fstab (defaults, noauto, user, nofail, _netdev, x-*, ...) are ignored.";

/// `hearth mount`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "hearth mount [OPTIONS] [SOURCE] <MOUNTPOINT>\n       \
                      hearth mount [OPTIONS] --config <FILE>",
    after_help = MOUNT_OPTIONS
)]
pub struct MountArgs {
    /// An empty directory; before it, where the volume lives: memory:, gone after the unmount,
    /// store:DIR, kept in DIR, or host:DIR or a path, that directory as it is [default: memory:]
    #[arg(
        value_name = "MOUNTPOINT",
        num_args = 1..=2,
        required_unless_present = "config",
        conflicts_with = "config"
    )]
    pub places: Vec<PathBuf>,
    /// A file that says what is mounted where: mountpoint = "/srv/data", source = "store:DIR",
    /// options = ["ro", "size=1G"], log = "FILE"; for hearth@NAME.service it is
    /// /etc/hearth/NAME.toml
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Mount options, separated by commas
    #[arg(short, long = "options", value_name = "OPTS")]
    pub options: Vec<String>,
    /// Stay in the foreground
    #[arg(short, long)]
    pub foreground: bool,
    /// Where the daemon in the background writes its messages [default: hearth.log in /var/log for
    /// root, in ~/.local/state for others]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Started by `hearth mount`: report on standard output, then detach
    #[arg(long, hide = true)]
    pub detach: bool,
    /// Not called by mount(8).
    #[arg(skip = true)]
    pub by_hand: bool,
    /// Called by mount(8) without `-v`: nothing is said of what works.
    #[arg(skip = false)]
    pub quiet: bool,
    /// Called by mount(8) with `-s`: unknown options are left out.
    #[arg(skip = false)]
    pub sloppy: bool,
}

impl MountArgs {
    /// Where the volume lives, as it was typed.
    pub fn source(&self) -> Cow<'_, str> {
        match &*self.places {
            [source, _] => source.to_string_lossy(),
            _ => "memory:".into(),
        }
    }

    /// The directory that shows it.
    pub fn mountpoint(&self) -> &Path {
        self.places.last().map_or(Path::new(""), PathBuf::as_path)
    }
}

/// `hearth umount`.
#[derive(Debug, clap::Args)]
pub struct UmountArgs {
    /// Where the volume is mounted
    #[arg(required_unless_present = "config", conflicts_with = "config")]
    pub mountpoint: Option<PathBuf>,
    /// The file that it was mounted by, which names the place
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Detach the mount now even if it is in use; it ends with its last user
    #[arg(short, long)]
    pub lazy: bool,
}

/// `hearth sync`.
#[derive(Debug, clap::Args)]
pub struct SyncArgs {
    /// Where the volume is mounted [default: as of the working directory, or the only one]
    pub mount: Option<PathBuf>,
}

/// `hearth stats`.
#[derive(Debug, clap::Args)]
pub struct StatsArgs {
    /// Where the volume is mounted [default: as of the working directory, or the only one]
    pub mount: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print what happened in every second, until interrupted
    #[arg(short, long)]
    pub watch: bool,
}

/// `hearth tune`.
#[derive(Debug, clap::Args)]
pub struct TuneArgs {
    /// Where the volume is mounted
    pub mountpoint: PathBuf,
    /// NAME shows a tunable, NAME=VALUE sets it, in this order, until one is refused; without any,
    /// show all and what they take
    #[arg(value_name = "NAME[=VALUE]")]
    pub tunables: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `hearth locks`.
#[derive(Debug, clap::Args)]
pub struct LocksArgs {
    /// Where the volume is mounted
    pub mount: PathBuf,
    /// Record a profile for so long (10s, 500ms, 2m), or until interrupted, and show it; without
    /// it, show what was recorded
    #[arg(long = "for", value_name = "TIME", value_parser = crate::locks::length)]
    pub length: Option<Duration>,
    /// Record every lock, at its price, not only every wait
    #[arg(long, requires = "length")]
    pub exact: bool,
    /// Show who holds which file lock (flock, fcntl) instead, and who waits for whom
    #[arg(long, conflicts_with_all = ["length", "exact", "sort"])]
    pub files: bool,
    /// Column to sort by
    #[arg(long, value_enum, default_value_t = LocksSort::Util)]
    pub sort: LocksSort,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Columns to sort by.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum LocksSort {
    /// Share of the time that the lock was held
    Util,
    /// Share of the requests that were not granted at once
    Con,
    /// Mean wait
    Wait,
    /// Requests
    Total,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Verbs without `--json`, and why each has none.
    const WITHOUT_JSON: &[(&str, &str)] = &[
        ("mount", "mounts"),
        ("umount", "unmounts"),
        ("sync", "syncs"),
        ("mkfs", "makes a volume"),
        ("dump", "prints a tar archive"),
        ("load", "makes files"),
        ("passphrase", "sets"),
        ("ask", "prints the volume's own answer, which may be JSON"),
        ("metrics", "prints the text that Prometheus reads"),
        ("completions", "prints a script"),
        ("man", "writes files"),
        ("quota set", "sets"),
        ("quota grace", "sets"),
        ("quota on", "sets"),
        ("quota off", "sets"),
        ("heat on", "sets"),
        ("heat off", "sets"),
        ("heat export", "prints JSON already, an object a line"),
        ("heat import", "sets"),
        ("sched weight", "sets"),
        ("sched limit", "sets"),
    ];

    /// Verbs that can be typed, each with whether it has `--json`.
    fn verbs(command: &clap::Command, above: &str, found: &mut Vec<(String, bool)>) {
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let name = format!("{above} {}", verb.get_name()).trim().to_owned();
            if !verb.is_subcommand_required_set() {
                let json = verb.get_arguments().any(|a| a.get_long() == Some("json"));
                found.push((name.clone(), json));
            }
            verbs(verb, &name, found);
        }
    }

    #[test]
    fn every_verb_has_json_unless_it_is_named_with_the_reason() {
        let mut found = Vec::new();
        verbs(&Args::command(), "", &mut found);
        let with_json = |(_, json): &&(String, bool)| *json;
        assert!(found.iter().filter(with_json).count() > 10, "{found:?}");
        let mut without: Vec<_> = found.iter().filter(|(_, json)| !json).collect();
        without.sort();
        let mut named: Vec<_> = WITHOUT_JSON.iter().map(|(name, _)| *name).collect();
        named.sort();
        let without: Vec<_> = without.iter().map(|(name, _)| &**name).collect();
        assert_eq!(without, named);
    }

    #[test]
    fn arguments_fit_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_mount_option_in_the_help_is_one() {
        let value = |name: &str| match name {
            "transport=auto|uring|dev" => "transport=uring".to_owned(),
            "errors=remount-ro|continue|panic" => "errors=continue".to_owned(),
            "heat=exact" => "heat=exact".to_owned(),
            "readdirplus=auto|yes|no" => "readdirplus=no".to_owned(),
            "workers=COUNT" => "workers=8".to_owned(),
            "memory=BYTES" => "memory=64M".to_owned(),
            "commit=SECONDS" => "commit=5".to_owned(),
            "compress=lz4|none|zstd" => "compress=zstd:5".to_owned(),
            "encrypt=FILE|env" => "encrypt=env".to_owned(),
            "sched_policy=auto|other|idle" => "sched_policy=idle".to_owned(),
            "park=needed|every" => "park=every".to_owned(),
            "heat=opens" => "heat=opens".to_owned(),
            _ => match name.split_once('=') {
                Some((name, words)) if words.contains('|') => {
                    format!("{name}={}", words.split('|').next().unwrap())
                }
                Some((name, _)) => format!("{name}=8192"),
                None => name.to_owned(),
            },
        };
        let lines = MOUNT_OPTIONS
            .lines()
            .filter_map(|line| line.strip_prefix("  "));
        let listed: Vec<String> = lines
            .flat_map(|line| line[..33].split([',', ' ']))
            .filter(|word| !word.is_empty())
            .map(value)
            .collect();
        assert!(listed.len() > 20, "{listed:?}");
        for option in listed {
            assert!(
                hearth_fuse::MountOptions::parse(&[&option]).is_ok(),
                "{option}"
            );
        }
    }
}
