//! Write-back: unwritten contents of a file go to the backend. See "Write-back" in
//! `docs/design/log.md`.
//!
//! One write-back of a file at a time. Pages are copied inside the gate to where the backend packs
//! them, and recorded under `growth`. If pages were cut or moved meanwhile, what was copied may
//! belong to nobody: the write-back begins again.

use super::saving::{During, Saving};
use crate::backend::{Edit, Extent};
use crate::data::{Data, PAGE};
use crate::errno::{Errno, Result};
use crate::inode::{Inode, StateBit};
use crate::log::{ChangeLog, GapWait};
use crate::superblock::Superblock;
use crate::tenant::TenantId;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::atomic::Ordering::{Relaxed, Release, SeqCst};
use hearth_sync::primitive::atomic::fence;
use hearth_sync::primitive::thread;
use std::ops::Range;

/// Pages of one step of a write-back: what is recorded at once.
const STEP_PAGES: usize = 32 << 10;
/// Pages of one step at least, where steps have failed because pages were cut or moved.
const STEP_LEAST: usize = 256;

/// What a write-back of a file has come to.
enum Flushed {
    /// All is recorded that was to be.
    All,
    /// This many pages were left behind a gap that is waited for, and are dirty, or only the size
    /// was left: so is the file.
    Held(u64),
    /// Pages were cut or moved meanwhile: it is to begin again.
    Moved,
}

/// The right to write a file back.
pub(super) struct Turn<'a> {
    sb: &'a Superblock,
    inode: &'a Inode,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let _one = self.sb.cache.flushing.lock();
        // Release: partner is the fence in `has_durable_contents`, which takes no lock.
        fence(Release);
        self.inode.state.clear(StateBit::Flushing);
        self.sb.cache.flushed.notify_all();
    }
}

impl Superblock {
    /// Gives the unwritten contents of a file to the backend, those that were there when this was
    /// called, up to the first gap that is waited for. They are durable with the next commit. The
    /// caller has a reference, and nothing is pinned.
    pub(crate) fn flush(&self, inode: &Inode, wait: GapWait) -> Result<()> {
        self.flush_during(inode, wait, During::Operations)
    }

    /// [`Superblock::flush`] as part of something.
    pub(super) fn flush_during(&self, inode: &Inode, wait: GapWait, during: During) -> Result<()> {
        if !self.is_durable() || !inode.state.has_unrecorded() {
            return Ok(());
        }
        let _turn = self.wait_for_turn(inode);
        // Another write-back may have recorded the contents meanwhile, or failed.
        match self.dirty_data(inode) {
            Some(data) => self.flush_in_turn(inode, data, wait, during),
            None => Ok(()),
        }
    }

    /// [`Superblock::flush`] inside a cut. Returns false if another thread writes the file back.
    pub(super) fn flush_in_cut(&self, inode: &Inode) -> Result<bool> {
        let Some(data) = self.dirty_data(inode) else {
            return Ok(!inode.state.has(StateBit::Flushing));
        };
        let Some(_turn) = self.try_turn(inode) else {
            return Ok(false);
        };
        self.flush_in_turn(inode, data, GapWait::InFlight, During::Cut)
            .map(|()| true)
    }

