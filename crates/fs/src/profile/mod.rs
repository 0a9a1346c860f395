//! The lock profile as users see it: by class, by side, by call site, in lockmeter's columns.
//!
//! `docs/design/lock-profile.md` says what is recorded and when; the recording itself is in
//! [`hearth_sync::profile`].

mod columns;
mod json;
mod table;
#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

pub use columns::Columns;
pub use hearth_sync::profile::{Counts as LockCounts, Sampling as LockSampling, Side as LockSide};

use hearth_sync::profile::{self, Snapshot};

/// The locks of this process while the profile was on. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockProfile {
    /// Whether it goes on.
    pub running: bool,
    /// Whether every lock is recorded, see [`LockSampling::All`].
    pub exact: bool,
    /// From the start, or the last reset, to now or to the stop.
    pub elapsed_ns: u64,
    /// Requests in no row: a thread used more call sites than it has cells.
    pub lost: u64,
    /// One entry for each class and side that was asked for.
    pub locks: Vec<LockRow>,
}

/// One side of a class of locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRow {
    /// Name of the class: all locks of one kind, such as those of every directory's buckets.
    pub class: String,
    /// In which way they were asked for.
    pub side: LockSide,
    /// Where they were asked for.
    pub sites: Vec<SiteRow>,
}

/// One call site that requests locks of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteRow {
    /// `file:line` in the sources.
    pub site: String,
    /// What was counted there.
    pub counts: LockCounts,
}

/// By which column the table is sorted, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LockSort {
    /// Share of time held.
    #[default]
    Util,
    /// Share of requests that were not granted at once.
    Con,
    /// Mean wait.
    Wait,
    /// Requests.
    Total,
}

impl LockProfile {
    /// The present profile.
    pub(crate) fn now() -> LockProfile {
        LockProfile::of(profile::snapshot())
    }

    fn of(snapshot: Snapshot) -> LockProfile {
        let mut locks: Vec<LockRow> = Vec::new();
        for row in snapshot.rows {
            let site = SiteRow {
                site: format!("{}:{}", row.file, row.line),
                counts: row.counts,
            };
            match locks.last_mut() {
                Some(last) if last.class == row.class && last.side == row.side => {
                    last.add(site);
                }
                _ => locks.push(LockRow {
                    class: row.class.to_owned(),
                    side: row.side,
                    sites: vec![site],
                }),
            }
        }
        LockProfile {
            running: snapshot.running,
            exact: snapshot.exact,
            elapsed_ns: snapshot.elapsed_ns,
            lost: snapshot.lost,
            locks,
        }
    }

    /// All classes together, without the sides that only wait.
    pub fn counts(&self) -> LockCounts {
        let holding = self.locks.iter().filter(|row| row.side != LockSide::Wait);
        sum(holding.map(LockRow::counts))
    }

    /// As a table for people: a line for each class and side, under it one for each call site.
    pub fn text(&self, sort: LockSort) -> String {
        table::text(self, sort)
    }

    /// As one JSON object, with the columns and with what they were computed from.
    pub fn json(&self) -> String {
        json::text(self)
    }
}

impl LockRow {
    /// All call sites together.
    pub fn counts(&self) -> LockCounts {
        sum(self.sites.iter().map(|site| site.counts))
    }

    /// Several requests in one line are one site.
    fn add(&mut self, site: SiteRow) {
        match self.sites.last_mut() {
            Some(last) if last.site == site.site => last.counts += site.counts,
            _ => self.sites.push(site),
        }
    }
}

fn sum(all: impl Iterator<Item = LockCounts>) -> LockCounts {
    all.fold(LockCounts::default(), |mut sum, counts| {
        sum += counts;
        sum
    })
}
