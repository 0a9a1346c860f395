//! Syncs: what callers ask for, and what the volume does unasked. See "Write-back" in
//! `docs/design/log.md`.

use super::saving::During;
use crate::errno::{Errno, Result};
use crate::inode::Inode;
use crate::log::{ChangeLog, GapWait, Uncommitted};
use crate::superblock::Superblock;
use hearth_sync::epoch::{is_pinned, pin};
use std::time::{Duration, Instant};

/// How long an operation that needs room waits for it at most.
const MAKING_ROOM: Duration = Duration::from_secs(2);

impl Superblock {
    /// Writes a file back and returns when the backend has it, and everything that happened before.
    /// The caller has a reference.
    ///
    /// # Errors
    /// `EDEADLK` where the caller is pinned.
    pub(crate) fn fsync(&self, inode: &Inode) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        self.check_own()?;
        check_unpinned()?;
        if !crate::is_control(inode.number()) {
            let wait = log.gaps.settle(Some(inode.number()));
            self.flush(inode, wait)?;
        }
        self.commit_through(log.epoch())
    }

    /// Writes everything back and returns when the backend has it.
    ///
    /// # Errors
    /// `EDEADLK` where the caller is pinned.
    pub(crate) fn sync(&self) -> Result<()> {
        self.check_own()?;
        match self.log() {
            Some(log) => self.sync_up_to(log.gaps.settle(None)),
            None => Ok(()),
        }
    }

    /// [`Superblock::sync`] that nobody asked for: what a kernel in front may keep is waited for,
    /// unless somebody waits for room.
    pub(crate) fn sync_unasked(&self) -> Result<()> {
        match self.log().is_some_and(ChangeLog::is_pressed) {
            true => self.sync_up_to(GapWait::InFlight),
            false => self.sync_up_to(GapWait::Kept),
        }
    }

    fn sync_up_to(&self, wait: GapWait) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        check_unpinned()?;
        // Also where some contents found no room: what is removed meanwhile makes it.
        let flushed = self.flush_all(log, wait);
        let committed = self.commit_through(log.epoch());
        let uncommitted = flushed?;
        if committed.is_err() {
            uncommitted.keep();
        }
        committed
    }

    /// [`Superblock::sync`], with the heat as it is now.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.check_own()?;
        self.heat.keep_all(&self.objects);
        self.sync()
    }

    /// Gives all unwritten contents to the backend, up to gaps that are waited for. Goes on after
    /// an error and returns the first, or what is to be committed.
    fn flush_all<'l>(&self, log: &'l ChangeLog, wait: GapWait) -> Result<Uncommitted<'l>> {
        // Whoever comes meanwhile waits: his files may be in the list that was taken.
        let _one = self.cache.syncing.lock();
        let taken = Taken::new(log.unwritten.take(), |ino| log.unwritten.note(ino));
        let during = During::Operations;
        self.flush_each(taken, (wait, during), || self.end_heavy_epoch(log))?;
        Ok(log.end_taken())
    }

    /// Makes what room there is: writes everything back, and lets the backend give back what is
    /// dead, until an operation that was refused may go on or nothing more comes.
    pub(super) fn make_room(&self) {
        let begun = Instant::now();
        // Without room a sync fails; what it has done counts.
        let _ = self.sync();
        while !self.has_room() && self.objects.backend.tidy() && begun.elapsed() < MAKING_ROOM {
            let _ = self.sync();
        }
        self.settle_room();
    }

    /// Commits if records carry much. The contents of small files ride in them: those of a hundred
    /// thousand files would be half a gigabyte of memory, and one commit.
    fn end_heavy_epoch(&self, log: &ChangeLog) -> Result<()> {
        match log.is_heavy() {
            true => self.commit_through(log.epoch()),
            false => Ok(()),
        }
    }

    /// Writes back each of the files, and calls `after` behind each. Goes on after an error and
    /// returns the first.
    pub(super) fn flush_each(
        &self,
        mut files: Taken<impl FnMut(u64)>,
        (wait, during): (GapWait, During),
        after: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut result = Ok(());
        while let Some(ino) = files.left.last().copied() {
            let held = self.objects.inodes.hold(ino, &pin());
            let flushed = held.map_or(Ok(()), |inode| {
                self.with_held(inode, |inode| self.flush_during(inode, wait, during))
            });
            files.left.pop();
            if flushed.is_err() {
                (files.put_back)(ino);
            }
            result = result.and(flushed).and_then(|()| after());
        }
        result
    }
}

/// Refuses who is inside a callback of the library: a cut, or another wait for all who are pinned,
/// would wait for the end of the operation that has called it.
pub(crate) fn check_unpinned() -> Result<()> {
    match is_pinned() {
        true => Err(Errno::EDEADLK),
        false => Ok(()),
    }
}

/// Files that were taken from a list. Those that are left when it is dropped, by a panic of the
/// backend, are put back.
pub(super) struct Taken<F: FnMut(u64)> {
    left: Vec<u64>,
    put_back: F,
}

impl<F: FnMut(u64)> Taken<F> {
    pub fn new(left: Vec<u64>, put_back: F) -> Taken<F> {
        Taken { left, put_back }
    }

    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Whether `done` says so of every file. Those from the first on of which it does not are left.
    pub fn all(&mut self, mut done: impl FnMut(u64) -> bool) -> bool {
        while let Some(ino) = self.left.last().copied() {
            if !done(ino) {
                return false;
            }
            self.left.pop();
        }
        true
    }
}

impl<F: FnMut(u64)> Drop for Taken<F> {
    fn drop(&mut self) {
        self.left.drain(..).for_each(&mut self.put_back);
    }
}
