//! Making the backend drop all pages of a file and write them again.

use hearth_sync::epoch::Guard;

use super::root::{Data, PageMiss};
use super::slot_state::SlotState;
use super::span::PAGES;

impl Data {
    /// The first page whose content only the backend has, or that only the backend knows.
    pub fn first_held(&self, g: &Guard) -> Option<u64> {
        match self.check_known(0..PAGES, g) {
            Err(PageMiss(index)) => Some(index),
            Ok(()) => self.held_from(0, g),
        }
    }

    /// The first page from `from` on that is known to be at the backend only.
    pub(super) fn held_from(&self, from: u64, g: &Guard) -> Option<u64> {
        self.walk(from..PAGES, g)
            .find(|(_, slot)| slot.slot.is_empty() && slot.state.get() == SlotState::AtBackend)
            .map(|(index, _)| index)
    }

    /// Indices of the allocated pages.
    pub fn allocated(&self, g: &Guard) -> Vec<u64> {
        let all = self.walk(0..PAGES, g);
        all.filter(|(_, slot)| slot.is_allocated(g))
            .map(|(index, _)| index)
            .collect()
    }

    /// Whether a page from `first` on is allocated, as far as is known in memory.
    pub fn is_allocated_from(&self, first: u64, g: &Guard) -> bool {
        let mut slots = self.walk(first.min(PAGES)..PAGES, g);
        slots.any(|(_, slot)| slot.is_allocated(g))
    }

    /// The backend has dropped every page: the next flush writes all of them. The gate is closed,
    /// and no page may be at the backend only.
    pub fn mark_all_dirty(&self, g: &Guard) {
        for (_, slot) in self.walk(0..PAGES, g) {
            match slot.page(g) {
                Some(page) => page.set_dirty(),
                None => {
                    slot.state
                        .replace(SlotState::Unwritten, SlotState::UnwrittenDirty);
                }
            }
        }
    }
}
