//! The thread that merges tables as they become many.
//!
//! fjall 3.1.13 has threads for that, which are not used. They lose the error of a merge that
//! fails: a write or a sync that failed looks as a lack of room does. This thread keeps it. It has
//! ended before the database is dropped, which tells merges to stop: by its source one that stops
//! between two entries goes on to install what it has merged so far.

use crate::error::{Error, Result};
use hearth_sync::primitive::{Arc, Condvar, Mutex, thread};

/// The thread. It ends behind the merge that is under way, and is waited for, when this is dropped.
pub(super) struct TableMerger {
    queue: Arc<MergeQueue>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct MergeQueue {
    work: Mutex<MergeLooks>,
    changed: Condvar,
}

#[derive(Default)]
struct MergeLooks {
    end: bool,
    /// How often each keyspace is to be looked at: one look merges once.
    looks: [u32; 2],
    /// Why nothing is merged any more.
    error: Option<Error>,
}

impl TableMerger {
    /// Starts the thread, which calls `merge` with the number of a keyspace: at first for each of
    /// them, and then as it is asked.
    pub(super) fn start(
        merge: impl Fn(usize) -> Result<()> + Send + 'static,
    ) -> Result<TableMerger> {
        let queue = Arc::<MergeQueue>::default();
        queue.work.lock().looks = [1; 2];
        let of = Arc::clone(&queue);
        let started = thread::Builder::new()
            .name("hearth-tables".to_owned())
            .spawn(move || of.run(&merge));
        let thread = started.map_err(|error| {
            let folder = std::path::Path::new(super::FOLDER);
            Error::io("start the thread that merges tables of", folder, error)
        })?;
        let thread = Some(thread);
        Ok(TableMerger { queue, thread })
    }

    /// Asks for a look at a keyspace.
    pub(super) fn ask(&self, keyspace: usize) {
        let mut work = self.queue.work.lock();
        work.looks[keyspace] = work.looks[keyspace].saturating_add(1);
        drop(work);
        self.queue.changed.notify_one();
    }

    /// Why it merges nothing any more.
    pub(super) fn error(&self) -> Option<Error> {
        self.queue.work.lock().error.clone()
    }
}

impl Drop for TableMerger {
    fn drop(&mut self) {
        self.queue.work.lock().end = true;
        self.queue.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed by it.
            let _ = thread.join();
        }
    }
}

impl MergeQueue {
    fn run(&self, merge: &dyn Fn(usize) -> Result<()>) {
        let panicked = PanickedMerge(self);
        let mut work = self.work.lock();
        while !work.end && work.error.is_none() {
            let Some(keyspace) = work.looks.iter().position(|looks| *looks > 0) else {
                self.changed.wait(&mut work);
                continue;
            };
            work.looks[keyspace] -= 1;
            drop(work);
            let merged = merge(keyspace);
            work = self.work.lock();
            work.error = merged.err();
        }
        drop(work);
        std::mem::forget(panicked);
    }
}

/// A merge that has panicked has failed.
struct PanickedMerge<'a>(&'a MergeQueue);

impl Drop for PanickedMerge<'_> {
    fn drop(&mut self) {
        let what = "a merge of the engine's tables has panicked";
        self.0.work.lock().error = Some(Error::corrupt(super::FOLDER, 0, what));
    }
}
