//! Commits: an epoch of the log goes to the backend. One thread at a time leads; those that come
//! meanwhile share the next commit. `docs/design/log.md`, "A commit".
//!
//! A caller waits in one of two ways: its thread sleeps, or it leaves a function that the leader
//! calls. Who sleeps leads if nobody else does. For those that left a function a thread of the
//! volume leads (`service::sync_leader`).

use super::caught::{Caught, caught};
use super::saving::During;
use super::sync::{Taken, check_unpinned};
use crate::backend::Record;
use crate::errno::{Errno, Result};
use crate::log::{ChangeLog, Cut, GapWait};
use crate::stats::Event;
use crate::superblock::{CommitState, Superblock, WaitingCaller, WhenDurable};
use hearth_sync::epoch::pin;
use hearth_sync::primitive::{MutexGuard, thread};
use std::panic::resume_unwind;
use std::time::Instant;

/// How often a cut is put off because a file that replaces another was written meanwhile. After
/// that its contents are written inside the cut.
const DEFERRALS: usize = 3;

/// The state of commits, under its lock.
type LockedCommit<'a> = MutexGuard<'a, CommitState>;

impl Superblock {
    /// Returns when the backend has every epoch up to `epoch`. Nothing is pinned and no lock is
    /// held.
    ///
    /// # Errors
    /// `ENOSPC`: the backend has no room now; nothing is lost, and the next commit tries again. Any
    /// other error stays.
    pub(crate) fn commit_through(&self, epoch: u64) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        let (mut state, mut has_arrived) = (self.cache.commit.lock(), false);
        loop {
            if let Some(result) = self.settled(log, &state, epoch) {
                return result;
            }
            if !std::mem::replace(&mut has_arrived, true) {
                self.arrive(&mut state);
            }
            if state.leads {
                self.cache.committed.wait(&mut state);
                continue;
            }
            let led = self.lead(log, state);
            state = led.0;
            led.1?;
        }
    }

    /// Calls `then` when the backend has every epoch up to `epoch`, with the result of
    /// [`Superblock::commit_through`]: at once, or from the thread that leads. Does not wait, but
    /// after the end of the volume.
    pub(crate) fn when_committed(&self, epoch: u64, then: WhenDurable) {
        let Some(log) = self.log() else {
            return then(Ok(()));
        };
        let mut state = self.cache.commit.lock();
        if let Some(result) = self.settled(log, &state, epoch) {
            drop(state);
            return then(result);
        }
        self.arrive(&mut state);
        state.waiting.push(WaitingCaller { epoch, then });
        if !std::mem::replace(&mut state.is_served, true) {
            drop(state);
            if !self.cache.leader.ask() {
                // The volume has ended meanwhile, and its thread with it.
                self.lead_for_waiting();
            }
        }
    }

    /// Leads commits until nobody is left who waits for a call.
    pub(crate) fn lead_for_waiting(&self) {
        let Some(log) = self.log() else { return };
        let mut state = self.cache.commit.lock();
        while let Some(first) = state.waiting.iter().map(|caller| caller.epoch).min() {
            if let Some(result) = self.settled(log, &state, first) {
                let through = match result {
                    // Nothing waits for a commit, or nothing is committed any more.
                    _ if log.applied() < first => u64::MAX,
                    _ => log.applied(),
                };
                state = self.tell(state, through, result);
            } else if state.leads {
                self.cache.committed.wait(&mut state);
            } else {
                // Whom an error is for has been told.
                state = self.lead(log, state).0;
            }
        }
        state.is_served = false;
    }

    /// What a caller who waits for `epoch` gets without another commit.
    fn settled(&self, log: &ChangeLog, state: &CommitState, epoch: u64) -> Option<Result<()>> {
        if let Some(errno) = self.cache.latched() {
            return Some(Err(errno));
        }
        let is_done = log.applied() >= epoch;
        (is_done || !state.leads && !state.is_held && log.is_empty()).then_some(Ok(()))
    }

    /// Whether the backend has everything that was recorded, but for attributes of `ino`. May say
    /// false where that is so.
    pub(crate) fn is_durable_but_for_attrs(&self, ino: u64) -> bool {
        let Some(log) = self.log() else { return false };
        let state = self.cache.commit.lock();
        // What a commit that is under way has taken is in no list.
        let is_committing = state.leads || state.is_held;
        !is_committing && self.cache.latched().is_none() && log.has_only_attrs_of(ino)
    }

    fn arrive(&self, state: &mut CommitState) {
        if state.crowd.arrive() {
            self.cache.gathered.notify_one();
        }
    }

    /// Makes one commit and tells those who left a function. Nobody else leads.
    fn lead<'a>(
        &'a self,
        log: &ChangeLog,
        mut state: LockedCommit<'a>,
    ) -> (LockedCommit<'a>, Result<()>) {
        state.leads = true;
        self.gather(&mut state);
        let is_held = state.is_held;
        // Whoever waits now waits for this epoch or an earlier one.
        let through = log.epoch();
        drop(state);
        let begun = Instant::now();
        let led = caught(|| self.commit_once(log, is_held));
        let took = begun.elapsed();
        let result = self.outcome(&led);
        let mut state = self.cache.commit.lock();
        state.leads = false;
        state.is_held = result == Err(Errno::ENOSPC);
        state.crowd.end(took);
        self.cache.committed.notify_all();
        state = self.tell(state, through.max(log.applied()), result);
        if let Err(panic) = led {
            drop(state);
            resume_unwind(panic);
        }
        (state, result)
    }

    /// The result of a commit for those who share it.
    fn outcome(&self, led: &Caught<Result<()>>) -> Result<()> {
        match led {
            Ok(result) => *result,
            Err(_) => {
                self.latch(Errno::EIO);
                Err(Errno::EIO)
            }
        }
    }

    /// Tells those who wait for an epoch up to `through` and left a function.
    fn tell<'a>(
        &'a self,
        mut state: LockedCommit<'a>,
        through: u64,
        result: Result<()>,
    ) -> LockedCommit<'a> {
        let is_due = |caller: &mut WaitingCaller| caller.epoch <= through;
        let due: Vec<_> = state.waiting.extract_if(.., is_due).collect();
        if due.is_empty() {
            return state;
        }
        drop(state);
        for caller in due {
            (caller.then)(result);
        }
        self.cache.commit.lock()
    }

    /// Waits a moment for others who are about to ask for a commit. Where flushes are cheap, one
    /// would end before they come, and each would pay for its own; where they take long, those that
    /// come a little late would wait for two.
    fn gather(&self, state: &mut LockedCommit<'_>) {
        let deadline = Instant::now() + state.crowd.patience();
        // A model checker has no clock.
        while !state.crowd.is_complete() && !cfg!(feature = "shuttle") {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.cache.gathered.wait_for(state, left);
        }
        state.crowd.begin();
    }

    /// Ends the volume: see [`crate::Volume::close`].
    pub(crate) fn close(&self) -> Result<()> {
        self.check_own()?;
        self.heat.keep_foreign(&self.objects);
        let Some(log) = self.log() else { return Ok(()) };
        check_unpinned()?;
        if !log.signal.close() {
            return Ok(());
        }
        self.cache.leader.close();
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
            // Whoever abandons a volume knows what is lost, so it is not reported.
            self.cache.take_untold_failure();
            self.cache.leader.close();
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
            if let Record::Gone {
                ino,
                generation,
                is_brief: false,
            } = *record
            {
                self.cache.ghosts.note_sent(ino, generation);
            }
        }
        let now = || self.objects.clock.monotonic();
        let commit = || self.objects.backend.commit(epoch, records);
        let committed = self.cache.on_disk(now, commit);
        committed.inspect_err(|&errno| self.latch(errno))?;
        log.set_applied(epoch);
        self.stats.event(Event::Commit);
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
            let first = Taken::new(log.unwritten.take_first(), |ino| {
                log.unwritten.note_first(ino)
            });
            self.flush_each(first, (GapWait::InFlight, During::Commit), || Ok(()))?;
            let cut = log.cut(|| {
                let mut first = Taken::new(log.unwritten.take_first(), |ino| {
                    log.unwritten.note_first(ino)
                });
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
        // Held, so that nothing is recorded of it behind its end.
        let inode = self.objects.inodes.hold(ino, &pin());
        inode.is_none_or(|inode| {
            let flushed = self.with_held(inode, |inode| self.flush_in_cut(inode));
            flushed.unwrap_or(false)
        })
    }
}
