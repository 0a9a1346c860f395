//! Saying what a verb waits for, where the mount that it is about does not answer: its calls wait
//! in the kernel for as long as the daemon is stopped, and show nothing.

use crate::failure::Failure;
use crate::output;
use hearth_sync::primitive::OnceLock;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use hearth_sync::primitive::thread;
use std::path::Path;
use std::time::Duration;

/// How long a verb takes that nobody asks about.
const SHORT: Duration = Duration::from_secs(2);

/// Says whether a mount answers, after some patience.
type DoesAnswer = fn(&Path) -> bool;

/// What asks; the first word counts.
static ANSWERS: OnceLock<DoesAnswer> = OnceLock::new();
/// Whether a mount is watched already, or none is to be. Relaxed: one thread begins a verb.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
/// Whether nothing is to be said any more. Relaxed: a line more or less.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Says how a mount is asked, by something that may wait for ever in the place of this process.
pub fn asks_by(answers: DoesAnswer) {
    let _ = ANSWERS.set(answers);
}

/// From now on nothing is said: whoever calls this has a way of its own.
pub fn end() {
    IS_WATCHED.store(true, Relaxed);
    IS_OVER.store(true, Relaxed);
}

/// If the mount on which `place` lies does not answer, that is said, once. The verb goes on to
/// wait.
pub fn watch(place: &Path) {
    let Some(answers) = ANSWERS.get() else { return };
    if IS_WATCHED.swap(true, Relaxed) {
        return;
    }
    let place = place.to_owned();
    let watch = thread::Builder::new().name("hearth-patience".into());
    // Without a thread nothing is said.
    let _ = watch.spawn(move || {
        // A verb that is over by then has ended this thread with it.
        thread::sleep(SHORT);
        if !IS_OVER.load(Relaxed) && !answers(&place) && !IS_OVER.load(Relaxed) {
            let what = "does not answer: its daemon is stopped, or waits for a disk; this waits \
                        until it goes on";
            output::say(format_args!("{}", Failure::at(&place, what).line));
        }
    });
}
