//! Truncate and the modes of fallocate that move no page. All run with the gate closed: writers,
//! loads, flushes and other edits are excluded; readers are not.

use hearth_sync::epoch::Guard;

use super::leaf::Absence;
use super::root::{Data, PageLookup, PageMiss};
use super::slot_state::SlotState;
use super::slots::FAN;
use super::span::{BYTES, PAGE, PAGE_BYTES, PAGES, checked_end, edges, touched, whole};

impl Data {
    /// Drops all pages past `size` and zeroes the rest of the last one. Returns the number of pages
    /// that the file lost, or `PageMiss` when the last page must be loaded first, or when only the
    /// backend knows which pages around it are allocated.
    ///
    /// The caller has published the smaller size before, and readers clip again afterwards.
    pub fn truncate(&self, size: u64, g: &Guard) -> Result<u64, PageMiss> {
        let size = size.min(BYTES);
        let (last, tail) = (size / PAGE, (size % PAGE) as usize);
        let tail_page = match (tail, self.look(last.min(PAGES - 1), g)) {
            (0, _) => None,
            (_, PageLookup::AtBackend | PageLookup::Unknown) => return Err(PageMiss(last)),
            (_, PageLookup::Page(page)) => Some(page),
            (_, PageLookup::Hole | PageLookup::Unwritten) => None,
        };
        let kept = size.div_ceil(PAGE);
        self.check_edges(&(kept..PAGES), g)?;
        let removed = self.cut(kept..PAGES, g);
        if let Some(page) = tail_page {
            page.zero(tail..PAGE_BYTES);
        }
        if size == 0 {
            self.status.clear();
        }
        Ok(removed)
    }

    /// Allocates every page of the range that is a hole: such a page reads as zeros, is a hole to
    /// `seek_data`, and takes no memory until it is written. Returns the number of pages that the
    /// file gained, or `PageMiss` when only the backend knows whether a page is allocated. A leaf
    /// that is absent with all its pages allocated stays so.
    ///
    /// # Panics
    /// When the range ends past 2^63-1.
    pub fn allocate(&self, off: u64, len: u64, g: &Guard) -> Result<u64, PageMiss> {
        checked_end(off, len);
        let (mut pages, mut added) = (touched(off, len), 0);
        let has_holes = |absence: Absence| absence.count() < FAN;
        if let Some((index, _)) = self.first_absent(&pages, has_holes, g) {
            return Err(PageMiss(index));
        }
        while pages.start < pages.end {
            let next = pages.end.min((pages.start / FAN + 1) * FAN);
            if !self.is_absent_full(pages.start, g) {
                added += (pages.start..next)
                    .map(|index| self.allocate_page(index, g))
                    .sum::<u64>();
            }
            pages.start = next;
        }
        Ok(added)
    }

    /// Drops the pages that the range covers and zeroes its edges. Returns the number of pages that
    /// the file lost, or `PageMiss` when a page at an edge must be loaded first, or when only the
    /// backend knows whether a page is allocated. The caller tells the backend.
    pub fn punch(&self, off: u64, len: u64, g: &Guard) -> Result<u64, PageMiss> {
        self.check_edge_pages(off, len, g)?;
        self.check_edges(&whole(off, len), g)?;
        self.zero_edges(off, len, g);
        Ok(self.cut(whole(off, len), g))
    }

    /// The pages in memory that the range covers in part, with their contents.
    pub fn edge_pages(&self, off: u64, len: u64, g: &Guard) -> Vec<(u64, Box<[u8]>)> {
        edges(off, len)
            .filter_map(|span| Some((span.index, self.page_bytes(span.index, g)?)))
            .collect()
    }

    /// Zeroes the range and allocates all of it: pages that it covers become like those of
    /// [`allocate`](Data::allocate). Returns the number of pages that the file gained, or
    /// `PageMiss` like `punch`.
    ///
    /// # Panics
    /// When the range ends past 2^63-1.
    pub fn zero_range(&self, off: u64, len: u64, g: &Guard) -> Result<u64, PageMiss> {
        checked_end(off, len);
        self.check_writable(off, len, g)?;
        self.zero_edges(off, len, g);
        let mut added = 0;
        for span in edges(off, len) {
            added += self.allocate_page(span.index, g);
        }
        for index in whole(off, len) {
            let slot = self.grow(index, &mut 0, g);
            added += u64::from(!slot.clear(SlotState::UnwrittenDirty, g));
        }
        Ok(added)
    }

    /// Whether the leaf of `index` is absent, and all its pages are allocated.
    fn is_absent_full(&self, index: u64, g: &Guard) -> bool {
        index >= FAN && self.leaf(index, g).is_none() && self.absence(index, g).count() == FAN
    }

    /// 1 if the page was not allocated before.
    fn allocate_page(&self, index: u64, g: &Guard) -> u64 {
        let slot = self.grow(index, &mut 0, g);
        if slot.is_allocated(g) {
            return 0;
        }
        slot.state.set(SlotState::UnwrittenDirty);
        1
    }

    fn zero_edges(&self, off: u64, len: u64, g: &Guard) {
        for span in edges(off, len) {
            if let PageLookup::Page(page) = self.look(span.index, g) {
                page.zero(span.bytes);
            }
        }
    }
}
