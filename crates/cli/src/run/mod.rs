//! `hearth run`: a program inside a host volume over the current directory. See
//! `docs/design/run.md`.
//!
//! This process has one thread: a PID namespace and a user namespace are for those only.

mod account;
mod args;
mod init;
mod namespaces;
mod server;
mod summary;

pub use args::{InitArgs, RunArgs, ServerArgs};
pub use init::run as init;
pub use server::run as server;

use crate::failure::{Failure, reason};
use crate::signals::ignored;
use crate::{host, mounts, wrong_place};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process};
use server::Server;
use signal_hook::consts::{
    SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGURG, SIGUSR1, SIGUSR2,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// Exit status where the program was not started, or what it works in has gone.
const NOT_RUN: u8 = 125;

/// Runner to init: the program may start. Nobody else has a use for it, and it does no harm.
const GO: i32 = SIGURG;

/// Runs a program in the current directory, which Hearth serves meanwhile. A failure carries the
/// exit status of the program.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let ended = begin(args).map_err(|failure| Failure {
        status: NOT_RUN,
        ..failure
    })?;
    match ended {
        0 => Ok(()),
        status => Err(Failure {
            line: String::new(),
            status,
        }),
    }
}

fn begin(args: &RunArgs) -> Result<u8, Failure> {
    // A misspelt option is taken for the program.
    if let Some(option) = args
        .command
        .first()
        .filter(|word| word.as_encoded_bytes().starts_with(b"-"))
    {
        let option = option.display();
        let what = format!("option '{option}' is unknown; see 'hearth run --help'");
        return Err(Failure::usage(what));
    }
    let here = std::env::current_dir();
    let here = here.map_err(|error| {
        let remedy = "change to a directory that is there";
        wrong_place::failure(Path::new("."), &error, remedy)
    })?;
    host::check_source(&here)?;
    check_place(&here)?;
    // Before a child may end.
    let mut signals = signals(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD])?;
    let source = mounts::resolved(&here);
    namespaces::enter_mounts()?;
    let mut ended = None;
    let mut is_ended = || {
        ended = ended.or(ended_before(&mut signals));
        ended.is_some()
    };
    let server = match Server::start(&source, &args.limits, &mut is_ended) {
        Ok(server) => server,
        // The terminal's signal reaches the server too, until it has a session of its own.
        Err(failure) => {
            is_ended();
            return ended.ok_or(failure);
        }
    };
    // Through the mount: this process still is in what the mount covers.
    std::env::set_current_dir(&here).map_err(|error| Failure::at(&here, reason(&error)))?;
    namespaces::enter_pids()?;
    let status = match ended_before(&mut signals) {
        Some(status) => Some(status),
        None => {
            let init = start_init(&args.command)?;
            until_caught(init.id());
            let target = pid(init.id());
            // What has come by now may have been lost on init. It has not started the program.
            match ended_before(&mut signals) {
                Some(status) => {
                    send(SIGKILL, target);
                    let ended = wait(init.id(), server.id(), &mut signals)?;
                    ended.map(|_| status)
                }
                None => {
                    send(GO, target);
                    wait(init.id(), server.id(), &mut signals)?
                }
            }
        }
    };
    match status {
        Some(status) => {
            // The mount is in use otherwise.
            let _ = std::env::set_current_dir("/");
            summary::print(&here, &server.end()?, args.json);
            Ok(status)
        }
        None => Err(Failure::at(
            &here,
            "its server has ended, and the program with it; what was written to files is there",
        )),
    }
}

/// Refuses directories that cannot be covered by a mount of their own contents.
fn check_place(here: &Path) -> Result<(), Failure> {
    // It opens the device again for each of its threads.
    let device = fs::canonicalize("/dev/fuse").unwrap_or_default();
    if here == Path::new("/") || device.starts_with(mounts::resolved(here)) {
        let what = "holds what the server itself needs; change to the directory of the work first";
        return Err(Failure::at(here, what));
    }
    let mounted = mounts::at(&mounts::resolved(here)).ok().flatten();
    if mounted.is_some_and(|mounted| mounted.is_ours()) {
        let what = "is served by Hearth already, by a mount or another 'hearth run'; start the \
                    program without 'hearth run', or in a directory below";
        return Err(Failure::at(here, what));
    }
    Ok(())
}

