//! Process 1 of a program's PID namespace.

use super::args::InitArgs;
use super::{
    ended_before, ended_child, exit_status, namespaces, pass_on, pass_on_early, pid, signals,
};
use crate::failure::{Failure, reason};
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io::ErrorKind;
use std::process::Command;

/// Exit statuses of a program that is not there, and of one that cannot be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

/// Starts the program, collects every orphan, and ends with the program.
pub fn run(args: &InitArgs) -> Result<(), Failure> {
    let dies = set_parent_process_death_signal(Some(Signal::KILL));
    dies.map_err(|error| Failure::refused(format!("the runner's end: {error}")))?;
    let mut signals = signals(&[SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])?;
    namespaces::mount_proc()?;
    namespaces::give_up_rights()?;
    let Some((name, rest)) = args.command.split_first() else {
        return Err(Failure::usage("no program given; see 'hearth run --help'"));
    };
    if let Some(status) = ended_before(&mut signals) {
        std::process::exit(i32::from(status));
    }
    let program = Command::new(name).args(rest).spawn().map_err(|error| {
        let is_missing = error.kind() == ErrorKind::NotFound;
        Failure {
            status: if is_missing { NOT_FOUND } else { NOT_STARTED },
            line: format!("{}: {}", name.display(), reason(&error)),
        }
    })?;
    let program = pid(program.id());
    pass_on_early(&mut signals, program);
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
