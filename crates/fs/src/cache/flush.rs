//! Write-back: unwritten contents of a file go to the backend. `docs/design/store.md`, "Write-back".
//!
//! One write-back of a file at a time. Pages are copied inside the gate, given to the backend with
//! nothing held, and recorded under `growth`. If pages were cut or moved meanwhile, what was copied
//! may belong to nobody: the write-back begins again.

use crate::backend::{Edit, Extent, Place};
use crate::data::{Data, PAGE, SavedPage};
use crate::errno::{Errno, Result};
use crate::inode::{Inode, StateBit};
use crate::superblock::Superblock;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::atomic::Ordering::Relaxed;
use hearth_sync::primitive::thread;

/// Most pages that ride in a record.
const INLINE_PAGES: usize = 16;
/// Pages of one step of a write-back.
const STEP_PAGES: usize = 2048;

/// Whether the caller is inside a cut, when no operation changes anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum During {
    Operations,
    Cut,
}

/// The right to write a file back.
struct Turn<'a> {
    sb: &'a Superblock,
    inode: &'a Inode,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let _one = self.sb.cache.flushing.lock();
        self.inode.state.clear(StateBit::Flushing);
        self.sb.cache.flushed.notify_all();
    }
}

impl Superblock {
    /// Gives the unwritten contents of a file to the backend, those that were there when this was
    /// called. They are durable with the next commit. The caller has a reference, and nothing is
    /// pinned.
    pub(crate) fn flush(&self, inode: &Inode) -> Result<()> {
        let Some(data) = self.dirty_data(inode) else {
            // Another write-back may have taken the contents and not recorded them yet.
            drop(self.wait_for_turn(inode));
            return Ok(());
        };
        let _turn = self.wait_for_turn(inode);
        self.flush_in_turn(inode, data, During::Operations)
    }

    /// [`Superblock::flush`] inside a cut. Returns false if another thread writes the file back.
    pub(super) fn flush_in_cut(&self, inode: &Inode) -> Result<bool> {
        let Some(data) = self.dirty_data(inode) else {
            return Ok(!inode.state.has(StateBit::Flushing));
        };
        let Some(_turn) = self.try_turn(inode) else {
            return Ok(false);
        };
        self.flush_in_turn(inode, data, During::Cut).map(|()| true)
    }

