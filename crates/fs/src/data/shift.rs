//! Collapse and insert: pages change their index. Both run with the gate closed.
//!
//! A page that moves is in no slot for a moment. A reader that finds a page has found the one from
//! before or the one from after. A reader that misses checks `Far::shift` and tries again until no
//! move was under way.

use std::ops::Range;

use hearth_sync::epoch::Guard;

use super::leaf::{Absence, PageSlot};
use super::root::{Data, PageMiss};
use super::slot_state::SlotState;
use super::slots::FAN;
use super::span::{PAGE, PAGES, checked_end};
use super::tree::LeafEntry;

impl Data {
    /// Takes `len` bytes out at `off`, both multiples of [`PAGE`]; later pages move down. Returns
    /// the number of pages that the file lost.
    ///
    /// `PageMiss` like [`check_collapse`](Data::check_collapse). Moved pages are dirty; the caller
    /// tells the backend that its pages from `off` on are void. The caller has published the
    /// smaller size before, and readers clip again afterwards.
    ///
    /// # Panics
    /// When the range is not of whole pages or ends past 2^63-1.
    pub fn collapse(&self, off: u64, len: u64, g: &Guard) -> Result<u64, PageMiss> {
        self.check_collapse(off, len, g)?;
        let gone = whole_pages(off, len);
        let far = self.grow_far(g);
        let _moving = far.shift.write();
        let removed = self.cut(gone.clone(), g);
        for (index, slot) in self.walk(gone.end..PAGES, g) {
            self.move_page(&slot, index - (gone.end - gone.start), g);
        }
        self.sweep(&(gone.start..PAGES), g, &mut drop_vacant);
        Ok(removed)
    }

    /// `PageMiss` while a page that [`collapse`](Data::collapse) would move has its content at the
    /// backend only.
    ///
    /// # Panics
    /// Like [`collapse`](Data::collapse).
    pub fn check_collapse(&self, off: u64, len: u64, g: &Guard) -> Result<(), PageMiss> {
        let gone = whole_pages(off, len);
        self.check_resident(gone.start, gone.end, g)
    }

    /// Whether [`insert`](Data::insert) would move a page past 2^63-1, even one that lies behind
    /// the end of the file. `PageMiss` when only the backend can tell.
    ///
    /// # Panics
    /// When the range is not of whole pages.
    pub fn insert_overflows(&self, off: u64, len: u64, g: &Guard) -> Result<bool, PageMiss> {
        let hole = whole_pages(off, len);
        let last = hole.start.max(PAGES - (hole.end - hole.start))..PAGES;
        self.check_known(&last, g)?;
        Ok(self.allocated_in(last, g) > 0)
    }

    /// Opens a hole of `len` bytes at `off`, both multiples of [`PAGE`]; later pages move up.
    /// `PageMiss`, and what the caller tells the backend: like [`collapse`](Data::collapse). The
    /// caller publishes the larger size afterwards.
    ///
    /// # Panics
    /// When the range is not of whole pages, or a page would move past 2^63-1.
    pub fn insert(&self, off: u64, len: u64, g: &Guard) -> Result<(), PageMiss> {
        let hole = whole_pages(off, len);
        let up = hole.end - hole.start;
        let moved = hole.start..PAGES;
        self.check_resident(hole.start, hole.start, g)?;
        let mut leaves = Vec::new();
        for (index, slot) in self.walk(moved.clone(), g) {
            if slot.is_allocated(g) {
                assert!(
                    index < PAGES - up,
                    "the caller has asked `insert_overflows`"
                );
                if leaves.last().is_none_or(|last| *last != index / FAN) {
                    leaves.push(index / FAN);
                }
            }
        }
        let far = self.grow_far(g);
        let _moving = far.shift.write();
        // From the last page down, so that each finds its new slot empty.
        for leaf in leaves.into_iter().rev() {
            let first = (leaf * FAN).max(hole.start);
            for index in (first..(leaf + 1) * FAN).rev() {
                if let Some(slot) = self.slot(index, g) {
                    self.move_page(&slot, index + up, g);
                }
            }
        }
        self.sweep(&moved, g, &mut drop_vacant);
        Ok(())
    }

    /// Moves an allocated page to the empty slot of `index`.
    fn move_page(&self, slot: &PageSlot<'_>, index: u64, g: &Guard) {
        match (slot.page(g), slot.state.get()) {
            (Some(page), _) => {
                page.set_dirty();
                slot.state.set(SlotState::Hole);
                let to = self.grow(index, &mut 0, g);
                to.state.set(SlotState::Unset);
                slot.slot.move_to(to.slot, g);
            }
            (None, SlotState::Unwritten | SlotState::UnwrittenDirty) => {
                self.grow(index, &mut 0, g)
                    .state
                    .set(SlotState::UnwrittenDirty);
                slot.state.set(SlotState::Hole);
            }
            (None, SlotState::Hole | SlotState::Unset) => {}
            (None, SlotState::AtBackend) => unreachable!("check_resident has found the page"),
        }
    }

    /// Fails with the first page from `known` on that only the backend knows, or from `here` on
    /// whose content only the backend has.
    fn check_resident(&self, known: u64, here: u64, g: &Guard) -> Result<(), PageMiss> {
        self.check_known(&(known..PAGES), g)?;
        if self.is_complete() {
            return Ok(());
        }
        match self.held_from(here, g) {
            Some(index) => Err(PageMiss(index)),
            None => Ok(()),
        }
    }
}

/// Drops a leaf in which nothing is left.
fn drop_vacant(_base: u64, leaf: LeafEntry<'_>) -> Option<Absence> {
    match leaf {
        LeafEntry::Present(leaf) => leaf.is_vacant().then_some(Absence::Hole),
        LeafEntry::Absent(_) => None,
    }
}

fn whole_pages(off: u64, len: u64) -> Range<u64> {
    let whole = off.is_multiple_of(PAGE) && len.is_multiple_of(PAGE);
    assert!(whole, "the caller has checked that pages are whole");
    off / PAGE..checked_end(off, len) / PAGE
}
