//! The daemon: a volume, a session, and the signals that end it.

use crate::args::MountArgs;
use crate::failure::{Failure, reason};
use crate::maintenance::Maintenance;
use crate::printable::{printable, printable_path};
use crate::quota::EventLog;
use crate::{fstab, host, mounts, naming, output, readiness, room, signals, store};
use hearth::{HostSourceOptions, KernelCache, OpenError, Source, Volume, VolumeBuilder};
use hearth_fuse::{MountOptions, SchedPolicy, Session};
use hearth_store::Error;
use hearth_sync::primitive::{Arc, thread};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use signal_hook::iterator::Signals;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Reads the options without doing anything.
pub fn options(source: &Source, args: &MountArgs) -> Result<MountOptions, Failure> {
    source_options(source, &args.options)
}

/// The options of a mount of `source` that were `typed`.
pub fn source_options(source: &Source, typed: &[String]) -> Result<MountOptions, Failure> {
    let usage = |error: &dyn Display| {
        Failure::usage(format!("{error}; 'hearth mount --help' lists the options"))
    };
    let given = fstab::ours(typed);
    let defaults = match source {
        Source::Host(_) => MountOptions::changed_behind(),
        Source::Memory | Source::Store(_) => MountOptions::default(),
    };
    let mut options = defaults.with(&given).map_err(|error| usage(&error))?;
    if options.fsname == MountOptions::default().fsname {
        options.fsname = naming::of(source).to_string_lossy().into_owned();
    }
    source
        .takes(&options.volume)
        .map_err(|error| usage(&error))?;
    match source {
        Source::Host(directory) => host::options(directory, options),
        Source::Memory | Source::Store(_) if options.passthrough.is_some() => {
            let line = "option 'passthrough': needs a source host:DIR, since elsewhere nothing \
                        lies below; leave it out";
            Err(Failure::usage(line))
        }
        Source::Memory | Source::Store(_) => Ok(options),
    }
}

/// Mounts, reports, and returns after the unmount.
pub fn run(source: Source, args: &MountArgs) -> Result<(), Failure> {
    let options = options(&source, args)?;
    let signals = Signals::new(signals::of_an_end())
        .map_err(|error| Failure::refused(format!("signals: {}", reason(&error))))?;
    let log = args
        .detach
        .then(|| log_file(args.log.as_deref()))
        .transpose()?;
    let policy = options.sched_policy;
    policy.check().map_err(|error| refused_policy(&error))?;
    hearth::yield_between_operations(true);
    room::warn(&source, &options.volume);
    let volume = volume(&source, &options, args.mountpoint())?;
    // What a remount may ask for again.
    let typed = fstab::ours(&args.options).join(",");
    volume.stats().set_info("options", &typed);
    volume.stats().set_info("source", &source.to_string());
    let attendant = Attendant {
        args,
        volume,
        policy,
        signals,
        log,
    };
    if let Source::Host(directory) = &source {
        let started = host::start(directory, &attendant.volume, args.mountpoint(), options);
        let (session, vfs) = started?;
        let ended = attendant.attend(session);
        let kept = vfs.end_quotas().map_err(|error| {
            let what = format!("quotas are counted again: {}", reason(&error));
            Failure::at(directory, what)
        });
        return ended.and(kept);
    }
    let session = Session::start(attendant.volume.clone(), args.mountpoint(), options);
    attendant.attend(session.map_err(Failure::refused)?)
}

/// What the daemon has besides its session.
struct Attendant<'a> {
    args: &'a MountArgs,
    volume: Volume,
    policy: SchedPolicy,
    signals: Signals,
    /// Where messages go, in the background.
    log: Option<File>,
}

impl Attendant<'_> {
    /// Reports that the mount works, and returns after the unmount.
    fn attend<V: KernelCache>(self, session: Session<V>) -> Result<(), Failure> {
        let Attendant {
            args,
            volume,
            policy,
            signals,
            log,
        } = self;
        if args.detach {
            rustix::process::setsid().map_err(|error| no_daemon(&error.into()))?;
        }
        // In its own session: in that of its caller others may compute.
        policy.apply().map_err(|error| refused_policy(&error))?;
        output::print_and_go_on(&format!(
            "hearth: {} on {}, transport {}\n",
            printable(&args.source()),
            printable_path(args.mountpoint()),
            session.transport()
        ))?;
        if let Some(log) = &log {
            detach(log)?;
        }
        if args.foreground {
            readiness::tell();
        }
        let log = EventLog::start(&volume);
        let maintenance = Maintenance::start(&volume, &args.source());
        serve(session, signals)?;
        drop(log);
        // What was changed last is durable before the daemon ends.
        let closed = volume.close();
        drop(maintenance);
        closed.map_err(|error| Failure::refused(format!("{}: the end: {error}", args.source())))
    }
}

fn refused_policy(error: &std::io::Error) -> Failure {
    let why = reason(error);
    Failure::refused(format!("sched_policy=idle: {why}; leave the option out"))
}

