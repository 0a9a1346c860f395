//! Writing.

use hearth_sync::epoch::Guard;

use super::leaf::PageSlot;
use super::page::Page;
use super::resident::Resident;
use super::root::{Data, PageLookup, PageMiss};
use super::slots::FAN;
use super::span::{PAGE_BYTES, checked_end, edges, spans, touched};

impl Data {
    /// How many pages a write of this range would add: those of it that are not allocated.
    /// `PageMiss` when a page that the range covers in part must be loaded first, or when only the
    /// backend knows which pages of a leaf that it covers in part are allocated. Inside the gate.
    pub fn absent_pages(&self, off: u64, len: u64, g: &Guard) -> Result<u64, PageMiss> {
        let pages = touched(off, len);
        if !self.is_complete() {
            // Of a whole leaf that is absent the number is known.
            self.check_edges(&pages, g)?;
            self.check_edge_pages(off, len, g)?;
        }
        Ok(pages.end - pages.start - self.allocated_in(pages, g))
    }

    /// The pages of this range that are not allocated. `PageMiss` when only the backend knows.
    /// Inside the gate.
    pub fn holes(&self, off: u64, len: u64, g: &Guard) -> Result<Vec<u64>, PageMiss> {
        let pages = touched(off, len);
        if !self.is_complete() {
            self.check_known(&pages, g)?;
        }
        let is_hole = |page: &u64| matches!(self.look(*page, g), PageLookup::Hole);
        Ok(pages.filter(is_hole).collect())
    }

    /// Writes `src` at `off` and returns how many pages that added. `PageMiss`, like
    /// [`absent_pages`](Data::absent_pages), before anything was changed.
    ///
    /// Inside the gate: truncate and the like are excluded, other writers and readers are not. Each
    /// page changes as one; writers of different pages share nothing once the pages exist.
    ///
    /// # Panics
    /// When the range ends past 2^63-1.
    pub fn store(&self, off: u64, src: &[u8], g: &Guard) -> Result<Written, PageMiss> {
        let len = src.len() as u64;
        checked_end(off, len);
        if !self.is_complete() {
            self.check_writable(off, len, g)?;
        }
        let mut leaf = None;
        let mut done = 0;
        let mut written = Written::default();
        for span in spans(off, len) {
            let bytes = &src[done..done + span.len()];
            done += span.len();
            if span.index.is_multiple_of(FAN) || leaf.is_none() {
                leaf = self.leaf(span.index, g);
            }
            let slot = match (span.index, leaf) {
                (1.., Some(leaf)) => leaf.slot(span.index),
                _ => self.grow(span.index, &mut written.nodes, g),
            };
            written.add(write_page(&slot, span.bytes.start, bytes, g));
        }
        Ok(written)
    }

    /// [`Data::store`] for tests that ask for the pages added alone.
    #[cfg(test)]
    pub fn write(&self, off: u64, src: &[u8], g: &Guard) -> Result<u64, PageMiss> {
        self.store(off, src, g).map(|written| written.added)
    }

    /// Whether the range can be written without asking the backend.
    pub(super) fn check_writable(&self, off: u64, len: u64, g: &Guard) -> Result<(), PageMiss> {
        self.check_known(&touched(off, len), g)?;
        self.check_edge_pages(off, len, g)
    }

    /// Whether the pages that the range covers in part can be written without asking the backend.
    pub(super) fn check_edge_pages(&self, off: u64, len: u64, g: &Guard) -> Result<(), PageMiss> {
        edges(off, len).try_for_each(|span| match self.look(span.index, g) {
            PageLookup::AtBackend | PageLookup::Unknown => Err(PageMiss(span.index)),
            PageLookup::Page(_) | PageLookup::Hole | PageLookup::Unwritten => Ok(()),
        })
    }
}

/// What a write added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Pages that the file did not have.
    pub added: u64,
    /// Pages that were not in memory, including those of `added`.
    pub installed: u64,
    /// Nodes of the tree that were made for them.
    pub nodes: u64,
    /// Pages that the backend had as they were, or that nobody had: as many more it has yet to get.
    pub dirtied: u64,
}

impl Written {
    /// What came into memory.
    pub fn resident(&self) -> Resident {
        Resident {
            pages: self.installed,
            nodes: self.nodes,
        }
    }

    fn add(&mut self, other: Written) {
        self.added += other.added;
        self.installed += other.installed;
        self.nodes += other.nodes;
        self.dirtied += other.dirtied;
    }
}

/// Puts `bytes` into the page.
fn write_page(slot: &PageSlot<'_>, start: usize, bytes: &[u8], g: &Guard) -> Written {
    debug_assert!(start + bytes.len() <= PAGE_BYTES);
    let change = |page: &Page| Written {
        dirtied: u64::from(page.write(start, bytes)),
        ..Written::default()
    };
    if let Some(page) = slot.slot.load(g) {
        return change(page);
    }
    // While the slot is empty and the gate open, only a load may change the state, to a hole. Of
    // several writers only the one whose page is installed counts, and all see one state.
    let added = u64::from(!slot.state.get().is_allocated());
    match slot.slot.install(Page::written(start, bytes), g) {
        Ok(_) => Written {
            added,
            installed: 1,
            dirtied: 1,
            ..Written::default()
        },
        Err(lost) => {
            drop(lost);
            let page = slot
                .slot
                .load(g)
                .expect("a slot is emptied only with the gate closed");
            change(page)
        }
    }
}
