//! The root of a file's pages, and how a page is found.

use std::ops::Range;

use hearth_sync::epoch::Guard;
use hearth_sync::rcu::RcuSlot;

use super::mark::{Mark, Status};
use super::page::Page;
use super::span::PAGES;
use super::tree::{FAN, Far, Leaf, Place, cut_leaf, fill, grow_leaf, sweep_leaf};

/// A miss: the page of this index must be loaded from the backend first ([`Data::load`]); then call
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent(
    /// The page's index: its offset divided by [`PAGE`](super::PAGE).
    pub u64,
);

/// The pages of one file.
///
/// A page is in memory, or has a state that says what its absence means. Without a state it is a
/// hole, except that below `unknown_below` only the backend knows.
///
/// 1. A slot is filled by installing over null and emptied only with the gate closed.\n2. The state
/// is set before a slot is emptied.\n3. Nodes are made on the way to a first write and dropped only
/// with the gate closed.
pub struct Data {
    /// Page 0, stored here so that a small file has no node.
    pub(super) first: RcuSlot<Page>,
    /// Pages 1..64; slot 0 stays empty.
    pub(super) near: RcuSlot<Leaf>,
    /// Pages from 64 on, and the shift count; made on first use and kept.
    pub(super) far: RcuSlot<Far>,
    /// What absence means, for the whole file and for page 0.
    pub(super) status: Status,
}

/// What is found at an index.
pub(super) enum Look<'g> {
    Page(&'g Page),
    /// Not allocated: zeros.
    Hole,
    /// Allocated and never written: zeros.
    Blank,
    /// Allocated; the backend has the content.
    Held,
    /// Only the backend knows whether there is a page.
    Unknown,
}

impl Data {
    /// Data without a page in memory. `complete`: without any page at all. Otherwise only the
    /// backend knows each absent page, until [`learn`](Data::learn) is called: edits of such a file
    /// ask page by page, and a search for data asks up to the end of the largest file.
    pub fn new(complete: bool) -> Data {
        Data {
            first: RcuSlot::empty(),
            near: RcuSlot::empty(),
            far: RcuSlot::empty(),
            status: Status::new(if complete { 0 } else { PAGES }),
        }
    }

    /// Whether every absent page is a hole: no call will return [`Absent`].
    pub fn is_complete(&self) -> bool {
        self.status.is_complete()
    }

    /// The backend has content for exactly the pages in `held`, by index. From then on counts are
    /// exact, holes need no question, and only held pages are [`Absent`]. For new data that no
    /// other thread uses yet, or with the gate closed.
    pub fn learn(&self, held: impl IntoIterator<Item = Range<u64>>, g: &Guard) {
        for index in held.into_iter().flatten() {
            self.status.set_partial();
            let place = self.grow(index, g);
            if place.slot.is_empty() {
                place.spot.replace(Mark::Nothing, Mark::Held);
            }
        }
        self.status.lower(0);
    }

    /// Pages of the file, counted one by one: those in memory and those known to be allocated. For
    /// checks; exact when nothing changes meanwhile.
    #[cfg_attr(not(test), allow(dead_code, reason = "a check"))]
    pub fn pages(&self, g: &Guard) -> u64 {
        self.walk(0..PAGES, g)
            .filter(|(_, place)| place.is_allocated(g))
            .count() as u64
    }

    /// Pages in memory, counted one by one.
    pub fn resident_pages(&self, g: &Guard) -> u64 {
        self.walk(0..PAGES, g)
            .filter(|(_, place)| !place.slot.is_empty())
            .count() as u64
    }

    /// What is at `index`, as of one moment of this call.
    pub(super) fn look<'g>(&'g self, index: u64, g: &'g Guard) -> Look<'g> {
        loop {
            let shift = self.shift(g);
            let place = self.place(index, g);
            if let Some(page) = place.and_then(|place| place.page(g)) {
                return Look::Page(page);
            }
            let mark = place.map_or(Mark::Nothing, |place| place.spot.get());
            let look = match mark {
                Mark::Nothing if index < self.status.unknown_below() => Look::Unknown,
                Mark::Nothing | Mark::Hole => Look::Hole,
                Mark::Blank | Mark::Fresh => Look::Blank,
                Mark::Held => Look::Held,
            };
            if !self.has_shifted(shift, g) {
                return look;
            }
        }
    }

    /// The slot of `index`, if its leaf exists. Raw: a miss counts only if no shift ran.
    pub(super) fn place<'g>(&'g self, index: u64, g: &'g Guard) -> Option<Place<'g>> {
        match index {
            0 => Some(self.head()),
            _ => Some(self.leaf(index, g)?.place(index)),
        }
    }

