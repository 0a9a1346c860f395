//! The record locks that one owner holds on one file: disjoint ranges, each as long as it can be.

use std::collections::{BTreeMap, BTreeSet};

use super::request::LockKind;

/// One owner's ranges.
///
/// 1. Ranges do not overlap.
/// 2. Two ranges of one kind never touch: they would be one.
/// 3. No range has the kind `Unlock`.
/// 4. `exclusive` has the first bytes of all ranges of the kind `Write`: a reader that waits for
///    one of them looks at no other, however many there are.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    by_start: BTreeMap<u64, Range>,
    exclusive: BTreeSet<u64>,
}

/// A held range, without its first byte, which is its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// Last byte, inclusive.
    pub end: u64,
    /// Shared or exclusive.
    pub kind: LockKind,
    /// The process that requested it last.
    pub pid: u32,
}

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// The first range that has a byte in `start..=end`.
    pub(super) fn find(&self, start: u64, end: u64) -> Option<(u64, Range)> {
        let inside = || self.by_start.range(start..=end).next();
        let found = self.reaching(start).or_else(inside);
        found.map(|(&first, &range)| (first, range))
    }

    /// The first range of the kind `Write` that has a byte in `start..=end`.
    pub(super) fn find_exclusive(&self, start: u64, end: u64) -> Option<(u64, Range)> {
        let before = self.reaching(start);
        let before = before.filter(|(_, range)| range.kind == LockKind::Write);
        let inside = || {
            let first = self.exclusive.range(start..=end).next()?;
            self.by_start.get_key_value(first)
        };
        let found = before.or_else(inside);
        found.map(|(&first, &range)| (first, range))
    }

    /// The range that begins before `start` and reaches there.
    fn reaching(&self, start: u64) -> Option<(&u64, &Range)> {
        let before = self.by_start.range(..start).next_back();
        before.filter(|(_, range)| range.end >= start)
    }

    /// How many more ranges there are after [`Ranges::set`], or after [`Ranges::cut`] if `kind` is
    /// `Unlock`.
    pub(super) fn growth(&self, start: u64, end: u64, kind: LockKind) -> i64 {
        let before = self.by_start.range(..start).next_back();
        let touching = start.checked_sub(1);
        // The range that reaches into this one from the left, or touches it there.
        let left = before.filter(|(_, range)| Some(range.end) >= touching);
        let mut growth = 0;
        let mut last = left
            .map(|(_, range)| *range)
            .filter(|range| range.end >= start);
        if left.is_some_and(|(_, range)| range.kind == kind) {
            // The new range begins where that one begins.
            growth -= 1;
        }
        for (_, range) in self.by_start.range(start..=end) {
            growth -= 1;
            last = Some(*range);
        }
        let right = match last {
            Some(range) if range.end > end => {
                growth += 1;
                Some(range.kind)
            }
            _ => {
                let next = end.checked_add(1).and_then(|next| self.by_start.get(&next));
                next.map(|range| range.kind)
            }
        };
        if kind == LockKind::Unlock {
            return growth;
        }
        growth + 1 - i64::from(right == Some(kind))
    }

    pub(super) fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Gives `start..=range.end` the kind and process of `range`, whatever was there.
    pub(super) fn set(&mut self, mut start: u64, mut range: Range) {
        self.cut(start, range.end);
        if let Some((&first, before)) = self.by_start.range(..start).next_back()
            && before.kind == range.kind
            && before.end.checked_add(1) == Some(start)
        {
            self.remove(first);
            start = first;
        }
        if let Some(next) = range.end.checked_add(1)
            && let Some(after) = self.by_start.get(&next).copied()
            && after.kind == range.kind
        {
            self.remove(next);
            range.end = after.end;
        }
        self.insert(start, range);
    }

    /// Frees `start..=end`; a range that reaches out of it keeps the parts outside.
    pub(super) fn cut(&mut self, start: u64, end: u64) {
        while let Some((first, range)) = self.find(start, end) {
            self.remove(first);
            if first < start {
                let left = Range {
                    end: start - 1,
                    ..range
                };
                self.insert(first, left);
            }
            if range.end > end {
                self.insert(end + 1, range);
            }
        }
    }

    fn insert(&mut self, start: u64, range: Range) {
        if range.kind == LockKind::Write {
            self.exclusive.insert(start);
        }
        self.by_start.insert(start, range);
    }

    fn remove(&mut self, start: u64) {
        self.by_start.remove(&start);
        self.exclusive.remove(&start);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Range)> + '_ {
        self.by_start.iter().map(|(&start, &range)| (start, range))
    }
}