fn start_init(command: &[OsString]) -> Result<Child, Failure> {
    let mut init = Command::new("/proc/self/exe");
    init.args(["run-init", "--"]).args(command);
    init.spawn()
        .map_err(|error| Failure::refused(format!("the program: {}", reason(&error))))
}

/// Handlers for `kinds`, in their order, that tell who has sent a signal. What the process was
/// started to ignore, as by `nohup`, stays ignored, and the program is started to ignore it too.
fn signals(kinds: &[i32]) -> Result<SignalsInfo<WithOrigin>, Failure> {
    let ignored = ignored();
    let is_own = |signal: &&i32| matches!(**signal, SIGCHLD | GO);
    let heard = |signal: &&i32| is_own(signal) || !ignored(**signal);
    let signals = SignalsInfo::<WithOrigin>::new(kinds.iter().filter(heard));
    signals.map_err(|error| Failure::refused(format!("signals: {}", reason(&error))))
}

/// The exit status if a signal has come that ends what is being started: there is no program yet
/// that could decide otherwise.
fn ended_before(signals: &mut SignalsInfo<WithOrigin>) -> Option<u8> {
    // The end of a child, which is forgotten here, is looked for again by whoever waits for it.
    let mut came = signals.pending().map(|origin| origin.signal);
    let signal = came.find(|&signal| !matches!(signal, SIGCHLD | GO))?;
    u8::try_from(128 + signal).ok()
}

/// Waits until init has its handlers, or has ended: the kernel drops what process 1 of a namespace
/// has no handler for.
fn until_caught(init: u32) {
    // It takes this handler last.
    while catches(init, GO) == Some(false) {
        hearth_sync::primitive::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process has a handler for `signal`. None of one that has ended, or is not to be seen.
fn catches(process: u32, signal: i32) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))?;
    let mask = u64::from_str_radix(caught.trim(), 16).ok()?;
    (!status.contains("(zombie)")).then_some(mask >> (signal - 1) & 1 == 1)
}

/// Waits for the end of init, and passes signals on to it. Returns its exit status; nothing if the
/// server has ended before.
fn wait(
    init: u32,
    server: u32,
    signals: &mut SignalsInfo<WithOrigin>,
) -> Result<Option<u8>, Failure> {
    let init = pid(init);
    let mut has_server = true;
    loop {
        while let Some((ended, status)) = ended_child()? {
            if Some(ended) == init {
                return Ok(has_server.then(|| exit_status(status)));
            }
            if Some(ended) == pid(server) {
                has_server = false;
                // The program would only see errors, and might wait for ever.
                let _ = init.map(|init| kill_process(init, Signal::KILL));
            }
        }
        for origin in signals.wait() {
            pass_on(&origin, init);
        }
    }
}

fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(id as i32)
}

/// A child that has ended.
fn ended_child() -> Result<Option<(Pid, WaitStatus)>, Failure> {
    match rustix::process::wait(WaitOptions::NOHANG) {
        Ok(ended) => Ok(ended),
        Err(rustix::io::Errno::CHILD) => Ok(None),
        Err(error) => Err(Failure::refused(format!("waiting: {error}"))),
    }
}

/// Sends a signal of a process on to `target`. One of the terminal has reached it already.
fn pass_on(origin: &Origin, target: Option<Pid>) {
    if origin.signal != SIGCHLD && matches!(origin.cause, Cause::Sent(_)) {
        send(origin.signal, target);
    }
}

fn send(signal: i32, target: Option<Pid>) {
    if let (Some(target), Some(signal)) = (target, Signal::from_named_raw(signal)) {
        // It may have ended.
        let _ = kill_process(target, signal);
    }
}

/// The status that a shell shows.
fn exit_status(status: WaitStatus) -> u8 {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => i32::from(NOT_RUN),
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}