    fn dirty_data<'i>(&self, inode: &'i Inode) -> Option<&'i Data> {
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

    fn try_turn<'a>(&'a self, inode: &'a Inode) -> Option<Turn<'a>> {
        let _one = self.cache.flushing.lock();
        let is_free = inode.state.set_first(StateBit::Flushing);
        is_free.then_some(Turn { sb: self, inode })
    }

    fn flush_in_turn(&self, inode: &Inode, data: &Data, during: During) -> Result<()> {
        if inode.meta.is_unlinked() && inode.meta.account() == crate::quota::NO_ACCOUNT {
            return Ok(());
        }
        let mut from = 0;
        // Cleared before the look: what is written from here on sets it again.
        inode.state.clear(StateBit::Dirty);
        loop {
            let (edits, size, pages) = {
                let _inside = inode.gate.read(inode.percpu());
                let edits = inode.contents.edits.load(Relaxed);
                let size = inode.meta.size();
                (edits, size, data.begin_save(from, STEP_PAGES, &pin()))
            };
            let is_last = pages.len() < STEP_PAGES;
            let next = pages.last().map_or(u64::MAX, |page| page.index + 1);
            let mut saving = Saving {
                data,
                pages: &pages,
                is_saved: false,
            };
            let extents = match self.place(inode, &pages) {
                Ok(extents) => extents,
                Err(errno) => {
                    drop(saving);
                    self.note_dirty(inode);
                    return Err(errno);
                }
            };
            let durable = if is_last { size } else { size.min(next * PAGE) };
            if !self.record_flush(inode, edits, durable, extents, during) {
                // Begun again from the start: pages may have moved.
                drop(saving);
                from = 0;
                continue;
            }
            saving.is_saved = true;
            drop(saving);
            if is_last {
                return Ok(());
            }
            from = next;
        }
    }

    /// Puts pages where they will stay.
    fn place(&self, inode: &Inode, pages: &[SavedPage]) -> Result<Vec<Extent>> {
        let written = pages.iter().filter(|page| page.bytes.is_some()).count();
        let mut extents;
        if written > INLINE_PAGES {
            let given: Vec<(u64, Box<[u8]>)> = pages
                .iter()
                .filter_map(|page| Some((page.index, page.bytes.clone()?)))
                .collect();
            let stored =
                self.objects
                    .backend
                    .write_pages(inode.number(), inode.generation(), &given);
            extents = stored.inspect_err(|&errno| self.latch(errno))?;
        } else {
            extents = inline(pages);
        }
        let unwritten = pages.iter().filter(|page| page.bytes.is_none());
        for page in unwritten {
            match extents.last_mut() {
                Some(Extent {
                    pages,
                    place: Place::Unwritten,
                }) if pages.end == page.index => pages.end += 1,
                _ => extents.push(Extent {
                    pages: page.index..page.index + 1,
                    place: Place::Unwritten,
                }),
            }
        }
        Ok(extents)
    }

    /// Records what was placed; false if pages were cut or moved since they were copied, in change
    /// `edits`.
    fn record_flush(
        &self,
        inode: &Inode,
        edits: u32,
        durable: u64,
        extents: Vec<Extent>,
        during: During,
    ) -> bool {
        loop {
            let _g = pin();
            let may_begin = self.log().is_some_and(|log| log.may_begin());
            if during == During::Operations && !may_begin {
                drop(_g);
                thread::yield_now();
                continue;
            }
            let _growth = inode.meta.growth.lock();
            if inode.contents.edits.load(Relaxed) != edits {
                return false;
            }
            // A size that was set meanwhile is another record's.
            let recorded = inode.contents.size.load(Relaxed);
            let size = durable.max(recorded).min(inode.meta.size());
            let edit = match extents.is_empty() {
                true => Edit::Size,
                false => Edit::Write(extents),
            };
            self.record_contents(inode, size, edit);
            return true;
        }
    }

    /// Writes a file back and returns when the backend has it, and everything that happened before.
    /// The caller has a reference, and nothing is pinned.
    pub(crate) fn fsync(&self, inode: &Inode) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        if !crate::is_control(inode.number()) {
            self.flush(inode)?;
        }
        self.commit_through(log.epoch())
    }

    /// Writes everything back and returns when the backend has it.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        self.flush_all()?;
        self.commit_through(log.epoch())
    }

    /// [`Superblock::sync`], with the heat as it is now.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.heat.keep_all(&self.objects);
        self.sync()
    }

    /// Gives all unwritten contents to the backend. Goes on after an error and returns the first.
    pub(super) fn flush_all(&self) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        let mut result = Ok(());
        for ino in log.take_dirty() {
            let Some(inode) = self.objects.inodes.hold(ino, &pin()) else {
                continue;
            };
            result = result.and(self.with_held(inode, |inode| self.flush(inode)));
        }
        result
    }

    /// The backend has failed for good: the volume refuses changes from now on, and every sync
    /// fails. Lack of room is no such failure.
    pub(crate) fn latch(&self, errno: Errno) {
        if errno == Errno::ENOSPC {
            return;
        }
        self.cache.latch(errno);
        self.set_read_only(true);
    }
}

/// Extents that carry their bytes, one for each run of written pages.
fn inline(pages: &[SavedPage]) -> Vec<Extent> {
    let mut runs: Vec<(std::ops::Range<u64>, Vec<u8>)> = Vec::new();
    for page in pages {
        let Some(bytes) = &page.bytes else { continue };
        match runs.last_mut() {
            Some((run, all)) if run.end == page.index => {
                run.end += 1;
                all.extend_from_slice(bytes);
            }
            _ => runs.push((page.index..page.index + 1, bytes.to_vec())),
        }
    }
    let extent = |(pages, bytes): (_, Vec<u8>)| Extent {
        pages,
        place: Place::Inline(bytes.into()),
    };
    runs.into_iter().map(extent).collect()
}

/// Pages under write-back. Unless they are saved they are dirty again, even after a panic.
struct Saving<'d> {
    data: &'d Data,
    pages: &'d [SavedPage],
    is_saved: bool,
}

impl Drop for Saving<'_> {
    fn drop(&mut self) {
        self.data.end_save(self.pages, self.is_saved, &pin());
    }
}
