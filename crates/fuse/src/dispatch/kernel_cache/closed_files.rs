//! Closed files that the kernel should drop, because it believes other sizes or times than they
//! have.
//!
//! It cannot before it has the reply to the close, so it is asked a moment later, and again later
//! still. One worker asks for all files: programs may close thousands of them in that time. A file
//! that somebody holds for longer is asked for again when the kernel asks for its attributes.

use crate::dispatch::Dispatcher;
use crate::wait::outcome::{BlockingClass, InlineReply, Offload};
use hearth::KernelCache;
use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

lock_class!(ClosedFilesLock = "fuse.closed-files", 878);

/// The pauses before the kernel is asked, each time that it is. A session does not wait longer for
/// its end than all of them take.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(25),
    Duration::from_millis(100),
];
/// The kernel is asked for so many at a time.
const BATCH: usize = 512;

/// The files that the kernel is to be asked for.
#[derive(Default)]
pub(crate) struct ClosedFiles {
    state: Lock<ClosedFilesLock, State>,
    /// A file was added that is due before those that the worker waits for.
    added: Condition,
}

#[derive(Default)]
struct State {
    /// Inodes by how often the kernel was asked for them, and when it is asked again: in each of
    /// these the earliest is first.
    due: [VecDeque<(Instant, u64)>; PAUSES.len()],
    /// The inodes in `due`, but for some that were closed twice meanwhile.
    waiting: HashSet<u64>,
    /// Whether there is a worker, or will be.
    has_worker: bool,
}

impl ClosedFiles {
    /// A file is being closed, or, where it `is_again`, was closed before. Returns whether a worker
    /// is to call [`ClosedFiles::ask`].
    fn add(&self, ino: u64, is_again: bool) -> bool {
        let mut state = self.state.lock();
        if !state.waiting.insert(ino) && is_again {
            return false;
        }
        let is_next = state.due[0].is_empty();
        state.due[0].push_back((Instant::now() + PAUSES[0], ino));
        let needs_worker = !std::mem::replace(&mut state.has_worker, true);
        drop(state);
        if is_next && !needs_worker {
            self.added.notify_one();
        }
        needs_worker
    }

    /// Calls `prune` for the inodes whose time has come, as long as they are stale. Returns when
    /// none is left.
    fn ask(&self, is_stale: impl Fn(u64) -> bool, prune: impl Fn(&[u64])) {
        let mut due = Vec::new();
        loop {
            let mut state = self.state.lock();
            for (times, ino) in due.drain(..) {
                if let Some((pause, later)) = PAUSES.iter().zip(&mut state.due).nth(times + 1) {
                    later.push_back((Instant::now() + *pause, ino));
                }
            }
            let now = Instant::now();
            for (times, waiting) in state.due.iter_mut().enumerate() {
                while let Some(&(at, ino)) = waiting.front()
                    && at <= now
                {
                    waiting.pop_front();
                    due.push((times, ino));
                }
            }
            if due.is_empty() {
                let first = state.due.iter().filter_map(|waiting| waiting.front());
                let Some((at, _)) = first.min() else {
                    state.has_worker = false;
                    return;
                };
                let pause = at.saturating_duration_since(now);
                state.wait_for(&self.added, pause);
                continue;
            }
            drop(state);
            self.leave_out(&mut due, &is_stale);
            let inodes: Vec<u64> = due.iter().map(|&(_, ino)| ino).collect();
            inodes.chunks(BATCH).for_each(&prune);
        }
    }

    /// Takes those out of `due` that need not be asked for. They are not waited for any longer, nor
    /// are those that are asked for the last time now, who may be added anew meanwhile.
    fn leave_out(&self, due: &mut Vec<(usize, u64)>, is_stale: impl Fn(u64) -> bool) {
        let mut gone = Vec::new();
        due.retain(|&(times, ino)| {
            let is_stale = is_stale(ino);
            if !is_stale || times + 1 == PAUSES.len() {
                gone.push((ino, is_stale));
            }
            is_stale
        });
        if gone.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for (ino, _) in &gone {
            state.waiting.remove(ino);
        }
        drop(state);
        for (ino, was_stale) in gone {
            // One that became stale meanwhile was waited for, and so not added. This worker goes
            // on, so no other is asked for.
            if !was_stale && is_stale(ino) {
                self.add(ino, true);
            }
        }
    }

    /// There is no worker: the next closes of these files ask for one again.
    fn give_up(&self) {
        *self.state.lock() = State::default();
    }
}

