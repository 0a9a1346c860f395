//! Lines about what goes wrong where an errno says too little or nobody waits for an answer: damage
//! that a read met, an error that made the volume read-only, idle work that failed.
//!
//! A line is not repeated within a minute, and a minute has few lines: idle work tries again and
//! again, and a damaged disk has many blocks.

use crate::error::Error;
use hearth_sync::primitive::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

/// Time within which no line comes twice.
const PERIOD: Duration = Duration::from_secs(60);
/// Lines of a period.
const MOST: usize = 20;

/// Where lines go: without the name of the program, and without a newline.
type Sink = Box<dyn Fn(&str) + Send + Sync>;

/// The lines of one store.
pub struct Troubles {
    told: Mutex<Told>,
    /// Immutable.
    sink: Sink,
}

/// What was told in the period.
#[derive(Default)]
struct Told {
    begun: Option<Instant>,
    lines: BTreeSet<String>,
    /// Lines that were left out since the last one.
    left_out: u64,
}

impl Default for Troubles {
    /// On standard error, which is the log of a daemon.
    fn default() -> Troubles {
        Troubles::new(|line| {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "hearth: {line}");
        })
    }
}

impl fmt::Debug for Troubles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Troubles").finish_non_exhaustive()
    }
}

impl Troubles {
    /// Lines go to `sink`.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Troubles {
        Troubles {
            told: Mutex::default(),
            sink: Box::new(sink),
        }
    }

    /// Tells what failed, and why.
    pub(crate) fn failed(&self, what: impl fmt::Display, why: &Error) {
        self.tell(format!("{what}: {why}"), Instant::now());
    }

    /// Tells a line as it is.
    pub(crate) fn say(&self, line: String) {
        self.tell(line, Instant::now());
    }

    fn tell(&self, line: String, now: Instant) {
        let mut told = self.told.lock();
        let is_over = |begun: Instant| now.saturating_duration_since(begun) >= PERIOD;
        if told.begun.is_none_or(is_over) {
            told.begun = Some(now);
            told.lines.clear();
        }
        if told.lines.contains(&line) {
            return;
        }
        if told.lines.len() >= MOST {
            told.left_out += 1;
            return;
        }
        told.lines.insert(line.clone());
        let left_out = std::mem::take(&mut told.left_out);
        drop(told);
        if left_out > 0 {
            (self.sink)(&format!("{left_out} more lines about errors were left out"));
        }
        (self.sink)(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_sync::primitive::Arc;

    fn noted() -> (Troubles, Arc<Mutex<Vec<String>>>) {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let to = Arc::clone(&lines);
        let troubles = Troubles::new(move |line| to.lock().push(line.to_owned()));
        (troubles, lines)
    }

    #[test]
    fn a_line_comes_once_in_a_period_and_again_in_the_next() {
        let (troubles, lines) = noted();
        let begun = Instant::now();
        for second in [0, 1, 59, 60, 61, 200] {
            troubles.tell("a".to_owned(), begun + Duration::from_secs(second));
        }
        assert_eq!(lines.lock().len(), 3);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let (troubles, lines) = noted();
        let begun = Instant::now();
        for number in 0..MOST + 7 {
            troubles.tell(format!("{number}"), begun);
        }
        assert_eq!(lines.lock().len(), MOST);
        troubles.tell("later".to_owned(), begun + PERIOD);
        let last = lines.lock()[MOST..].to_vec();
        assert_eq!(last, ["7 more lines about errors were left out", "later"]);
    }
}
