//! What the thread of an open volume is asked for: a checkpoint, the witness, the ballast, its end.
//! The thread itself is in `upkeep.rs`.

use hearth_sync::primitive::{Condvar, Mutex, thread};
use std::time::{Duration, Instant};

/// How far the witness may be behind.
const WITNESS_DELAY: Duration = Duration::from_secs(1);
/// How often room for the ballast is looked for.
const BALLAST_DELAY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Asked {
    pub end: bool,
    pub checkpoint: bool,
    /// When the witness must be written.
    pub witness: Option<Instant>,
    /// When the ballast is to be looked at.
    pub ballast: Option<Instant>,
}

/// What the thread is asked for.
#[derive(Default)]
pub(super) struct Background {
    pub asked: Mutex<Asked>,
    pub changed: Condvar,
    pub thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Background {
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
