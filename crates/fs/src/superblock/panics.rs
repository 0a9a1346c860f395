//! What a panic in an operation leads to.

use super::Superblock;
use super::build_options::OnError;
use crate::stats::Event;
use std::io::{Write, stderr};

impl Superblock {
    /// Counts a panic and obeys `errors=`.
    pub fn record_panic(&self, what: &str) {
        self.stats.event(Event::Panic);
        match self.options.errors {
            OnError::RemountRo => self.set_read_only(true),
            OnError::Continue => {}
            OnError::Panic => {
                // Standard error may be closed.
                let _ = writeln!(stderr(), "hearth: {what}; errors=panic, aborting");
                std::process::abort();
            }
        }
    }
}