    /// The slot of `index`; nodes are made if needed.
    pub(super) fn grow<'g>(&'g self, index: u64, g: &'g Guard) -> Place<'g> {
        debug_assert!(index < PAGES);
        match index {
            0 => self.head(),
            1..FAN => grow_leaf(&self.near, g).place(index),
            _ => fill(&self.far, Far::empty, g).grow(index, g).place(index),
        }
    }

    /// The leaf of `index`, which is not 0.
    pub(super) fn leaf<'g>(&'g self, index: u64, g: &'g Guard) -> Option<&'g Leaf> {
        match index {
            0..FAN => self.near.load(g),
            _ => self.far.load(g)?.leaf(index, g),
        }
    }

    /// The slots of all leaves that exist in `range`, in order; absent subtrees cost nothing.
    pub(super) fn walk<'g>(&'g self, range: Range<u64>, g: &'g Guard) -> Walk<'g> {
        Walk {
            data: self,
            g,
            leaf: None,
            range,
        }
    }

    /// Drops the pages of `range`; returns how many were allocated. Gate closed.
    pub(super) fn cut(&self, range: Range<u64>, g: &Guard) -> u64 {
        let below = self.status.unknown_below();
        let mut cut = 0;
        if range.contains(&0) {
            let mark = if below > 0 { Mark::Hole } else { Mark::Nothing };
            cut += u64::from(self.head().clear(mark, g));
        }
        self.sweep(&range, g, &mut |base, leaf| {
            cut_leaf(leaf, base, &range, below, g, &mut cut)
        });
        cut
    }

    /// Passes the leaves of `range` to `visit`, like [`Far::sweep`].
    pub(super) fn sweep(
        &self,
        range: &Range<u64>,
        g: &Guard,
        visit: &mut dyn FnMut(u64, &Leaf) -> bool,
    ) {
        if range.is_empty() {
            return;
        }
        if range.start < FAN {
            sweep_leaf(&self.near, 0, g, visit);
        }
        if let Some(far) = self.far.load(g) {
            far.sweep(range, g, visit);
        }
    }

    /// Fails with the first unknown page of `range`.
    pub(super) fn check_known(&self, range: Range<u64>, g: &Guard) -> Result<(), Absent> {
        let range = range.start..range.end.min(self.status.unknown_below());
        let mut next = range.start;
        for (index, place) in self.walk(range.clone(), g) {
            let known = !place.slot.is_empty() || place.spot.get() != Mark::Nothing;
            if index > next || !known {
                return Err(Absent(next));
            }
            next = index + 1;
        }
        if next < range.end {
            Err(Absent(next))
        } else {
            Ok(())
        }
    }

    fn head(&self) -> Place<'_> {
        Place {
            slot: &self.first,
            spot: self.status.first(),
        }
    }

    /// The shift count, once it is even; None if nothing was ever shifted.
    fn shift(&self, g: &Guard) -> Option<u32> {
        self.far.load(g).map(|far| far.shift.read_begin())
    }

    fn has_shifted(&self, before: Option<u32>, g: &Guard) -> bool {
        match (before, self.far.load(g)) {
            (None, None) => false,
            // It was made meanwhile, perhaps for a shift.
            (None, Some(_)) => true,
            (Some(before), Some(far)) => far.shift.read_retry(before),
            (Some(_), None) => unreachable!("the far trees are kept until the file goes"),
        }
    }
}

/// See [`Data::walk`].
pub(super) struct Walk<'g> {
    data: &'g Data,
    g: &'g Guard,
    /// The leaf of `range.start`, when known.
    leaf: Option<&'g Leaf>,
    /// What is still to come.
    range: Range<u64>,
}

impl<'g> Iterator for Walk<'g> {
    type Item = (u64, Place<'g>);

    fn next(&mut self) -> Option<(u64, Place<'g>)> {
        if self.range.is_empty() {
            return None;
        }
        if self.range.start == 0 {
            self.range.start = 1;
            return Some((0, self.data.head()));
        }
        let leaf = match self.leaf {
            Some(leaf) if !self.range.start.is_multiple_of(FAN) => leaf,
            _ => self.next_leaf()?,
        };
        let index = self.range.start;
        self.range.start += 1;
        Some((index, leaf.place(index)))
    }
}

impl<'g> Walk<'g> {
    /// Goes to the next leaf that exists; None when there is none in the range.
    fn next_leaf(&mut self) -> Option<&'g Leaf> {
        let near = self
            .data
            .near
            .load(self.g)
            .filter(|_| self.range.start < FAN);
        if near.is_none() {
            let from = self.range.start.max(FAN);
            let (base, leaf) = self.data.far.load(self.g)?.next_leaf(from, self.g)?;
            self.range.start = from.max(base);
            self.leaf = Some(leaf);
        } else {
            self.leaf = near;
        }
        self.leaf.filter(|_| self.range.start < self.range.end)
    }
}
