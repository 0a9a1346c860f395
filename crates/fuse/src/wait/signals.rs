//! Finds signals for which the kernel sends no INTERRUPT, and callers that were killed.
//!
//! A signal to a thread that waits for a reply should come as INTERRUPT. Over io_uring Linux
//! (measured on 6.18) sends none if the signal comes after the request gets a ring entry and before
//! the ring's thread takes that entry. `fuse_uring_prepare_send` sets `FR_SENT` without the look at
//! `FR_INTERRUPTED` that `fuse_dev_do_read` takes. A client that waits for a lock would then wait
//! for ever, killed or not. So a thread looks at the clients of waiting requests, in `/proc`.
//!
//! INTERRUPT comes once for a request, and does not say of which signal. Only a kill ends the wait
//! for a rate limit, because a program may send itself other signals all the time. So the thread
//! looks for kills over every transport.

use crate::wait::interrupt_waker::Cut;
use crate::wait::waiting::{WaitSeen, Waiting};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);
/// The looks take at most one part in this many of the time.
const SHARE: u32 = 20;
/// The signals that end an endless wait, as a signal mask of the kernel.
const ANY: u64 = u64::MAX;
/// The only signal that ends a delay. Every fatal signal becomes this one for all threads. A thread
/// that waits for a page of the cache looks like one that was interrupted, and only this signal
/// ends its wait.
const KILL: u64 = 1 << (libc::SIGKILL - 1);

/// Looks until the session ends.
pub(crate) fn watch(waiting: &Waiting) {
    let (mut pause, mut before) = (PAUSE, HashSet::new());
    while let Some(askers) = waiting.look(pause) {
        let begin = Instant::now();
        let (endless, delayed): (Vec<WaitSeen>, Vec<WaitSeen>) =
            askers.into_iter().partition(|asked| asked.endless);
        for WaitSeen {
            id, is_interrupted, ..
        } in delayed
        {
            match has_one_of(KILL, id.thread) {
                Some(true) => waiting.cut(id.unique, Cut::Kill),
                // Nobody can tell.
                None if is_interrupted => waiting.cut(id.unique, Cut::Signal),
                _ => {}
            }
        }
        let has_any = |asked: &WaitSeen| has_one_of(ANY, asked.id.thread) == Some(true);
        let now = endless.into_iter().filter(has_any);
        let now: HashSet<u64> = now.map(|asked| asked.id.unique).collect();
        // A request is interrupted at the second look: by then INTERRUPT has come if it was sent.
        for &unique in now.intersection(&before) {
            waiting.interrupt(unique);
        }
        before = now;
        pause = PAUSE.max(begin.elapsed() * SHARE);
    }
}

/// Whether a thread waits in the kernel while one of these signals is pending for it; `None` if it
/// cannot be looked at.
fn has_one_of(signals: u64, thread: u32) -> Option<bool> {
    if thread == 0 {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    Some(tells_of_one_of(signals, &status))
}

/// Whether a thread's `status` has an uninterruptible wait (state `D`) and one of the signals
/// `wanted`. The kernel lets every signal end the first part of a wait. The rest of the wait counts
/// as waiting for a disk.
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
    use crate::wait::waiting::RequestId;
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
        let own = unsafe { libc::gettid() };
        assert_eq!(has_one_of(ANY, own as u32), Some(false));
        assert_eq!((has_one_of(ANY, 1 << 30), has_one_of(ANY, 0)), (None, None));
    }

    #[test]
    fn the_watch_ends_with_the_session() {
        let waiting = Arc::new(Waiting::default());
        let watched = Arc::clone(&waiting);
        let watch = thread::spawn(move || watch(&watched));
        let id = RequestId {
            unique: 1,
            thread: 0,
        };
        let begun = waiting.begin(id).unwrap();
        waiting.close();
        watch.join().unwrap();
        assert!(begun.token.is_triggered());
    }
}
