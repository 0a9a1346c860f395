//! Finds signals for which the kernel sends no INTERRUPT.
//!
//! A signal to a thread that waits for a reply should come as INTERRUPT. Over io_uring Linux (measured on
//! 6.18) sends none if the signal comes between the moment in which the request gets an entry and
//! the one in which the ring's thread takes it (`fuse_uring_prepare_send` sets `FR_SENT` and does
//! not look at `FR_INTERRUPTED`, as `fuse_dev_do_read` does). A client that waits for a lock would
//! then wait without an end, killed or not. So a thread looks at the clients of waiting requests, in
//! `/proc`.

use crate::wait::waiting::{RequestId, Waiting};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Between two looks, at least.
const PAUSE: Duration = Duration::from_millis(250);
/// Looks take at most one part in this many of the time.
const SHARE: u32 = 20;
/// Signals that end a wait without an end, as a set of the kernel.
const ANY: u64 = u64::MAX;
/// The one that ends a delay: every fatal signal becomes this one for all threads. A thread that
/// waits for a page of the cache, which no other signal ends, is not told from one that was
/// interrupted.
const KILL: u64 = 1 << (libc::SIGKILL - 1);

/// Looks until the session ends.
pub(crate) fn watch(waiting: &Waiting) {
    let (mut pause, mut before) = (PAUSE, HashSet::new());
    while let Some(askers) = waiting.look(pause) {
        let begin = Instant::now();
        let is_interrupted = |&(asker, endless): &(RequestId, bool)| {
            let signals = if endless { ANY } else { KILL };
            asker.thread != 0 && has_one_of(signals, asker.thread)
        };
        let now = askers.into_iter().filter(is_interrupted);
        let now: HashSet<u64> = now.map(|(asker, _)| asker.unique).collect();
        // At the second look: by then INTERRUPT has come if it was sent.
        for &unique in now.intersection(&before) {
            waiting.interrupt(unique);
        }
        before = now;
        pause = PAUSE.max(begin.elapsed() * SHARE);
    }
}

/// Whether a thread waits in the kernel with one of these signals, which it is to get.
fn has_one_of(signals: u64, thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"));
    status.is_ok_and(|status| tells_of_one_of(signals, &status))
}

/// The kernel lets every signal end the first part of a wait; what is left of it counts as waiting
/// for a disk.
fn tells_of_one_of(wanted: u64, status: &str) -> bool {
    let field = |name| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"))
    };
    let signals = |name| field(name).and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let waits = field("State").is_some_and(|state| state.starts_with('D'));
    let masks = ["SigPnd", "ShdPnd", "SigBlk"].map(signals);
    matches!(masks, [Some(own), Some(shared), Some(blocked)]
        if waits && (own | shared) & !blocked & wanted != 0)
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
        for (state, own, shared, blocked, any, killed) in [
            ("D (disk sleep)", kill, none, none, true, true),
            ("D (disk sleep)", none, term, none, true, false),
            ("D (disk sleep)", none, term, term, false, false),
            ("D (disk sleep)", kill, term, term, true, true),
            ("D (disk sleep)", none, none, none, false, false),
            ("S (sleeping)", kill, kill, none, false, false),
        ] {
            let status = status(state, own, shared, blocked);
            assert_eq!(tells_of_one_of(ANY, &status), any, "{status}");
            assert_eq!(tells_of_one_of(KILL, &status), killed, "{status}");
        }
        assert!(!tells_of_one_of(ANY, "") && !tells_of_one_of(ANY, "State:\tD (disk sleep)\n"));
    }

    #[test]
    fn a_thread_that_runs_or_is_not_there_has_none() {
        // SAFETY: takes nothing.
        assert!(!has_one_of(ANY, unsafe { libc::gettid() } as u32));
        assert!(!has_one_of(ANY, 1 << 30));
    }

    #[test]
    fn the_watch_ends_with_the_session() {
        let waiting = Arc::new(Waiting::default());
        let watched = Arc::clone(&waiting);
        let watch = thread::spawn(move || watch(&watched));
        let asker = RequestId {
            unique: 1,
            thread: 0,
        };
        let begun = waiting.begin(asker).unwrap();
        waiting.close();
        watch.join().unwrap();
        assert!(begun.token.is_triggered());
    }
}
