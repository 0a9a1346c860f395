//! Pages of segments that no record names yet.
//!
//! A page that was stored belongs to nobody until a commit names it. Its segment must stay until
//! then, though nothing in it may be live. A volume that never names it lets it go by ending: after
//! the next opening nothing is pending.

use hearth_sync::primitive::Mutex;
use std::collections::{BTreeSet, HashMap};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pending {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pages: HashMap<u64, u64>,
    next_flight: u64,
    flights: BTreeSet<u64>,
}

/// A write that is under way: it may bring pages to any segment. Ends on drop.
#[derive(Debug)]
pub(super) struct Flight<'a> {
    pending: &'a Pending,
    number: u64,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.pending.state.lock().flights.remove(&self.number);
    }
}

impl Pending {
    /// A write begins.
    pub(super) fn begin(&self) -> Flight<'_> {
        let mut state = self.state.lock();
        let number = state.next_flight;
        state.next_flight += 1;
        state.flights.insert(number);
        Flight {
            pending: self,
            number,
        }
    }

    /// `pages` pages of `segment` were stored.
    pub(super) fn add(&self, segment: u64, pages: u64) {
        *self.state.lock().pages.entry(segment).or_default() += pages;
    }

    /// A commit named `pages` pages of `segment`.
    pub(super) fn take(&self, segment: u64, pages: u64) {
        let mut state = self.state.lock();
        if let Some(left) = state.pages.get_mut(&segment) {
            *left = left.saturating_sub(pages);
            if *left == 0 {
                state.pages.remove(&segment);
            }
        }
    }

    /// Whether no page of `segment` waits for a commit.
    pub(super) fn is_settled(&self, segment: u64) -> bool {
        !self.state.lock().pages.contains_key(&segment)
    }

    /// The number of the next write.
    pub(super) fn next_flight(&self) -> u64 {
        self.state.lock().next_flight
    }

    /// Whether all writes before number `flight` have ended.
    pub(super) fn is_over(&self, flight: u64) -> bool {
        let state = self.state.lock();
        state.flights.first().is_none_or(|first| *first >= flight)
    }
}
