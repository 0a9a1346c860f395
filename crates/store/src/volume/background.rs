//! The thread of an open volume: checkpoints when they are asked for, the witness at most a second
//! behind the acknowledgement, the ballast when there is room again. It sleeps while nothing is
//! committed.

use super::keys::Shared;
use hearth_sync::primitive::{Arc, Condvar, Mutex, thread};
use std::time::{Duration, Instant};

/// How far the witness may be behind.
const WITNESS_DELAY: Duration = Duration::from_secs(1);
/// How often room for the ballast is looked for.
const BALLAST_DELAY: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Asked {
    end: bool,
    checkpoint: bool,
    /// When the witness must be written.
    witness: Option<Instant>,
    /// When the ballast is to be looked at.
    ballast: Option<Instant>,
}

/// What the thread is asked for.
#[derive(Default)]
pub(super) struct Background {
    asked: Mutex<Asked>,
    changed: Condvar,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Background {
    pub(super) fn start(shared: &Arc<Shared>) {
        let of = shared.clone();
        let started = thread::Builder::new()
            .name("hearth-store".to_owned())
            .spawn(move || run(&of));
        // Without a thread the committer makes checkpoints itself, and the end writes the witness.
        *shared.background.thread.lock() = started.ok();
    }

    pub(super) fn ask_for_witness(&self) {
        let mut asked = self.asked.lock();
        if asked.witness.is_none() {
            asked.witness = Some(Instant::now() + WITNESS_DELAY);
            drop(asked);
            self.changed.notify_one();
        }
    }

    pub(super) fn ask_for_checkpoint(&self) {
        self.asked.lock().checkpoint = true;
        self.changed.notify_one();
    }

    pub(super) fn ask_for_ballast(&self) {
        self.asked.lock().ballast = Some(Instant::now() + BALLAST_DELAY);
        self.changed.notify_one();
    }

    /// Ends the thread and waits for it.
    pub(super) fn end(&self) {
        self.asked.lock().end = true;
        self.changed.notify_one();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic of the thread was printed by it.
            let _ = thread.join();
        }
    }
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
            let _ = shared.checkpoint();
        } else if is_due(asked.witness) {
            asked.witness = None;
            drop(asked);
            let _ = shared.write_witness();
        } else if is_due(asked.ballast) {
            asked.ballast = None;
            drop(asked);
            shared.fill_ballast();
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
