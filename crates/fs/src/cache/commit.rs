//! Commits: an epoch of the log goes to the backend. One thread at a time leads; those that come
//! meanwhile share the next commit. `docs/design/log.md`, "A commit".

use super::caught::caught;
use super::flush::{Taken, check_unpinned};
use crate::backend::Record;
use crate::errno::{Errno, Result};
use crate::log::{ChangeLog, Cut};
use crate::superblock::Superblock;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering::Relaxed};
use hearth_sync::primitive::thread;
use std::panic::resume_unwind;
use std::time::{Duration, Instant};

/// How often a cut is put off because a file that replaces another was written meanwhile. After
/// that its contents are written inside the cut.
const DEFERRALS: usize = 3;

/// How long a commit waits for others at most: about what a cheap flush takes twice.
const GATHERING: Duration = Duration::from_micros(300);

/// Somebody who waits for a commit.
struct Waiter<'a>(&'a AtomicUsize);

impl Waiter<'_> {
    fn new(callers: &AtomicUsize) -> Waiter<'_> {
        callers.fetch_add(1, Relaxed);
        Waiter(callers)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Superblock {
    /// Returns when the backend has every epoch up to `epoch`. Nothing is pinned and no lock is
    /// held.
    ///
    /// # Errors
    /// `ENOSPC`: the backend has no room now; nothing is lost, and the next commit tries again. Any
    /// other error stays.
    pub(crate) fn commit_through(&self, epoch: u64) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        let _waiter = Waiter::new(&self.cache.callers);
        let mut state = self.cache.commit.lock();
        loop {
            if let Some(errno) = self.cache.latched() {
                return Err(errno);
            }
            if log.applied() >= epoch {
                return Ok(());
            }
            if state.leads {
                self.cache.committed.wait(&mut state);
                continue;
            }
            if !state.is_held && log.is_empty() {
                return Ok(());
            }
            state.leads = true;
            let is_held = state.is_held;
            drop(state);
            self.gather();
            let result = caught(|| self.commit_once(log, is_held));
            state = self.cache.commit.lock();
            state.leads = false;
            state.is_held = matches!(result, Ok(Err(Errno::ENOSPC)));
            self.cache.committed.notify_all();
            match result {
                Ok(Ok(())) => {}
                Ok(Err(errno)) => return Err(errno),
                Err(panic) => {
                    drop(state);
                    self.latch(Errno::EIO);
                    resume_unwind(panic);
                }
            }
        }
    }

    /// Waits a moment for others who are about to ask for a commit: as many as the last one served.
    /// Where flushes are cheap, a commit would end before they come, and each would pay for its
    /// own. A caller who is alone waits for nobody.
    fn gather(&self) {
        let (callers, served) = (&self.cache.callers, &self.cache.served);
        let expected = served.load(Relaxed);
        if expected > 1 && !cfg!(feature = "shuttle") {
            let begun = Instant::now();
            while callers.load(Relaxed) < expected && begun.elapsed() < GATHERING {
                thread::yield_now();
            }
        }
        served.store(callers.load(Relaxed), Relaxed);
    }

    /// Ends the volume: see [`crate::Volume::close`].
    pub(crate) fn close(&self) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        check_unpinned()?;
        if !log.signal.close() {
            return Ok(());
        }
        // First, so that nothing comes behind the last commit. What was changed before the volume
        // became read-only is in it.
        if !self.is_read_only() {
            // A read-only volume records none.
            self.heat.keep_all(&self.objects);
        }
        self.set_read_only(true);
        let synced = self.sync();
        synced.and(self.objects.backend.close())
    }

    /// Ends the volume: see [`crate::Volume::abandon`].
    pub(crate) fn abandon(&self) {
        if self.log().is_some_and(|log| log.signal.close()) {
            self.latch(Errno::EIO);
        }
    }

    /// Ends an epoch and gives it to the backend. `is_held`: the backend has kept records that it
    /// had no room for.
    fn commit_once(&self, log: &ChangeLog, is_held: bool) -> Result<()> {
        let Cut { epoch, records } = self.cut(log)?;
        if records.is_empty() && !is_held {
            log.set_applied(epoch);
            return Ok(());
        }
        for record in &records {
            if let Record::Gone { ino, generation } = *record {
                self.cache.ghosts.note_sent(ino, generation);
            }
        }
        let committed = self.objects.backend.commit(epoch, records);
        committed.inspect_err(|&errno| self.latch(errno))?;
        log.set_applied(epoch);
        self.look_at_room();
        for (ino, generation) in self.cache.ghosts.take_sent() {
            self.objects.inodes.release(ino, generation);
        }
        Ok(())
    }

    /// Ends an epoch. The contents of files that replace others are in it.
    fn cut(&self, log: &ChangeLog) -> Result<Cut> {
        for round in 0.. {
            // The cut does not come before they are written back.
            self.flush_each(Taken::new(log.take_first(), |ino| log.note_first(ino)))?;
            let cut = log.cut(|| {
                let mut first = Taken::new(log.take_first(), |ino| log.note_first(ino));
                first.is_empty() || round >= DEFERRALS && first.all(|ino| self.settle_in_cut(ino))
            });
            if let Some(cut) = cut {
                return Ok(cut);
            }
            thread::yield_now();
        }
        unreachable!("the loop ends with a cut")
    }

    fn settle_in_cut(&self, ino: u64) -> bool {
        let g = pin();
        match self.objects.inodes.get(ino, &g) {
            Some(inode) => self.flush_in_cut(inode).unwrap_or(false),
            None => true,
        }
    }
}
