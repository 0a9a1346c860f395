//! Writing to standard output: a reader that goes away is no failure, colour is for terminals.

use crate::failure::{Failure, reason};
use crate::printable::printable;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use std::io::{Error, ErrorKind, IsTerminal, Write};

/// Whether there is no standard output. Relaxed: it is set before there is a thread.
static IS_LACKING: AtomicBool = AtomicBool::new(false);

/// Says whether the program was started without a standard output: what stands in its place then
/// takes everything, and keeps nothing.
pub fn set_lacking(is_lacking: bool) {
    IS_LACKING.store(is_lacking, Relaxed);
}

/// Refuses a verb whose product goes to standard output where there is none.
pub fn check() -> Result<(), Failure> {
    match IS_LACKING.load(Relaxed) {
        true => Err(no_output(&rustix::io::Errno::BADF.into())),
        false => Ok(()),
    }
}

/// Writes all of `text`, which is what was asked for; ends the program quietly when nobody reads
/// any more.
pub fn print(text: &str) -> Result<(), Failure> {
    if !text.is_empty() {
        check()?;
    }
    match written(text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(no_output(&error)),
        Ok(()) => Ok(()),
    }
}

/// Prints for a verb that has done something, or has something to do, whether or not anybody reads,
/// or whose exit status says what it has found.
pub fn print_and_go_on(text: &str) -> Result<(), Failure> {
    match written(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(no_output(&error)),
        _ => Ok(()),
    }
}

/// Writes a line to standard error: the log of a daemon, the complaint of a verb. It stays one line
/// whatever names are in it. A log that cannot be written to (its disk is full, its reader is gone)
/// stops nobody, and ends no thread as `eprintln!` would.
pub fn say(line: std::fmt::Arguments<'_>) {
    let line = printable(&line.to_string());
    let _ = writeln!(std::io::stderr(), "hearth: {line}");
}

fn written(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

fn no_output(error: &Error) -> Failure {
    Failure::refused(format!(
        "standard output: {}; give one that takes what is asked for",
        reason(error)
    ))
}

/// Whether standard output is a terminal and `NO_COLOR` is not set: every colour asks here.
pub fn has_colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !refused
}

/// Colours of a terminal.
#[derive(Debug, Clone, Copy)]
pub enum Colour {
    /// All is well.
    Green,
    /// Worth a look.
    Yellow,
    /// Does not work.
    Red,
    /// A heading.
    Bold,
}

/// Puts text in colour, or leaves it as it is.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Colour if standard output shall have it.
    pub fn for_stdout() -> Paint {
        Paint { on: has_colour() }
    }

    /// None.
    #[cfg(test)]
    pub fn plain() -> Paint {
        Paint { on: false }
    }

    /// `text` in `colour`.
    pub fn paint(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Red => 31,
            Colour::Bold => 1,
        };
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
