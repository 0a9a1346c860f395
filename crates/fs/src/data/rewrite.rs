//! Making the backend forget a file's pages and get them again.

use hearth_sync::epoch::Guard;

use super::mark::Mark;
use super::root::{Absent, Data};
use super::span::PAGES;

impl Data {
    /// The first page of which only the backend has the content, or knows at all.
    pub fn first_held(&self, g: &Guard) -> Option<u64> {
        match self.check_known(0..PAGES, g) {
            Err(Absent(index)) => Some(index),
            Ok(()) => self.held_from(0, g),
        }
    }

    /// The first page from `from` on that is known to be at the backend only.
    pub(super) fn held_from(&self, from: u64, g: &Guard) -> Option<u64> {
        self.walk(from..PAGES, g)
            .find(|(_, place)| place.slot.is_empty() && place.spot.get() == Mark::Held)
            .map(|(index, _)| index)
    }

    /// Indices of the allocated pages.
    pub fn allocated(&self, g: &Guard) -> Vec<u64> {
        let all = self.walk(0..PAGES, g);
        all.filter(|(_, place)| place.is_allocated(g))
            .map(|(index, _)| index)
            .collect()
    }

    /// Whether a page from `first` on is allocated, by what is known here.
    pub fn is_allocated_from(&self, first: u64, g: &Guard) -> bool {
        let mut places = self.walk(first.min(PAGES)..PAGES, g);
        places.any(|(_, place)| place.is_allocated(g))
    }

    /// The backend has forgotten every page: the next flush gives it all of them. Gate closed, and
    /// no page may be held by the backend alone.
    pub fn mark_all_dirty(&self, g: &Guard) {
        for (_, place) in self.walk(0..PAGES, g) {
            match place.page(g) {
                Some(page) => page.set_dirty(),
                None => {
                    place.spot.replace(Mark::Blank, Mark::Fresh);
                }
            }
        }
    }
}
