//! Which pages of a file are allocated, and which only the backend has.

use hearth_sync::epoch::Guard;
use std::ops::Range;

use super::root::Data;
use super::slot_state::SlotState;
use super::span::PAGES;

impl Data {
    /// The first page from `from` on that is known to be at the backend only.
    pub(super) fn held_from(&self, from: u64, g: &Guard) -> Option<u64> {
        self.walk(from..PAGES, g)
            .find(|(_, slot)| slot.slot.is_empty() && slot.state.get() == SlotState::AtBackend)
            .map(|(index, _)| index)
    }

    /// The allocated pages, in ranges by rising index, and whether they were written.
    pub fn allocation(&self, g: &Guard) -> Vec<(Range<u64>, bool)> {
        let mut all: Vec<(Range<u64>, bool)> = Vec::new();
        let slots = self.walk(0..PAGES, g);
        for (index, slot) in slots.filter(|(_, slot)| slot.is_allocated(g)) {
            let is_at_backend = slot.state.get() == SlotState::AtBackend;
            let is_written = !slot.slot.is_empty() || is_at_backend;
            match all.last_mut() {
                Some((run, is)) if run.end == index && *is == is_written => run.end += 1,
                _ => all.push((index..index + 1, is_written)),
            }
        }
        all
    }

    /// Whether a page from `first` on is allocated, as far as is known in memory.
    pub fn is_allocated_from(&self, first: u64, g: &Guard) -> bool {
        let mut slots = self.walk(first.min(PAGES)..PAGES, g);
        slots.any(|(_, slot)| slot.is_allocated(g))
    }
}
