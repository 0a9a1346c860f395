//! Why a verb did not do what it was asked: one line and an exit status.

pub use hearth::io_reason as reason;
use std::fmt::Display;
use std::path::Path;

/// What is printed after `hearth: `, and the status the program ends with.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// Names the input and says what to do next; empty if all was said.
    pub line: String,
    /// 2 for what was typed wrong, 1 for what the machine refuses.
    pub status: u8,
}

impl Failure {
    /// What was typed cannot be right on any machine.
    pub fn usage(line: impl Display) -> Failure {
        Failure {
            line: line.to_string(),
            status: 2,
        }
    }

    /// What was typed could work, and does not here and now.
    pub fn refused(line: impl Display) -> Failure {
        Failure {
            line: line.to_string(),
            status: 1,
        }
    }

    /// An operation on `path` failed.
    pub fn at(path: &Path, what: impl Display) -> Failure {
        Failure::refused(format!("{}: {what}", path.display()))
    }

    /// The control files are empty, because the mount does not report opens to its daemon.
    pub fn empty(mount: &Path) -> Failure {
        let what = "its control files are empty, as they are with no_open; mount without it";
        Failure::at(mount, what)
    }
}
