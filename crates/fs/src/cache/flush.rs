//! Write-back: unwritten contents of a file go to the backend. See "Write-back" in
//! `docs/design/log.md`.
//!
//! One write-back of a file at a time. Pages are copied inside the gate, given to the backend with
//! nothing held, and recorded under `growth`. If pages were cut or moved meanwhile, what was copied
//! may belong to nobody: the write-back begins again.

use crate::backend::{Edit, Extent, Place};
use crate::data::{Data, PAGE, SavedPage};
use crate::errno::{Errno, Result};
use crate::inode::{Inode, StateBit};
use crate::superblock::Superblock;
use hearth_sync::epoch::{is_pinned, pin};
use hearth_sync::primitive::atomic::Ordering::{Relaxed, SeqCst};
use hearth_sync::primitive::atomic::fence;
use hearth_sync::primitive::thread;
use std::time::{Duration, Instant};

/// Most pages that ride in a record.
const INLINE_PAGES: usize = 16;
/// Pages of one step of a write-back.
const STEP_PAGES: usize = 8192;
/// How long an operation that needs room waits for it at most.
const MAKING_ROOM: Duration = Duration::from_secs(2);
/// Pages that are copied under one guard: a cut waits for it.
const COPY_PAGES: usize = 256;

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
        if !self.is_durable() || !inode.state.has_unrecorded() {
            return Ok(());
        }
        let _turn = self.wait_for_turn(inode);
        // Another write-back may have recorded the contents meanwhile, or failed.
        match self.dirty_data(inode) {
            Some(data) => self.flush_in_turn(inode, data, During::Operations),
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
        let (mut from, mut begun) = (0, None);
        loop {
            if from == 0 {
                // Cleared before the look: what is written from here on sets it again.
                inode.state.clear(StateBit::Dirty);
                // SeqCst: partner is the fence in `note_dirty`: this thread finds what was written,
                // or the writer finds the bit clear.
                fence(SeqCst);
            }
            let (edits, size, (pages, is_behind)) = {
                let _inside = inode.gate.read(inode.percpu());
                // What is written while a long file is written back is for the next time: parts
                // that have been passed lack it.
                let (edits, size) = *begun.get_or_insert_with(|| {
                    let edits = inode.contents.edits.load(Relaxed);
                    (edits, inode.meta.size())
                });
                (edits, size, copy_step(data, from, size))
            };
            let is_last = pages.len() < STEP_PAGES;
            let next = pages.last().map_or(u64::MAX, |page| page.index + 1);
            let mut saving = Saving {
                of: (self, inode, data),
                pages,
                is_saved: false,
            };
            let extents = self.place(inode, &mut saving.pages)?;
            let durable = if is_last { size } else { size.min(next * PAGE) };
            saving.is_saved = self.record_flush(inode, edits, durable, extents, during);
            let is_saved = saving.is_saved;
            drop(saving);
            if is_behind {
                self.note_dirty(inode);
            }
            match is_saved {
                true if is_last => return Ok(()),
                true => from = next,
                // Begun again: pages may have moved.
                false => (from, begun) = (0, None),
            }
        }
    }

    /// Puts pages where they will stay.
    fn place(&self, inode: &Inode, pages: &mut [SavedPage]) -> Result<Vec<Extent>> {
        let unwritten = unwritten(pages);
        let written = pages.iter().filter(|page| page.bytes.is_some()).count();
        let mut extents;
        if written > INLINE_PAGES {
            let given: Vec<(u64, Box<[u8]>)> = pages
                .iter_mut()
                .filter_map(|page| Some((page.index, page.bytes.take()?)))
                .collect();
            let stored =
                self.objects
                    .backend
                    .write_pages(inode.number(), inode.generation(), &given);
            extents = stored.inspect_err(|&errno| self.latch(errno))?;
        } else {
            extents = inline(pages);
        }
        extents.extend(unwritten);
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
    /// The caller has a reference.
    ///
    /// # Errors
    /// `EDEADLK` where the caller is pinned.
    pub(crate) fn fsync(&self, inode: &Inode) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        check_unpinned()?;
        if !crate::is_control(inode.number()) {
            self.flush(inode)?;
        }
        self.commit_through(log.epoch())
    }

    /// Writes everything back and returns when the backend has it.
    ///
    /// # Errors
    /// `EDEADLK` where the caller is pinned.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        check_unpinned()?;
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
        // Whoever comes meanwhile waits: his files may be in the list that was taken.
        let _one = self.cache.syncing.lock();
        let taken = Taken::new(log.take_dirty(), |ino| log.note_dirty(ino));
        self.flush_each(taken)?;
        log.end_taken();
        Ok(())
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

    /// Writes back each of the files. Goes on after an error and returns the first.
    pub(super) fn flush_each(&self, mut files: Taken<impl FnMut(u64)>) -> Result<()> {
        let mut result = Ok(());
        while let Some(ino) = files.left.last().copied() {
            let held = self.objects.inodes.hold(ino, &pin());
            let flushed = held.map_or(Ok(()), |inode| {
                self.with_held(inode, |inode| self.flush(inode))
            });
            files.left.pop();
            if flushed.is_err() {
                (files.put_back)(ino);
            }
            result = result.and(flushed);
        }
        result
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

/// Refuses who is inside a callback of the library: the cut would wait for the end of the operation
/// that has called it.
pub(super) fn check_unpinned() -> Result<()> {
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

/// Copies the dirty pages of one step from page `from` on, and returns whether some lie behind
/// `size`. Inside the gate.
fn copy_step(data: &Data, from: u64, size: u64) -> (Vec<SavedPage>, bool) {
    let (mut pages, mut next) = (Vec::new(), from);
    loop {
        let (mut some, is_behind) = data.begin_save(next, COPY_PAGES, size, &pin());
        let is_last = some.len() < COPY_PAGES;
        next = some.last().map_or(next, |page| page.index + 1);
        pages.append(&mut some);
        if is_last || is_behind || pages.len() >= STEP_PAGES {
            return (pages, is_behind);
        }
    }
}

/// Extents of the pages that were never written, one for each run.
fn unwritten(pages: &[SavedPage]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    for page in pages.iter().filter(|page| page.bytes.is_none()) {
        match extents.last_mut() {
            Some(Extent { pages, .. }) if pages.end == page.index => pages.end += 1,
            _ => extents.push(Extent {
                pages: page.index..page.index + 1,
                place: Place::Unwritten,
            }),
        }
    }
    extents
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

/// Pages under write-back. Unless they are saved they are dirty again, and so is their file, even
/// after a panic.
struct Saving<'d> {
    of: (&'d Superblock, &'d Inode, &'d Data),
    pages: Vec<SavedPage>,
    is_saved: bool,
}

impl Drop for Saving<'_> {
    fn drop(&mut self) {
        let (sb, inode, data) = self.of;
        data.end_save(&self.pages, self.is_saved, &pin());
        if !self.is_saved {
            sb.note_dirty(inode);
        }
    }
}
