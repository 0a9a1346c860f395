//! What serves the directory of a program: a daemon that ends with its standard input.

use super::account::{self, NO_LIMIT};
use super::args::{RunLimits, ServerArgs};
use super::namespaces;
use crate::failure::{Failure, reason};
use crate::{host, serve};
use hearth::{LimitChange, LimitUpdate, QuotaId, Source, Volume};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsRawFd;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The word of a server that has mounted.
const READY: &str = "ready\n";
/// Pause between two looks for a signal while a server starts.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// A server that runs.
pub struct Server {
    process: Child,
    /// It ends with this.
    input: ChildStdin,
    /// Its word, then its account.
    output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server of `directory` and returns when it has mounted. Fails without a word when it
    /// `is_ended` before.
    pub fn start(
        directory: &Path,
        limits: &RunLimits,
        is_ended: &mut dyn FnMut() -> bool,
    ) -> Result<Server, Failure> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("run-server");
        for options in &limits.options {
            command.arg("-o").arg(options);
        }
        command.args(limits.observe.then_some("--observe"));
        for (name, limit) in [("--limit", limits.limit), ("--inodes", limits.inodes)] {
            if let Some(limit) = limit {
                command.arg(name).arg(limit.to_string());
            }
        }
        command.arg("--").arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let refused = |why: &str| Failure::at(directory, format!("its server: {why}"));
        let mut process = command.spawn().map_err(|error| refused(&reason(&error)))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(refused("no pipes"));
        };
        while !is_readable(&output).map_err(|error| refused(&reason(&error)))? {
            if is_ended() {
                // What it has mounted goes with it.
                let _ = process.kill();
                break;
            }
        }
        let mut word = String::new();
        let mut output = BufReader::new(output);
        let read = output.read_line(&mut word);
        read.map_err(|error| refused(&reason(&error)))?;
        if word == READY {
            return Ok(Server {
                process,
                input,
                output,
            });
        }
        let _ = process.wait();
        // It has said why.
        Err(Failure {
            line: String::new(),
            status: super::NOT_RUN,
        })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends it, and returns its account when it has ended.
    pub fn end(self) -> Result<String, Failure> {
        let Server {
            mut process,
            input,
            mut output,
        } = self;
        drop(input);
        let mut account = String::new();
        let read = output.read_to_string(&mut account);
        let ended = read.and_then(|_| process.wait());
        ended.map_err(|error| Failure::refused(format!("the server: {}", reason(&error))))?;
        Ok(account)
    }
}

/// Whether `output` can be read without a wait, or becomes so within [`LOOK`].
fn is_readable(output: &ChildStdout) -> std::io::Result<bool> {
    let mut wanted = [PollFd::new(output, PollFlags::IN)];
    match poll(&mut wanted, Some(&LOOK)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Serves until standard input ends.
pub fn run(args: &ServerArgs) -> Result<(), Failure> {
    // The terminal's signals are for the program. A terminal stops no process of another session
    // that writes to it, as `stty tostop` would stop this one with its mount.
    let _ = rustix::process::setsid();
    let (directory, limits) = (&args.directory, &args.limits);
    let source = Source::Host(directory.clone());
    // Nothing of a run outlives it.
    let state = namespaces::private_directory()?;
    let mut typed = limits.options.clone();
    typed.push(format!(
        "hot_track,state=/proc/self/fd/{}",
        state.as_raw_fd()
    ));
    typed.push(if limits.observe { "observe" } else { "quota" }.to_owned());
    let mut options = serve::source_options(&source, &typed)?;
    options.covers = true;
    hearth::yield_between_operations(true);
    let volume = serve::volume(&source, &options, directory)?;
    let (session, vfs) = host::start(directory, &volume, directory, options)?;
    limit(&volume, limits)?;
    // The runner may have ended.
    let _ = std::io::stdout().write_all(READY.as_bytes());
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    let _ = writeln!(
        std::io::stdout(),
        "{}",
        account::of(&volume, &vfs.refusals())
    );
    // Whoever was in the namespace is gone. If not, the mount ends with this process.
    let unmounted = session.unmount();
    if unmounted.is_ok() {
        session.wait();
    }
    let closed = volume.close();
    let kept = vfs.end_quotas();
    unmounted.map_err(|error| Failure::at(directory, error))?;
    closed.map_err(|error| Failure::at(directory, error))?;
    kept.map_err(|error| Failure::at(directory, reason(&error)))
}

/// Sets the limits of the directory, which the program cannot lift although it runs as the owner.
fn limit(volume: &Volume, limits: &RunLimits) -> Result<(), Failure> {
    if limits.limit.or(limits.inodes).is_none() {
        return Ok(());
    }
    let update = |limit: Option<u64>| LimitUpdate::To(limit.unwrap_or(NO_LIMIT));
    let change = LimitChange {
        bytes_hard: update(limits.limit),
        inodes_hard: update(limits.inodes),
        ..LimitChange::default()
    };
    let quota = volume.quota();
    let set = quota
        .set(QuotaId::VOLUME, &change)
        .and_then(|()| quota.fix_volume());
    set.map_err(|error| Failure::refused(format!("the limits: {error}")))
}