    pub(super) fn dirty_data<'i>(&self, inode: &'i Inode) -> Option<&'i Data> {
        let is_dirty = self.is_durable() && inode.state.has(StateBit::Dirty);
        inode.data().filter(|_| is_dirty)
    }

    fn wait_for_turn<'a>(&'a self, inode: &'a Inode) -> Turn<'a> {
        let mut one = self.cache.flushing.lock();
        while inode.state.has(StateBit::Flushing) {
            self.cache.flushed.wait(&mut one);
        }
        inode.state.set(StateBit::Flushing);
        Turn { sb: self, inode }
    }

    pub(super) fn try_turn<'a>(&'a self, inode: &'a Inode) -> Option<Turn<'a>> {
        let _one = self.cache.flushing.lock();
        let is_free = inode.state.set_first(StateBit::Flushing);
        // Not made where it is another's: dropping it would end that one's turn.
        is_free.then(|| Turn { sb: self, inode })
    }

    fn flush_in_turn(
        &self,
        inode: &Inode,
        data: &Data,
        wait: GapWait,
        during: During,
    ) -> Result<()> {
        if self.is_over(inode) {
            return Ok(());
        }
        let mut step = STEP_PAGES;
        loop {
            // Cleared before the look: what is written from here on sets it again.
            inode.state.clear(StateBit::Dirty);
            // SeqCst: partner is the fence in `note_dirty`: this thread finds what was written, or
            // the writer finds the bit clear.
            fence(SeqCst);
            match self.flush_pages(inode, data, (0..u64::MAX, step), wait, during)? {
                Flushed::All => return Ok(()),
                Flushed::Held(pages) => {
                    // The write-back that takes them will find the file in the list again.
                    let count = |log: &ChangeLog| log.count_left(pages * PAGE, inode.tenant());
                    self.log().inspect(|log| count(log));
                    return Ok(());
                }
                Flushed::Moved => {}
            }
            // Begun again: pages may have moved.
            step = (step / 2).max(STEP_LEAST);
        }
    }

    /// Writes back `pages` of a file, and those before them that its size waits for. Others stay
    /// dirty, and so does the file. Returns whether that was done: not if somebody else writes the
    /// file back or cuts it, nor behind a gap. The caller has a reference, and nothing is pinned.
    fn flush_early(&self, inode: &Inode, pages: Range<u64>) -> Result<bool> {
        let Some(data) = self.dirty_data(inode) else {
            return Ok(true);
        };
        let Some(_turn) = self.try_turn(inode) else {
            return Ok(false);
        };
        if self.is_over(inode) {
            return Ok(true);
        }
        let (wait, during) = (GapWait::Kept, During::Operations);
        let flushed = self.flush_pages(inode, data, (pages, STEP_PAGES), wait, during)?;
        Ok(matches!(flushed, Flushed::All))
    }

    /// Whether the inode has ended: then nobody pays for its pages.
    pub(super) fn is_over(&self, inode: &Inode) -> bool {
        inode.meta.is_unlinked() && inode.meta.account() == crate::quota::NO_ACCOUNT
    }

    /// Writes `pages` back, and those before them that the size waits for, `step` at once, up to
    /// the first gap that is waited for. In its turn.
    ///
    /// What is written meanwhile is for the next time: parts that have been passed lack it.
    fn flush_pages(
        &self,
        inode: &Inode,
        data: &Data,
        (pages, step): (Range<u64>, usize),
        wait: GapWait,
        during: During,
    ) -> Result<Flushed> {
        let (edits, size, recorded) = {
            let _inside = inode.gate.read(inode.percpu());
            let contents = &inode.contents;
            let recorded = contents.size.load(Relaxed);
            (contents.edits.load(Relaxed), inode.meta.size(), recorded)
        };
        let ino = inode.number();
        let gap = self.log().and_then(|log| log.gaps.first(ino, wait));
        let is_held = gap.is_some_and(|gap| gap < size);
        let (size, mut held) = (size.min(gap.unwrap_or(size)), 0);
        // Those behind the recorded size are among them, so that it may grow.
        let mut from = Some(pages.start.min(recorded / PAGE));
        while let Some(start) = from {
            let mut saving = Saving::new(self, inode, data, size);
            from = saving.find(start..pages.end, step);
            let now = || self.objects.clock.monotonic();
            let stored = self.cache.on_disk(now, || saving.store(during));
            let extents = stored.inspect_err(|&errno| self.latch(errno))?;
            let durable = size.min(from.unwrap_or(pages.end).saturating_mul(PAGE));
            let Some(epoch) = self.record_flush(inode, edits, durable, extents, during) else {
                return Ok(Flushed::Moved);
            };
            held += saving.behind();
            saving.end(epoch);
        }
        if !is_held {
            return Ok(Flushed::All);
        }
        // Also where nothing lies behind the gap any more: the size has yet to be recorded.
        self.note_dirty(inode);
        Ok(Flushed::Held(held))
    }

    /// Records what was placed, and returns the low bits of the epoch that has it; `None` if pages
    /// were cut or moved since they were copied, in change `edits`.
    pub(super) fn record_flush(
        &self,
        inode: &Inode,
        edits: u32,
        durable: u64,
        extents: Vec<Extent>,
        during: During,
    ) -> Option<u8> {
        let log = self.log()?;
        loop {
            // The epoch does not change until it is dropped.
            let _g = pin();
            if during != During::Cut && !log.may_begin() {
                drop(_g);
                thread::yield_now();
                continue;
            }
            let _growth = inode.meta.growth.lock();
            if inode.contents.edits.load(Relaxed) != edits {
                return None;
            }
            // A size that was set meanwhile is another record's.
            let recorded = inode.contents.size.load(Relaxed);
            let size = durable.max(recorded).min(inode.meta.size());
            log.count_inline(&extents);
            let edit = match extents.is_empty() {
                true => Edit::Size,
                false => Edit::Write(extents),
            };
            self.record_contents(inode, size, edit);
            return Some(log.epoch() as u8);
        }
    }

    /// Writes back what was written of large files until now. What fails is left to the next sync.
    pub(crate) fn write_early(&self) {
        let Some(log) = self.log() else { return };
        let mut cached = Vec::new();
        for (written, tenant) in log.unwritten.take_early() {
            let mut counted = EarlyBytes {
                log,
                sum: written.sum,
                tenant,
                is_done: false,
            };
            let pages = written.bytes.start / PAGE..written.bytes.end.div_ceil(PAGE);
            let held = self.objects.inodes.hold(written.ino, &pin());
            let flushed = held.map_or(Ok(true), |inode| {
                self.with_held(inode, |inode| self.flush_early(inode, pages.clone()))
            });
            counted.is_done = flushed == Ok(true);
            if counted.is_done && written.is_cached {
                cached.push((written.ino, pages));
            }
        }
        self.drop_cached(cached);
    }

    /// The backend has failed for good: the volume refuses changes from now on, and every sync
    /// fails. Lack of room is no such failure.
    pub(crate) fn latch(&self, errno: Errno) {
        if errno == Errno::ENOSPC {
            self.doubt_room();
            return;
        }
        self.cache.latch(errno);
        self.set_read_only(true);
    }
}

/// Bytes that wait for an early write-back until this is dropped.
struct EarlyBytes<'a> {
    log: &'a ChangeLog,
    sum: u64,
    tenant: TenantId,
    is_done: bool,
}

impl Drop for EarlyBytes<'_> {
    fn drop(&mut self) {
        self.log.end_early(self.sum, self.tenant, self.is_done);
    }
}