/// What is served from `source` at `mountpoint`, or stands beside it.
pub fn volume(
    source: &Source,
    options: &MountOptions,
    mountpoint: &Path,
) -> Result<Volume, Failure> {
    let who = format!("{MOUNTED_ON}{}", mounts::resolved(mountpoint).display());
    let is_new = match source {
        Source::Store(directory) => options.volume.store.create && hearth::is_free(directory),
        Source::Memory | Source::Host(_) => false,
    };
    // Beside a directory of the host stands a volume with the control files and nothing else.
    let (mut options, mut source) = (options.clone(), source);
    let is_host = matches!(source, Source::Host(_));
    if is_host {
        (options.volume.xdev, source) = (false, &Source::Memory);
        options.volume.host = HostSourceOptions::default();
        options.volume.memory = None;
    }
    let builder = builder(source, &options, &who)?;
    if is_new {
        output::say(format_args!("{source} is a new volume"));
    }
    // A new volume belongs to whoever makes it.
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let volume = builder
        .root_owner(user.as_raw(), group.as_raw())
        .serves_elsewhere(is_host)
        .build()
        .map_err(|error| Failure::refused(format!("the volume cannot be made: {error}")))?;
    if let Source::Store(directory) = source {
        let store = mounts::resolved(directory);
        volume.stats().set_info("store", &store.to_string_lossy());
    }
    Ok(volume)
}

/// The builder of the volume. A daemon whose mount is gone already, because `umount(8)` does not
/// wait for it, is waited for.
fn builder(source: &Source, options: &MountOptions, who: &str) -> Result<VolumeBuilder, Failure> {
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        match source.builder(&options.volume, who) {
            Err(OpenError::Store(directory, Error::InUse { who, .. }))
                if begun.elapsed() < patience(&who) =>
            {
                // A reader may stay: then the refusal says all.
                if !is_told && is_ending(&who) {
                    let directory = directory.display();
                    output::say(format_args!("{directory}: waiting for the end of {who}"));
                    is_told = true;
                }
                thread::sleep(LOOK);
            }
            Err(OpenError::Store(directory, Error::InUse { who, .. }))
                if options.volume.read_only =>
            {
                let what = format!(
                    "in use by {who}; unmount it there, or copy what its last commit has with \
                     'hearth dump'"
                );
                return Err(Failure::at(&directory, what));
            }
            Err(OpenError::Store(directory, error)) => {
                return Err(store::refusal(&directory, &error));
            }
            built => return built.map_err(Failure::refused),
        }
    }
}

/// How long the end of an earlier daemon is waited for, that of a reader or of a process without a
/// name, which may be such a daemon, and how often it is looked at.
const ENDING: Duration = Duration::from_secs(30);
const READING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// How long the user of a volume is waited for.
fn patience(who: &str) -> Duration {
    match who {
        _ if is_ending(who) => ENDING,
        _ if who.ends_with(hearth_store::READS) || who == hearth_store::UNNAMED => READING,
        _ => Duration::ZERO,
    }
}

/// Whether the user of a volume was a mount that is gone: what it says of itself is written by
/// [`volume`].
fn is_ending(who: &str) -> bool {
    let Some((_, place)) = who.split_once(MOUNTED_ON) else {
        return false;
    };
    let mounted = mounts::at(Path::new(place));
    !mounted.is_ok_and(|mounted| mounted.is_some_and(|mounted| mounted.is_ours()))
}

/// What stands before the mount point in the name of a user.
const MOUNTED_ON: &str = "mounted on ";

/// Opens the file for messages before anything is mounted, so that a bad name is told at once.
fn log_file(asked: Option<&Path>) -> Result<File, Failure> {
    let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
    if let Some(path) = asked {
        return open(path).map_err(|error| {
            Failure::at(
                path,
                format!("no log file: {}; choose another", reason(&error)),
            )
        });
    }
    let usual = usual_log();
    let directory = usual.parent().map_or(Ok(()), std::fs::create_dir_all);
    directory
        .and_then(|()| open(&usual))
        .or_else(|_| open(Path::new("/dev/null")))
        .map_err(|error| Failure::at(Path::new("/dev/null"), reason(&error)))
}

/// Where the daemon in the background writes its messages.
pub fn log_name(args: &MountArgs) -> PathBuf {
    args.log.clone().unwrap_or_else(usual_log)
}

/// Where messages go when nothing else is asked: a daemon that cannot write there goes without.
fn usual_log() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/var/log/hearth.log".into();
    }
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
    std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(home)
        .map_or_else(|| "/dev/null".into(), |state| state.join("hearth.log"))
}

fn no_daemon(error: &std::io::Error) -> Failure {
    Failure::refused(format!("daemon: {}", reason(error)))
}

/// Leaves what it was started with. Standard output closes last: that is how the parent knows.
fn detach(log: &File) -> Result<(), Failure> {
    let daemon = |error: std::io::Error| no_daemon(&error);
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(daemon)?;
    std::env::set_current_dir("/").map_err(daemon)?;
    dup2_stdin(&null).map_err(|error| daemon(error.into()))?;
    dup2_stderr(log).map_err(|error| daemon(error.into()))?;
    dup2_stdout(&null).map_err(|error| daemon(error.into()))
}

/// Waits for the unmount; signals ask for it.
fn serve<V: KernelCache>(session: Session<V>, mut signals: Signals) -> Result<(), Failure> {
    let handle = signals.handle();
    let session = Arc::new(session);
    let asked = Arc::clone(&session);
    let waiter = thread::spawn(move || {
        for _ in signals.forever() {
            match asked.unmount() {
                Ok(()) => break,
                // The mount goes on, and so does who asks to end it.
                Err(error) => output::say(format_args!("{error}")),
            }
        }
    });
    session.wait();
    handle.close();
    waiter
        .join()
        .map_err(|_| Failure::refused("the thread that waits for signals panicked"))
}
