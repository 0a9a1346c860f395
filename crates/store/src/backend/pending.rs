//! Pages of segments that no record names yet.
//!
//! A page that was stored belongs to nobody until a commit names it. Its segment must stay until
//! then, though nothing in it may be live. What a volume does not name, it lets go of: by ending,
//! because after the next opening nothing is pending, or by leaving it for [`PATIENCE`] and two
//! commits.

use hearth_sync::primitive::{Mutex, Stopwatch};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// How long a volume may take to name what it has stored.
pub(super) const PATIENCE: Duration = Duration::from_secs(3600);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pending {
    state: Mutex<PendingState>,
}

#[derive(Debug, Default)]
struct PendingState {
    pages: HashMap<u64, Waiting>,
    next_flight: u64,
    flights: BTreeSet<u64>,
    /// Commits of the volume that were made.
    commits: u64,
}

/// Pages of a segment that wait.
#[derive(Debug)]
struct Waiting {
    pages: u64,
    /// Since the last of them came.
    since: Stopwatch,
    /// [`PendingState::commits`] then.
    commits: u64,
}

/// A write that is under way: it may bring pages to any segment. Ends on drop.
#[derive(Debug)]
pub(super) struct WriteUnderWay<'a> {
    pending: &'a Pending,
    number: u64,
}

impl Drop for WriteUnderWay<'_> {
    fn drop(&mut self) {
        self.pending.state.lock().flights.remove(&self.number);
    }
}

impl Pending {
    /// A write begins.
    pub(super) fn begin(&self) -> WriteUnderWay<'_> {
        let mut state = self.state.lock();
        let number = state.next_flight;
        state.next_flight += 1;
        state.flights.insert(number);
        WriteUnderWay {
            pending: self,
            number,
        }
    }

    /// `pages` pages of `segment` were stored.
    pub(super) fn add(&self, segment: u64, pages: u64) {
        let mut state = self.state.lock();
        let commits = state.commits;
        let waiting = state.pages.entry(segment).or_insert_with(|| Waiting {
            pages: 0,
            since: Stopwatch::start(),
            commits,
        });
        waiting.pages += pages;
        (waiting.since, waiting.commits) = (Stopwatch::start(), commits);
    }

    /// The volume has committed what it had to name.
    pub(super) fn note_commit(&self) {
        self.state.lock().commits += 1;
    }

    /// A commit named `pages` pages of `segment`.
    pub(super) fn take(&self, segment: u64, pages: u64) {
        let mut state = self.state.lock();
        if let Some(waiting) = state.pages.get_mut(&segment) {
            waiting.pages = waiting.pages.saturating_sub(pages);
            if waiting.pages == 0 {
                state.pages.remove(&segment);
            }
        }
    }

    /// Segments whose pages have waited for longer than `patience`, with the pages. They no longer
    /// do. Two commits must have been made since: the first may have begun before a page came, the
    /// second has its record. On a full disk there are none, and the records wait too.
    pub(super) fn give_up(&self, patience: Duration) -> Vec<(u64, u64)> {
        let mut state = self.state.lock();
        let commits = state.commits;
        let is_late = |_: &u64, waiting: &mut Waiting| {
            let is_old = u128::from(waiting.since.ns()) > patience.as_nanos();
            is_old && commits >= waiting.commits + 2
        };
        let late = state.pages.extract_if(is_late);
        late.map(|(segment, waiting)| (segment, waiting.pages))
            .collect()
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
