//! Lines of the log: standard error.

use std::fmt;
use std::io::Write;

/// Writes a line. A log that cannot be written to (its disk is full, its reader is gone) stops
/// nobody, and ends no thread as `eprintln!` would.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "hearth: {line}");
}
