//! `.hearth/ask`: commands and questions that need more than a word, for the command line and for
//! any program.
//!
//! A program opens the file for reading and writing, writes one command, and reads on in the same
//! open file: the answer. A command is words between blanks, the first of which names the area.
//! Files and directories are named by inode number, since a path may hold any byte. A command that
//! is not understood or not allowed fails the write with an error number and changes nothing; what
//! is read on is the reason, in one line. From a shell:
//!
//! ```text
//! exec 3<>MOUNT/.hearth/ask; echo help >&3; cat <&3
//! ```

mod heat;
mod quota;
mod sched;

use hearth::{ControlError, Credentials, Volume};

/// A parsed word or row of a command, or why it is refused.
type Parsed<T> = Result<T, ControlError>;

/// The answer to a command.
type Reply = Result<String, ControlError>;

/// An area of commands.
struct Area {
    name: &'static str,
    /// The commands of the area, one a line.
    help: &'static str,
    run: fn(&Volume, &Credentials, &[&str]) -> Reply,
}

static AREAS: &[Area] = &[
    Area {
        name: "help",
        help: "help                       this text",
        run: help,
    },
    Area {
        name: "sync",
        help: "sync                       make everything durable",
        run: sync,
    },
    Area {
        name: "quota",
        help: quota::HELP,
        run: quota::run,
    },
    Area {
        name: "heat",
        help: heat::HELP,
        run: heat::run,
    },
    Area {
        name: "sched",
        help: sched::HELP,
        run: sched::run,
    },
];

/// What the file shows before the first command.
pub(crate) fn hint(_volume: &Volume) -> String {
    let mut text =
        "Write a question and read on in the same open file for the answer.\n\n".to_owned();
    for area in AREAS {
        text.push_str(area.help);
        text.push('\n');
    }
    text
}

/// Runs a command of `caller`; returns the answer.
pub(crate) fn run(volume: &Volume, caller: &Credentials, command: &str) -> Reply {
    let words: Vec<&str> = command.split_ascii_whitespace().collect();
    let area = words
        .first()
        .and_then(|first| AREAS.iter().find(|area| area.name == *first));
    match area {
        Some(area) => (area.run)(volume, caller, &words[1..]),
        None => Err(ControlError::invalid(format!(
            "'{command}' is no question; ask 'help'"
        ))),
    }
}

fn help(volume: &Volume, _caller: &Credentials, _words: &[&str]) -> Reply {
    Ok(hint(volume))
}

fn sync(volume: &Volume, _caller: &Credentials, words: &[&str]) -> Reply {
    if !words.is_empty() {
        return Err(ControlError::invalid(
            "'sync' takes no more words; ask 'sync'",
        ));
    }
    volume.sync()?;
    Ok(String::new())
}
