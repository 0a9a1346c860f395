//! `hearth locks`: the control files `.hearth/locks` and `.hearth/locks.json` for people and for
//! programs.

mod files;
mod length;
mod parse;

use crate::args::{LocksArgs, LocksSort};
use crate::failure::{Failure, reason};
use crate::wrong_place::{OWNERS, unreached};
use crate::{control_file, output, signals};
use hearth::{LockProfile, LockSort};
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{Arc, thread};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

pub use length::length;

/// How soon an interrupt ends the recording.
const PACE: Duration = Duration::from_millis(50);

/// Prints the lock profile of a mounted volume, after recording one if asked to.
pub fn run(args: &LocksArgs) -> Result<(), Failure> {
    if args.files {
        return files::run(&args.mount, args.json);
    }
    let (text, profile) = match args.length {
        Some(length) => record(&args.mount, length, args.exact)?,
        None => read(&args.mount)?,
    };
    if profile.elapsed_ns == 0 {
        let mount = args.mount.display();
        let what = format!(
            "the lock profile is off and empty; 'hearth locks {mount} --for 10s' records one, \
             'echo on > {mount}/.hearth/locks' begins one"
        );
        return Err(Failure::at(&args.mount, what));
    }
    if args.json {
        return output::print(&text);
    }
    output::print(&profile.text(match args.sort {
        LocksSort::Util => LockSort::Util,
        LocksSort::Con => LockSort::Con,
        LocksSort::Wait => LockSort::Wait,
        LocksSort::Total => LockSort::Total,
    }))
}

/// Turns the profile on for `length`, or until an interrupt, and reads it.
fn record(mount: &Path, length: Duration, exact: bool) -> Result<(String, LockProfile), Failure> {
    if read(mount)?.1.running {
        let shown = mount.display();
        let what = format!(
            "the lock profile is on already; 'hearth locks {shown}' shows it, \
             'echo off > {shown}/.hearth/locks' ends it"
        );
        return Err(Failure::at(mount, what));
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in signals::of_an_end() {
        let flag = Arc::clone(&interrupted);
        signal_hook::flag::register(signal, flag)
            .map_err(|error| Failure::refused(format!("signals: {}", reason(&error))))?;
    }
    switch(mount, if exact { "exact" } else { "on" })?;
    let (begin, mut looks) = (Instant::now(), 0_u32);
    // Relaxed: a flag of its own.
    while begin.elapsed() < length && !interrupted.load(Ordering::Relaxed) {
        thread::sleep(PACE.min(length.saturating_sub(begin.elapsed())));
        looks += 1;
        // Once a second: the question is in the profile.
        if looks.is_multiple_of(20)
            && let Err(error) = control_file::open_to_read(mount, "locks")
        {
            let what = format!("the mount ended meanwhile ({})", reason(&error));
            return Err(Failure::at(mount, what));
        }
    }
    switch(mount, "off")?;
    read(mount)
}

/// Writes a word to the switch: `on`, `exact`, `off`.
///
/// # Errors
/// It is not the caller's to switch, or the volume has no profile.
pub fn switch(mount: &Path, word: &str) -> Result<(), Failure> {
    let denied = "only the owner of the mount and root may turn the lock profile on; ask them";
    control_file::write(mount, "locks", word).map_err(|error| match error.kind() {
        ErrorKind::Unsupported => {
            let what = "this daemon was built without a lock profile; mount with another build";
            Failure::at(mount, what)
        }
        _ => unreached(mount, "locks", &error, denied),
    })
}

/// The profile of the volume mounted at `mount`, as JSON and as the library has it.
///
/// # Errors
/// It is no mount, or its control files cannot be read.
pub fn read(mount: &Path) -> Result<(String, LockProfile), Failure> {
    let name = "locks.json";
    let text =
        control_file::read(mount, name).map_err(|error| unreached(mount, name, &error, OWNERS))?;
    match parse::profile(&text) {
        Some(profile) => Ok((text, profile)),
        None if text.is_empty() => Err(Failure::empty(mount)),
        None => {
            let what = "its daemon writes another form of .hearth/locks.json; use the 'hearth' \
                        that mounted it";
            Err(Failure::at(mount, what))
        }
    }
}
