//! The locks held on one file, and which of them conflict with a request.

use super::ranges::{Range, Ranges};
use super::request::{LockKind, LockRequest};

/// All locks held on one file. Protected by the lock of [`super::FileLocks`].
#[derive(Debug, Default)]
pub(super) struct HeldLocks {
    /// Owners in the order in which they got their first lock; an owner without a range has no
    /// entry.
    records: Vec<(u64, Ranges)>,
    /// At most one per owner.
    flocks: Vec<Flock>,
}

#[derive(Debug)]
struct Flock {
    owner: u64,
    pid: u32,
    kind: LockKind,
}

/// A record lock as it is asked for and told.
fn record(owner: u64, start: u64, range: Range) -> LockRequest {
    let Range { end, kind, pid } = range;
    LockRequest {
        owner,
        pid,
        kind,
        start,
        end,
        flock: false,
    }
}

/// The first lock of an owner that conflicts with a request for a record lock.
fn conflict_of((owner, ranges): &(u64, Ranges), request: &LockRequest) -> Option<LockRequest> {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
    if *owner == request.owner {
        return None;
    }
    let (start, range) = match request.kind {
        LockKind::Write => ranges.find(request.start, request.end)?,
        LockKind::Read => ranges.find_exclusive(request.start, request.end)?,
        LockKind::Unlock => return None,
    };
    Some(record(*owner, start, range))
}

#[cfg(test)]
std::thread_local! {
    /// How many owners this thread has looked at for conflicts.
    pub(super) static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl HeldLocks {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.flocks.is_empty()
    }

    /// The locks that conflict with `request`, at most one per owner, oldest owner first.
    pub(super) fn conflicts(&self, request: &LockRequest) -> impl Iterator<Item = LockRequest> {
        let request = *request;
        let excludes = move |kind| request.kind == LockKind::Write || kind == LockKind::Write;
        let locks = request.kind != LockKind::Unlock;

        let flocks = self.flocks.iter().filter(move |held| {
            locks && request.flock && held.owner != request.owner && excludes(held.kind)
        });
        let flocks = flocks.map(move |held| LockRequest {
            owner: held.owner,
            pid: held.pid,
            kind: held.kind,
            ..request
        });

        let records = self.records.iter().filter(move |_| !request.flock);
        let records = records.filter_map(move |owner| conflict_of(owner, &request));
        flocks.chain(records)
    }

    /// The first lock that conflicts with `request`, with the place of its owner. Owners are looked
    /// at from `place` on, then from the beginning. While nobody loses a lock, places stay.
    pub(super) fn conflict_from(
        &self,
        request: &LockRequest,
        place: usize,
    ) -> Option<(usize, LockRequest)> {
        if request.flock {
            // One exclusive lock at most: it is the first.
            return self.conflicts(request).next().map(|lock| (0, lock));
        }
        let owners = |places: std::ops::Range<usize>| {
            let owners = &self.records[places.clone()];
            places.zip(owners)
        };
        let mut owners = owners(place..self.records.len()).chain(owners(0..place));
        owners.find_map(|(place, owner)| Some((place, conflict_of(owner, request)?)))
    }

    /// All locks: `flock`s, then record locks by owner.
    pub(super) fn all(&self) -> impl Iterator<Item = LockRequest> {
        let flocks = self.flocks.iter().map(|held| LockRequest {
            owner: held.owner,
            pid: held.pid,
            kind: held.kind,
            start: 0,
            end: LockRequest::EOF,
            flock: true,
        });
        let records = self.records.iter().flat_map(|(owner, ranges)| {
            let ranges = ranges.iter();
            ranges.map(|(start, range)| record(*owner, start, range))
        });
        flocks.chain(records)
    }

    /// How many owners there are, one that has locks of both sorts twice.
    pub(super) fn owners(&self) -> usize {
        self.records.len() + self.flocks.len()
    }

    /// Whether the owner has no lock of the sort that `request` wants.
    pub(super) fn is_new(&self, request: &LockRequest) -> bool {
        match request.flock {
            true => !self.flocks.iter().any(|held| held.owner == request.owner),
            false => self.ranges_held(request.owner) == 0,
        }
    }

    /// How many more ranges the owner has after `request`.
    pub(super) fn growth(&self, request: &LockRequest) -> i64 {
        let of_owner = self
            .records
            .iter()
            .find(|(owner, _)| *owner == request.owner);
        match (of_owner, request.kind) {
            _ if request.flock => 0,
            (Some((_, ranges)), kind) => ranges.growth(request.start, request.end, kind),
            (None, LockKind::Unlock) => 0,
            (None, _) => 1,
        }
    }

    /// The number of ranges of `owner`.
    pub(super) fn ranges_held(&self, owner: u64) -> usize {
        let of_owner = self.records.iter().find(|(holder, _)| *holder == owner);
        of_owner.map_or(0, |(_, ranges)| ranges.len())
    }

    /// Carries `request` out; the caller has found no conflict.
    pub(super) fn apply(&mut self, request: &LockRequest) {
        match (request.flock, request.kind) {
            (true, LockKind::Unlock) => self.release(request.owner, true),
            (true, kind) => {
                self.release(request.owner, true);
                self.flocks.push(Flock {
                    owner: request.owner,
                    pid: request.pid,
                    kind,
                });
            }
            (false, LockKind::Unlock) => self.cut(request),
            (false, kind) => {
                let range = Range {
                    end: request.end,
                    kind,
                    pid: request.pid,
                };
                self.ranges_of(request.owner).set(request.start, range);
            }
        }
    }

    /// Whether there are record locks, and whether there are `flock`s.
    pub(super) fn sorts(&self) -> [bool; 2] {
        [!self.records.is_empty(), !self.flocks.is_empty()]
    }

    /// Whether the owner's `flock` already is what `request` wants.
    pub(super) fn has_flock(&self, request: &LockRequest) -> bool {
        self.flocks
            .iter()
            .any(|held| held.owner == request.owner && held.kind == request.kind)
    }

    /// Releases all locks of an owner, of one of the two sorts.
    pub(super) fn release(&mut self, owner: u64, flock: bool) {
        if flock {
            self.flocks.retain(|held| held.owner != owner);
        } else {
            self.records.retain(|(holder, _)| *holder != owner);
        }
    }

    fn cut(&mut self, request: &LockRequest) {
        let found = self
            .records
            .iter()
            .position(|(owner, _)| *owner == request.owner);
        let Some(index) = found else { return };
        let ranges = &mut self.records[index].1;
        ranges.cut(request.start, request.end);
        if ranges.is_empty() {
            self.records.remove(index);
        }
    }

    fn ranges_of(&mut self, owner: u64) -> &mut Ranges {
        let found = self.records.iter().position(|(holder, _)| *holder == owner);
        let index = found.unwrap_or_else(|| {
            self.records.push((owner, Ranges::default()));
            self.records.len() - 1
        });
        &mut self.records[index].1
    }

    #[cfg(test)]
    pub(super) fn ranges(&self, owner: u64) -> Vec<(u64, Range)> {
        let of_owner = self.records.iter().find(|(holder, _)| *holder == owner);
        of_owner
            .map(|(_, ranges)| ranges.iter().collect())
            .unwrap_or_default()
    }
}
