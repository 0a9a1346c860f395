//! What the thread of an open volume is asked for: a checkpoint, the witness, the ballast, its end.
//! The thread itself is in `upkeep.rs`.

use hearth_sync::primitive::{Condvar, Mutex, thread};
use std::time::{Duration, Instant};

/// How far the witness may be behind.
const WITNESS_DELAY: Duration = Duration::from_secs(1);
/// How often room for the ballast is looked for: at first, and where none was found for long. A
/// filesystem with a quota is written to until it refuses.
const BALLAST_DELAY: Duration = Duration::from_secs(1);
const BALLAST_DELAY_MOST: Duration = Duration::from_secs(8);

#[derive(Default)]
pub(super) struct Asked {
    pub end: bool,
    pub checkpoint: bool,
    /// When the witness must be written.
    pub witness: Option<Instant>,
    /// When the ballast is to be looked at.
    pub ballast: Option<Instant>,
    /// Looks for its room in a row that found none.
    pub ballast_looks: u32,
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

    /// Says whether the room for the ballast was found, and asks for another look if not: each
    /// comes later than the one before.
    pub(super) fn ballast_was_looked_at(&self, is_whole: bool) {
        let mut asked = self.asked.lock();
        if is_whole {
            asked.ballast_looks = 0;
            return;
        }
        let delay = BALLAST_DELAY * (1 << asked.ballast_looks.min(3));
        asked.ballast_looks += 1;
        asked.ballast = Some(Instant::now() + delay.min(BALLAST_DELAY_MOST));
        drop(asked);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, a ballast over a quota was written and given back each second.
    #[test]
    fn each_look_for_room_that_finds_none_comes_later_than_the_one_before() {
        let background = Background::default();
        let delay = |is_whole| {
            let before = Instant::now();
            background.ballast_was_looked_at(is_whole);
            let asked = background.asked.lock().ballast.take();
            asked.map(|at| (at - before).as_secs())
        };
        let delays = [false; 6].map(delay);
        assert_eq!(delays, [1, 2, 4, 8, 8, 8].map(Some));
        assert_eq!(delay(true), None);
        assert_eq!(delay(false), Some(1));
    }
}
