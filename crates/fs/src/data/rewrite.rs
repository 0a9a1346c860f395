//! Which pages of a file only the backend has.

use hearth_sync::epoch::Guard;

use super::root::Data;
use super::slot_state::SlotState;
use super::span::PAGES;

impl Data {
    /// The first page from `from` on that is known to be at the backend only.
    pub(super) fn held_from(&self, from: u64, g: &Guard) -> Option<u64> {
        let mut slots = self.walk(from..PAGES, g);
        let here = slots
            .find(|(_, slot)| slot.slot.is_empty() && slot.state.get() == SlotState::AtBackend)
            .map(|(index, _)| index);
        let absent = self.first_absent(&(from..PAGES), |_| true, g);
        here.into_iter().chain(absent.map(|(index, _)| index)).min()
    }

    /// Whether a page from `first` on is allocated, or may be for all that is known in memory.
    pub fn is_allocated_from(&self, first: u64, g: &Guard) -> bool {
        let range = first.min(PAGES)..PAGES;
        let mut slots = self.walk(range.clone(), g);
        slots.any(|(_, slot)| slot.is_allocated(g))
            || self.first_absent(&range, |_| true, g).is_some()
    }
}