impl<V: KernelCache> Dispatcher<V> {
    /// Has a worker ask the kernel to drop the inode of a file whose close is still being replied
    /// to.
    pub(crate) fn prune_closed(&self, ino: u64) {
        if self.closed_files.add(ino, false) {
            self.ask_for_closed();
        }
    }

    /// The kernel is told the attributes of `ino`, and believes its own if it was not ready to drop
    /// the inode when it was asked: whoever held it may have let go of it.
    pub(crate) fn prune_again(&self, ino: u64) {
        if self.notifier.is_stale(ino) && self.closed_files.add(ino, true) {
            self.ask_for_closed();
        }
    }

    fn ask_for_closed(&self) {
        let (files, notifier) = (Arc::clone(&self.closed_files), Arc::clone(&self.notifier));
        let work = Box::new(move || {
            let is_stale = |ino| notifier.is_stale(ino);
            files.ask(is_stale, |inodes| notifier.prune_all(inodes));
            Ok(InlineReply::default())
        });
        let class = BlockingClass::Wait;
        let refused = Arc::clone(&self.closed_files);
        self.workers.submit(
            Offload::Blocks { class, work },
            Box::new(move |result| {
                if result.is_err() {
                    refused.give_up();
                }
            }),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_sync::primitive::Mutex;
    use std::collections::HashMap;

    /// Regression: each close had a thread of its own for 131 ms, so that many closes took the
    /// threads that wait for locks.
    #[test]
    fn one_worker_asks_for_all_files_that_are_closed_meanwhile() {
        const FILES: u64 = 8_000;
        let files = ClosedFiles::default();
        let asked = Mutex::new(HashMap::<u64, Vec<Instant>>::new());
        let prune = |inodes: &[u64]| {
            assert!((1..=BATCH).contains(&inodes.len()));
            for &ino in inodes {
                asked.lock().entry(ino).or_default().push(Instant::now());
            }
        };
        let begin = Instant::now();
        assert!(files.add(0, false), "the first asks for a worker");
        for ino in 1..FILES {
            assert!(!files.add(ino, false), "there is one");
        }
        // One in ten is forgotten before it is asked for.
        files.ask(|ino| ino % 10 != 9, prune);
        let asked = asked.lock();
        for ino in 0..FILES {
            let times = asked.get(&ino).map_or(&[][..], Vec::as_slice);
            assert_eq!(times.len(), if ino % 10 == 9 { 0 } else { 4 }, "{ino}");
            let mut before = begin;
            for (time, pause) in times.iter().zip(PAUSES) {
                assert!(*time >= before + pause, "{ino}");
                before = *time;
            }
        }
        assert!(files.add(7, true), "the worker has ended");
        assert!(!files.add(7, true));
        let waiting = |files: &ClosedFiles| files.state.lock().due[0].len();
        assert_eq!(waiting(&files), 1, "it waits already");
        files.add(7, false);
        assert_eq!(waiting(&files), 2, "a close begins anew");
        files.give_up();
        assert!(files.add(7, false), "no thread was to be had");
    }

    /// Once, such a file was never asked for again: it was not added because it was waited for, and
    /// not waited for any longer because it had not been stale.
    #[test]
    fn a_file_that_becomes_stale_when_it_is_given_up_is_asked_for() {
        let files = ClosedFiles::default();
        let (looks, asked) = (Mutex::new(0), Mutex::new(0));
        assert!(files.add(7, false));
        let is_stale = |ino| {
            let mut looks = looks.lock();
            *looks += 1;
            if *looks == 1 {
                // Right behind this look.
                assert!(!files.add(ino, true), "there is a worker");
            }
            *looks > 1
        };
        files.ask(is_stale, |_| *asked.lock() += 1);
        assert_eq!(*asked.lock(), PAUSES.len());
    }

    #[test]
    fn a_file_that_is_added_while_it_is_asked_for_the_last_time_is_asked_for_again() {
        let files = ClosedFiles::default();
        let asked = Mutex::new(0);
        assert!(files.add(7, false));
        let prune = |inodes: &[u64]| {
            let mut asked = asked.lock();
            *asked += 1;
            if *asked == PAUSES.len() {
                assert!(!files.add(inodes[0], true), "there is a worker");
            }
        };
        files.ask(|_| true, prune);
        assert_eq!(*asked.lock(), 2 * PAUSES.len());
    }
}
