//! Lines for whoever reads the log of the daemon.

use hearth_sync::primitive::thread;
use std::io::Write;

/// Writes a line to the log, which may be closed.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "hearth: {line}");
}

/// [`say`] by a thread of its own: the caller has locks, and a log that nobody reads takes nothing.
pub fn say_aside(line: String) {
    let thread = thread::Builder::new().name("hearth-say".into());
    let _ = thread.spawn(move || say(&line));
}
