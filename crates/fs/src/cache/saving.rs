//! Pages of a file on their way to the backend.

use crate::backend::{Extent, PageSource, Place};
use crate::data::{Data, DirtyPages};
use crate::errno::{Errno, Result};
use crate::inode::Inode;
use crate::superblock::Superblock;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use std::ops::Range;

/// Most pages that ride in a record.
pub(super) const INLINE_PAGES: usize = 16;
/// Most pages that ride in records where the backend has no room for them and a commit waits for
/// them: its log has.
const RESCUED_PAGES: usize = 4096;

/// What a write-back is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum During {
    Operations,
    /// A commit waits for it: where the contents find no room, what was removed would make none.
    Commit,
    /// A cut, when no operation changes anything. A commit waits for it as well.
    Cut,
}

/// Pages under write-back. Unless they are recorded they are dirty again, and so is their file,
/// even after a panic.
pub(super) struct Saving<'a> {
    sb: &'a Superblock,
    inode: &'a Inode,
    data: &'a Data,
    /// The file's size: what lies behind it is for another write-back.
    size: u64,
    pages: DirtyPages,
    /// Whether the file has more to be written back. Relaxed: read by the thread that waits for
    /// those that set it.
    is_behind: AtomicBool,
    /// The low bits of the epoch in which they were recorded.
    recorded: Option<u8>,
}

impl<'a> Saving<'a> {
    /// Of no page yet.
    pub fn new(sb: &'a Superblock, inode: &'a Inode, data: &'a Data, size: u64) -> Saving<'a> {
        Saving {
            sb,
            inode,
            data,
            size,
            pages: DirtyPages::default(),
            is_behind: AtomicBool::new(false),
            recorded: None,
        }
    }

    /// Takes the dirty ones of `pages`, about `most`. Returns where to go on, if some are left.
    pub fn find(&mut self, pages: Range<u64>, most: usize) -> Option<u64> {
        let (mut from, to) = (Some(pages.start), pages.end);
        while let Some(start) = from.filter(|_| self.pages.count < most) {
            let _inside = self.inode.gate.read(self.inode.percpu());
            let (found, size) = (&mut self.pages, self.size);
            from = self.data.find_dirty(start..to, most, size, found, &pin());
        }
        from
    }

    /// Whether the pages ride in a record: then [`Saving::store`] does not wait for the backend.
    pub fn is_little(&self) -> bool {
        self.pages.count <= INLINE_PAGES
    }

    /// Pages behind the size that are dirty.
    pub fn behind(&self) -> u64 {
        self.pages.behind
    }

    /// Puts the pages where they will stay.
    pub fn store(&self, during: During) -> Result<Vec<Extent>> {
        let (ino, generation) = (self.inode.number(), self.inode.generation());
        let is_waited_for = during != During::Operations && self.pages.count <= RESCUED_PAGES;
        let mut extents = match self.is_little() {
            true => self.inline(),
            false => match self.sb.objects.backend.write_pages(ino, generation, self) {
                Err(Errno::ENOSPC) if is_waited_for => self.inline(),
                written => written?,
            },
        };
        let unwritten = self.pages.unwritten.iter().cloned();
        extents.extend(unwritten.map(|pages| Extent {
            pages,
            place: Place::Unwritten,
        }));
        Ok(extents)
    }

    /// Extents that carry their bytes, one for each run of as many pages as one has.
    fn inline(&self) -> Vec<Extent> {
        let extent = |pages: Range<u64>| {
            let mut bytes = Vec::new();
            self.append_to(pages.clone(), &mut bytes);
            let place = Place::Inline(bytes.into());
            Extent { pages, place }
        };
        let runs = self.pages.written.iter().cloned();
        let parts = runs.flat_map(|run| {
            let starts = run.clone().step_by(INLINE_PAGES);
            starts.map(move |start| start..run.end.min(start + INLINE_PAGES as u64))
        });
        parts.map(extent).collect()
    }

    /// The pages are recorded, in the epoch with these low bits.
    pub fn end(mut self, epoch: u8) {
        self.recorded = Some(epoch);
    }
}

impl PageSource for Saving<'_> {
    fn runs(&self) -> Vec<Range<u64>> {
        self.pages.written.clone()
    }

    fn append_to(&self, pages: Range<u64>, out: &mut Vec<u8>) {
        let _inside = self.inode.gate.read(self.inode.percpu());
        let g = pin();
        for index in pages {
            if self.data.save_page(index, self.size, out, &g) {
                self.is_behind.store(true, Relaxed);
            }
        }
    }
}

impl Drop for Saving<'_> {
    fn drop(&mut self) {
        self.data.end_save(&self.pages, self.recorded, &pin());
        let is_behind = self.pages.behind > 0 || self.is_behind.load(Relaxed);
        if self.recorded.is_none() || is_behind {
            self.sb.note_dirty(self.inode);
        }
    }
}
