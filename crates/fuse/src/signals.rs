//! Signals of which the kernel tells nothing.
//!
//! A signal to who waits for an answer is to come as INTERRUPT. Over io_uring Linux (6.14 and all
//! since, as of 6.18) sends none if the signal comes between the moment in which the request gets
//! an entry and the one in which the ring's thread takes it (`fuse_uring_prepare_send` sets
//! `FR_SENT` and does not look at `FR_INTERRUPTED`, as `fuse_dev_do_read` does). Whoever waits for
//! a lock would then wait for it without an end, killed or not. So a thread looks at those who
//! wait, in `/proc`.

use crate::waiting::{Asker, Waiting};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Between two looks, at least.
const PAUSE: Duration = Duration::from_millis(250);
/// Looks take at most one part in so many of the time.
const SHARE: u32 = 20;

/// Looks until the session ends.
pub(crate) fn watch(waiting: &Waiting) {
    let (mut pause, mut before) = (PAUSE, HashSet::new());
    while let Some(askers) = waiting.look(pause) {
        let begin = Instant::now();
        let has_signal = |asker: &Asker| asker.thread != 0 && has_signal(asker.thread);
        let now = askers.into_iter().filter(has_signal);
        let now: HashSet<u64> = now.map(|asker| asker.unique).collect();
        // At the second look: by then INTERRUPT has come if it was sent.
        for &unique in now.intersection(&before) {
            waiting.interrupt(unique);
        }
        before = now;
        pause = PAUSE.max(begin.elapsed() * SHARE);
    }
}

/// Whether a thread waits in the kernel with a signal that it is to get.
fn has_signal(thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"));
    status.is_ok_and(|status| tells_of_signal(&status))
}

/// The kernel lets every signal end the first part of a wait; what is left of it counts as waiting
/// for a disk.
fn tells_of_signal(status: &str) -> bool {
    let field = |name| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"))
    };
    let signals = |name| field(name).and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let waits = field("State").is_some_and(|state| state.starts_with('D'));
    let masks = ["SigPnd", "ShdPnd", "SigBlk"].map(signals);
    matches!(masks, [Some(own), Some(shared), Some(blocked)]
        if waits && (own | shared) & !blocked != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_sync::primitive::{Arc, thread};

    fn status(state: &str, own: &str, shared: &str, blocked: &str) -> String {
        format!(
            "Name:\tState:\tD\nState:\t{state}\nSigQ:\t1/95\nSigPnd:\t{own}\nShdPnd:\t{shared}\n\
             SigBlk:\t{blocked}\nSigIgn:\t0000000000000000\n"
        )
    }

    #[test]
    fn who_waits_with_a_signal_that_is_not_blocked_has_one() {
        let (none, kill, term) = ("0000000000000000", "0000000000000100", "0000000000004000");
        for (state, own, shared, blocked, has) in [
            ("D (disk sleep)", kill, none, none, true),
            ("D (disk sleep)", none, term, none, true),
            ("D (disk sleep)", none, term, term, false),
            ("D (disk sleep)", kill, term, term, true),
            ("D (disk sleep)", none, none, none, false),
            ("S (sleeping)", kill, kill, none, false),
        ] {
            let status = status(state, own, shared, blocked);
            assert_eq!(tells_of_signal(&status), has, "{status}");
        }
        assert!(!tells_of_signal("") && !tells_of_signal("State:\tD (disk sleep)\n"));
    }

    #[test]
    fn a_thread_that_runs_or_is_not_there_has_none() {
        // SAFETY: takes nothing.
        assert!(!has_signal(unsafe { libc::gettid() } as u32));
        assert!(!has_signal(1 << 30));
    }

    #[test]
    fn the_watch_ends_with_the_session() {
        let waiting = Arc::new(Waiting::default());
        let watched = Arc::clone(&waiting);
        let watch = thread::spawn(move || watch(&watched));
        let asker = Asker {
            unique: 1,
            thread: 0,
        };
        let token = waiting.begin(asker).unwrap();
        waiting.close();
        watch.join().unwrap();
        assert!(token.is_triggered());
    }
}
