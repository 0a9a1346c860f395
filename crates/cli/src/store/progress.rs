//! A line on the terminal that says how far it is, for what takes over a second.

use rustix::stdio::stderr;
use rustix::termios::isatty;
use std::io::Write;
use std::time::{Duration, Instant};

/// Nothing is shown before that.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two lines.
const PACE: Duration = Duration::from_millis(100);

/// A line that is written over; it goes when it is dropped.
#[derive(Debug)]
pub struct Progress {
    /// `None` where nobody watches.
    next: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    /// Begins; on a terminal alone anything is shown.
    pub fn new() -> Progress {
        Progress {
            next: isatty(stderr()).then(|| Instant::now() + PATIENCE),
            is_shown: false,
        }
    }

    /// Shows a line, if it is time.
    pub fn show(&mut self, line: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        self.next = Some(now + PACE);
        self.is_shown = true;
        self.write(&format!("\r{}\x1b[K", line()));
    }

    fn write(&self, text: &str) {
        // A terminal that is gone stops nothing.
        let mut to = std::io::stderr();
        let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            self.write("\r\x1b[K");
        }
    }
}
