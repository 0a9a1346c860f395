//! Process 1 of a program's PID namespace.

use super::args::InitArgs;
use super::{
    GO, catches, ended_before, ended_child, exit_status, namespaces, pass_on, pid, send, signals,
};
use crate::failure::{Failure, reason};
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::io::ErrorKind;
use std::process::Command;

/// Exit statuses of a program that is not there, and of one that cannot be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

/// Starts the program, collects every orphan, and ends with the program.
pub fn run(args: &InitArgs) -> Result<(), Failure> {
    let dies = set_parent_process_death_signal(Some(Signal::KILL));
    dies.map_err(|error| Failure::refused(format!("the runner's end: {error}")))?;
    let kinds = [
        SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, GO,
    ];
    let mut signals = signals(&kinds)?;
    namespaces::mount_proc()?;
    namespaces::give_up_rights()?;
    let Some((name, rest)) = args.command.split_first() else {
        return Err(Failure::usage("no program given; see 'hearth run --help'"));
    };
    until_go(&mut signals);
    let program = Command::new(name).args(rest).spawn().map_err(|error| {
        let is_missing = error.kind() == ErrorKind::NotFound;
        Failure {
            status: if is_missing { NOT_FOUND } else { NOT_STARTED },
            line: format!("{}: {}", name.display(), reason(&error)),
        }
    })?;
    pass_on_missed(&mut signals, program.id());
    let program = pid(program.id());
    loop {
        while let Some((ended, status)) = ended_child()? {
            if Some(ended) == program {
                std::process::exit(i32::from(exit_status(status)));
            }
        }
        for origin in signals.wait() {
            pass_on(&origin, program);
        }
    }
}

/// Waits until the runner has seen that this process has its handlers: from then on the terminal's
/// signals are this process' own affair. Ends the process if one has come meanwhile.
fn until_go(signals: &mut SignalsInfo<WithOrigin>) {
    while !signals.wait().any(|origin| match origin.signal {
        SIGCHLD => false,
        GO => true,
        signal => std::process::exit(128 + signal),
    }) {}
    // GO was seen first of what came together, or came in the middle of the look.
    if let Some(status) = ended_before(signals) {
        std::process::exit(i32::from(status));
    }
}

/// Passes on what has come while the program was started. A signal of the terminal may have missed
/// it. A program with a handler has been there for a while: the signal has reached it. One without
/// has it ignored twice, or is ended by it once.
fn pass_on_missed(signals: &mut SignalsInfo<WithOrigin>, program: u32) {
    let target = pid(program);
    let came: Vec<Origin> = signals.pending().collect();
    for origin in came.iter().filter(|origin| origin.signal != SIGCHLD) {
        if matches!(origin.cause, Cause::Sent(_)) || catches(program, origin.signal) == Some(false)
        {
            send(origin.signal, target);
        }
    }
}
