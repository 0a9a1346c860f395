//! The sync before an unmount: a failure is told while the mount is there to be saved from.
//!
//! What is not durable yet becomes so when the daemon ends, and if that fails only its log knows.
//! So a volume is asked for a sync while it is mounted. Where room is missing it stays mounted, for
//! somebody to make some. Any other failure is told: an unmount is what mends a volume that takes
//! no more changes. There is nobody to ask, and less to lose, where the daemon is gone, where a
//! tree of the host hides the control files, and in a directory of the host, whose files are
//! written by its own filesystem.

use crate::failure::reason;
use crate::inquiry::{self, Facts, PATIENCE};
use crate::question::Question;
use crate::{control_file, output, wrong_place};
use rustix::fs::{Mode, OFlags, fsync, open, syncfs};
use std::fs::File;
use std::io::{self, Error, ErrorKind, Write};
use std::path::Path;
use std::time::Instant;

/// Makes durable what was changed at `place`, a path without links, whose mount says `facts`. Takes
/// as long as the disk does. The error says what is wrong and what to do; a failure that nobody can
/// mend while it is mounted is only told.
pub fn run(place: &Path, facts: &Facts) -> Result<(), String> {
    let (asked, is_host) = (place.to_owned(), facts.contains_key("below"));
    let question = Question::ask(move || match is_host {
        true => {
            hand_over(&asked);
            Ok(())
        }
        false => sync(&asked),
    });
    let question = question.map_err(|error| format!("no thread for a sync: {}", reason(&error)))?;
    let mut is_told = false;
    let shown = place.display();
    loop {
        if let Some(synced) = question.wait(Instant::now() + PATIENCE) {
            return match synced {
                Err(error) if error.kind() == ErrorKind::StorageFull => Err(full(place, &error)),
                Err(error) => {
                    let why = reason(&error);
                    output::say(format_args!(
                        "{shown}: what was changed last is not durable: {why}; see the log of its \
                         daemon"
                    ));
                    Ok(())
                }
                Ok(()) => Ok(()),
            };
        }
        if inquiry::ask(place).is_none() {
            return Err(silent(place));
        }
        if !std::mem::replace(&mut is_told, true) {
            output::say(format_args!(
                "{shown}: its daemon is writing what was changed; 'hearth umount --lazy {shown}' \
                 does not wait for that"
            ));
        }
    }
}

/// What to do about a mount that does not answer.
pub fn silent(place: &Path) -> String {
    let place = place.display();
    format!(
        "does not answer: its daemon is stopped, or waits for a disk; let that go on, or detach it \
         with 'hearth umount --lazy {place}'"
    )
}

fn full(place: &Path, error: &Error) -> String {
    let (why, place) = (reason(error), place.display());
    format!(
        "stays mounted, since what was changed last is not durable: {why}; make room on the disk \
         of its store and try again, or give that up with 'hearth umount --lazy {place}'"
    )
}

/// Has the volume that is mounted at `place` make everything durable, if it can be asked.
fn sync(place: &Path) -> io::Result<()> {
    let done = match control_file::open_to_ask(place, "ask") {
        Ok(mut control) => {
            // What the kernel has collected goes to the daemon first. What it has lost, by a quota
            // for instance, is lost, and its writers are told.
            let _ = syncfs(&control);
            control.write_all(b"sync")
        }
        // Nothing can be written to it with ro, and nothing is asked by it with no_open. What was
        // written before may be on its way still.
        Err(error) if is_mute(&error) => {
            hand_over(place);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match open(place, flags, Mode::empty()) {
                Ok(directory) => fsync(directory).map_err(Error::from),
                Err(_) => Ok(()),
            }
        }
        Err(_) => {
            hand_over(place);
            Ok(())
        }
    };
    match done {
        // The daemon has just ended, or is of a version that knows no such question.
        Err(error) if wrong_place::is_dead(&error) || error.kind() == ErrorKind::InvalidInput => {
            Ok(())
        }
        done => done,
    }
}

/// Whether there is a mount that takes no question.
fn is_mute(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::UnexpectedEof
    )
}

/// Most of what the kernel has collected is handed over while the mount can still be used.
fn hand_over(place: &Path) {
    if let Ok(directory) = File::open(place) {
        // Who asks for durability there asks the filesystem below.
        let _ = syncfs(&directory);
    }
}
