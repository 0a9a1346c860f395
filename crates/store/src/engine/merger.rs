//! The thread that merges tables as they become many.
//!
//! fjall 3.1.13 has threads for that, which are not used. They lose the error of a merge that
//! fails: a write or a sync that failed looks as a lack of room does. This thread keeps it. It has
//! ended before the database is dropped, which tells merges to stop: by its source one that stops
//! between two entries goes on to install what it has merged so far.

use super::rests::MergeRests;
use crate::error::{Error, Result};
use hearth_backend::Errno;
use hearth_sync::primitive::{Arc, Condvar, Mutex, MutexGuard, thread};
use std::path::Path;
use std::time::Instant;

/// The thread. It ends behind the merge that is under way, and is waited for, when this is dropped.
pub(super) struct TableMerger {
    queue: Arc<MergeQueue>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

/// The work of the thread. Keyspaces are named by their number.
pub(super) trait Merges: Send + 'static {
    /// Merges once, if there is something to merge.
    fn merge(&self, keyspace: usize) -> Result<()>;

    /// Finds out what an error of a merge means by reading all tables, which may take minutes. May
    /// stop early when `is_ending`.
    fn blame(&self, keyspace: usize, error: Error, is_ending: &dyn Fn() -> bool) -> Error;
}

struct MergeQueue {
    work: Mutex<MergeLooks>,
    changed: Condvar,
    /// Those of all openings of the engine.
    rests: Arc<MergeRests>,
}

#[derive(Default)]
struct MergeLooks {
    end: bool,
    /// How often each keyspace is to be looked at: one look merges once.
    looks: [u32; 2],
    /// A merge has failed: nothing more is merged.
    has_failed: bool,
    /// Why it failed, once that is known.
    error: Option<Error>,
}

impl TableMerger {
    /// Starts the thread, which merges at first each of the keyspaces, and then as it is asked, but
    /// none that rests.
    pub(super) fn start(merges: impl Merges, rests: &Arc<MergeRests>) -> Result<TableMerger> {
        let work = MergeLooks {
            looks: [1; 2],
            ..MergeLooks::default()
        };
        let queue = Arc::new(MergeQueue {
            work: Mutex::new(work),
            changed: Condvar::new(),
            rests: Arc::clone(rests),
        });
        let of = Arc::clone(&queue);
        let started = thread::Builder::new()
            .name("hearth-tables".to_owned())
            .spawn(move || of.run(&merges));
        let thread = started.map_err(|error| {
            let folder = Path::new(super::FOLDER);
            Error::io("start the thread that merges tables of", folder, error)
        })?;
        let thread = Mutex::new(Some(thread));
        Ok(TableMerger { queue, thread })
    }

    /// Asks for a look at a keyspace.
    pub(super) fn ask(&self, keyspace: usize) {
        let mut work = self.queue.work.lock();
        work.looks[keyspace] = work.looks[keyspace].saturating_add(1);
        drop(work);
        self.queue.changed.notify_one();
    }

    /// Whether a keyspace is not merged for a while, because that has failed.
    pub(super) fn rests(&self, keyspace: usize) -> bool {
        self.queue.rests.until(keyspace).is_some()
    }

    /// The error of the merge that failed, if one has: [`Error::Busy`] until its cause is known.
    pub(super) fn error(&self) -> Option<Error> {
        let work = self.queue.work.lock();
        let looking = || Error::Busy {
            what: "a checkpoint from being made, since a merge has failed",
        };
        let failed = work.has_failed.then(looking);
        work.error.clone().or(failed)
    }

    /// Waits for the merge that is under way and ends the thread.
    pub(super) fn end(&self) {
        self.queue.work.lock().end = true;
        self.queue.changed.notify_one();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic of the thread was printed by it.
            let _ = thread.join();
        }
    }
}

impl Drop for TableMerger {
    fn drop(&mut self) {
        self.end();
    }
}

impl MergeQueue {
    fn run(&self, merges: &impl Merges) {
        let panicked = PanickedMerge(self);
        let mut work = self.work.lock();
        while !work.end {
            let Some(keyspace) = self.next(work.looks) else {
                self.wait(&mut work);
                continue;
            };
            work.looks[keyspace] -= 1;
            drop(work);
            let merged = merges.merge(keyspace);
            work = self.work.lock();
            let Err(error) = merged else {
                self.rests.note(keyspace, None);
                continue;
            };
            // At once: nothing more may be written meanwhile.
            work.has_failed = true;
            drop(work);
            let is_ending = || self.work.lock().end;
            let error = merges.blame(keyspace, error, &is_ending);
            self.rests.note(keyspace, Some(&error));
            work = self.work.lock();
            work.error = Some(error);
            break;
        }
        drop(work);
        std::mem::forget(panicked);
    }

    /// The keyspace that waits for most looks, of those that do not rest: neither keeps the other
    /// from being merged.
    fn next(&self, looks: [u32; 2]) -> Option<usize> {
        let waiting = (0..looks.len()).filter(|keyspace| looks[*keyspace] > 0);
        let ready = waiting.filter(|keyspace| self.rests.until(*keyspace).is_none());
        ready.max_by_key(|keyspace| looks[*keyspace])
    }

    /// Waits until somebody asks for something, or a keyspace that is to be looked at has rested.
    fn wait(&self, work: &mut MutexGuard<'_, MergeLooks>) {
        let waiting = (0..work.looks.len()).filter(|keyspace| work.looks[*keyspace] > 0);
        match waiting
            .filter_map(|keyspace| self.rests.until(keyspace))
            .min()
        {
            Some(until) => {
                let rest = until.saturating_duration_since(Instant::now());
                self.changed.wait_for(work, rest);
            }
            None if self.next(work.looks).is_none() => self.changed.wait(work),
            // It has rested since it was looked for.
            None => {}
        }
    }
}

/// A merge that has panicked has failed, and nobody knows what it has written.
struct PanickedMerge<'a>(&'a MergeQueue);

impl Drop for PanickedMerge<'_> {
    fn drop(&mut self) {
        let error = Error::of_errno("merge tables of", Path::new(super::FOLDER), Errno::EIO);
        self.0.work.lock().error = Some(error);
    }
}
