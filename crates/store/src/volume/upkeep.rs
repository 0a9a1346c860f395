//! The thread of an open volume: checkpoints when they are asked for, the witness at most a second
//! behind the acknowledgement, the ballast when there is room again. It sleeps while nothing is
//! committed.

use super::shared::Shared;
use crate::error::{Error, Result};
use hearth_sync::primitive::{Arc, thread};
use std::time::Instant;

pub(super) fn start(shared: &Arc<Shared>) {
    let of = shared.clone();
    let started = thread::Builder::new()
        .name("hearth-store".to_owned())
        .spawn(move || run(&of));
    // Without a thread the committer makes checkpoints itself, and the end writes the witness.
    *shared.background.thread.lock() = started.ok();
}

fn run(shared: &Shared) {
    let background = &shared.background;
    loop {
        let mut asked = background.asked.lock();
        let now = Instant::now();
        let is_due = |when: Option<Instant>| when.is_some_and(|when| when <= now);
        if asked.end {
            return;
        } else if std::mem::take(&mut asked.checkpoint) {
            drop(asked);
            // Errors latch, or come again when the committer needs the checkpoint.
            tell(shared, "a checkpoint failed", shared.checkpoint());
        } else if is_due(asked.witness) {
            asked.witness = None;
            drop(asked);
            let written = shared.write_witness();
            if let Err(Error::NoSpace { .. }) = written {
                background.ask_for_witness();
            }
            tell(shared, "the witness was not written", written);
        } else if is_due(asked.ballast) {
            asked.ballast = None;
            drop(asked);
            shared.regain_room();
        } else {
            let next = [asked.witness, asked.ballast].into_iter().flatten().min();
            match next {
                Some(next) => {
                    background.changed.wait_for(&mut asked, next - now);
                }
                None => background.changed.wait(&mut asked),
            }
        }
    }
}

/// Tells that something failed, if not since the volume is read-only or over.
fn tell(shared: &Shared, what: &str, done: Result<()>) {
    match done {
        Ok(()) | Err(Error::ReadOnly { .. } | Error::Closed) => {}
        Err(error) => shared.troubles.failed(what, &error),
    }
}
