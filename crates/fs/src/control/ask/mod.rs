//! `.hearth/ask`: questions and orders that need more than a word, for the command line and for any
//! program.
//!
//! Who asks opens the file for reading and writing, writes one question, and reads on in the same
//! open file: the answer. A question is words between blanks, the first of which names the area;
//! files and directories are named by inode number, since a path may hold any byte. A question that
//! is not understood or not allowed fails the write with an error number and changes nothing, and
//! what is read on is the reason, in one line. From a shell:
//!
//! ```text
//! exec 3<>MOUNT/.hearth/ask; echo help >&3; cat <&3
//! ```

mod heat;
mod quota;
mod sched;

use super::Dialogue;
use crate::caller::Credentials;
use crate::errno::{Errno, Result};
use crate::superblock::{Deferred, Superblock};
use crate::volume::Volume;
use hearth_sync::primitive::Arc;

/// A question on its way to its answer.
#[derive(Debug)]
pub(crate) struct Question {
    pub words: String,
    /// As it was written.
    pub asked: Box<[u8]>,
    /// Where it was written.
    pub off: u64,
    pub asker: Credentials,
    pub dialogue: Arc<Dialogue>,
}

impl Deferred for Question {
    fn run(&self, sb: &Superblock) -> Result<()> {
        answer(&Volume::of(sb).ok_or(Errno::EIO)?, self)
    }
}

/// Why a question has no answer: the error number for the writer, and a line for people.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    pub errno: Errno,
    pub reason: String,
}

impl NoAnswer {
    /// A question that makes no sense.
    pub fn nonsense(reason: impl Into<String>) -> NoAnswer {
        NoAnswer {
            errno: Errno::EINVAL,
            reason: reason.into(),
        }
    }
}

impl From<Errno> for NoAnswer {
    fn from(errno: Errno) -> NoAnswer {
        NoAnswer {
            errno,
            reason: errno.to_string(),
        }
    }
}

/// An area of questions.
struct Area {
    name: &'static str,
    /// The questions of the area, a line each.
    help: &'static str,
    answer: fn(&Volume, &Credentials, &[&str]) -> std::result::Result<String, NoAnswer>,
}

static AREAS: &[Area] = &[
    Area {
        name: "help",
        help: "help                       this text",
        answer: help,
    },
    Area {
        name: "quota",
        help: quota::HELP,
        answer: quota::answer,
    },
    Area {
        name: "heat",
        help: heat::HELP,
        answer: heat::answer,
    },
    Area {
        name: "sched",
        help: sched::HELP,
        answer: sched::answer,
    },
];

/// What the file says before it was asked.
pub(super) fn hint(_core: &Superblock) -> String {
    let mut text =
        "Write a question and read on in the same open file for the answer.\n\n".to_owned();
    for area in AREAS {
        text.push_str(area.help);
        text.push('\n');
    }
    text
}

/// Answers a question with nothing pinned or locked.
fn answer(volume: &Volume, question: &Question) -> Result<()> {
    let done = match question.dialogue.takes_lines() {
        Some(take) => take(volume, &question.words),
        None => by_area(volume, question),
    };
    match done {
        Ok(text) => {
            let at = question.off + question.asked.len() as u64;
            question
                .dialogue
                .show(at, text, Some(question.asked.clone()));
            Ok(())
        }
        Err(NoAnswer { errno, reason }) => {
            question.dialogue.show(question.off, reason + "\n", None);
            Err(errno)
        }
    }
}

fn by_area(volume: &Volume, question: &Question) -> std::result::Result<String, NoAnswer> {
    let words: Vec<&str> = question.words.split_ascii_whitespace().collect();
    let area = words
        .first()
        .and_then(|first| AREAS.iter().find(|area| area.name == *first));
    match area {
        Some(area) => (area.answer)(volume, &question.asker, &words[1..]),
        None => Err(NoAnswer::nonsense(format!(
            "'{}' is no question; ask 'help'",
            question.words
        ))),
    }
}

fn help(
    volume: &Volume,
    _asker: &Credentials,
    _words: &[&str],
) -> std::result::Result<String, NoAnswer> {
    Ok(hint(&volume.sb))
}
