//! The root of a file's pages, and how a page is found.

use std::ops::Range;

use hearth_sync::epoch::{Guard, pin};
use hearth_sync::rcu::RcuSlot;

use super::page::Page;
use super::resident::Resident;
use super::slot_state::{SlotState, Status};
use super::span::PAGES;
use super::tree::{FAN, Far, Leaf, PageSlot, cut_leaf, fill, grow_leaf, sweep_leaf};

/// Pages that get their states under one guard: a cut waits for it.
const PART: u64 = FAN << 12;

/// A miss: the page of this index must be loaded from the backend first ([`Data::load`]); then call
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMiss(
    /// The page's index: its offset divided by [`PAGE`](super::PAGE).
    pub u64,
);

/// The pages of one file.
///
/// A page is in memory, or has a state that says what its absence means. Without a state it is a
/// hole, except that below `unknown_below` only the backend knows.
///
/// 1. A slot is filled by installing over null and emptied only with the gate closed.
/// 2. The state is set before a slot is emptied.
/// 3. Nodes are made on the way to a first write and dropped only with the gate closed.
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
pub(super) enum PageLookup<'g> {
    Page(&'g Page),
    /// Not allocated: zeros.
    Hole,
    /// Allocated and never written: zeros.
    Unwritten,
    /// Allocated; the backend has the content.
    AtBackend,
    /// Only the backend knows whether there is a page.
    Unknown,
}

impl Data {
    /// Data without a page in memory. `complete`: without any page at all. Otherwise only the
    /// backend knows each absent page: edits of such a file ask page by page, and a search for data
    /// asks up to the end of the largest file. See [`Data::allocated`].
    pub fn new(complete: bool) -> Data {
        Data {
            first: RcuSlot::empty(),
            near: RcuSlot::empty(),
            far: RcuSlot::empty(),
            status: Status::new(if complete { 0 } else { PAGES }),
        }
    }

    /// Whether every absent page is a hole: no call will return [`PageMiss`].
    pub fn is_complete(&self) -> bool {
        self.status.is_complete()
    }

    /// Data of which exactly the pages in `held`, by index, are allocated; where true, the backend
    /// has content for them, and else they were never written. Counts are exact, holes need no
    /// question, and only pages with content are [`PageMiss`]. Returns what the nodes take, too.
    ///
    /// A large file takes long. So a caller that is not pinned is pinned for a part at a time only:
    /// no cut waits for all of it.
    pub fn allocated(held: impl IntoIterator<Item = (Range<u64>, bool)>) -> (Data, Resident) {
        let data = Data::new(true);
        let mut came = Resident::default();
        for (pages, is_written) in held {
            let state = match is_written {
                true => SlotState::AtBackend,
                false => SlotState::Unwritten,
            };
            let mut next = pages.start;
            while next < pages.end {
                let end = pages.end.min((next / PART + 1) * PART);
                data.fill_states(next..end, state, &mut came.nodes, &pin());
                next = end;
            }
        }
        (data, came)
    }

    /// Gives pages a state. No other thread uses this data yet.
    fn fill_states(&self, pages: Range<u64>, state: SlotState, made: &mut u64, g: &Guard) {
        self.status.set_partial();
        let mut next = pages.start;
        if next == 0 {
            self.head().state.replace(SlotState::Unset, state);
            next = 1;
        }
        while next < pages.end {
            let leaf = match next {
                0..FAN => grow_leaf(&self.near, made, g),
                _ => self.grow_far(g).grow(next, made, g),
            };
            let end = pages.end.min((next / FAN + 1) * FAN);
            let base = next / FAN * FAN;
            leaf.fill_states(next - base..end - base, state);
            next = end;
        }
    }

    /// Pages of the file, counted one by one: those in memory and those known to be allocated. For
    /// checks; exact when nothing changes meanwhile.
    #[cfg_attr(not(test), allow(dead_code, reason = "a check"))]
    pub fn pages(&self, g: &Guard) -> u64 {
        self.walk(0..PAGES, g)
            .filter(|(_, slot)| slot.is_allocated(g))
            .count() as u64
    }

    /// What is at `index`, as of one moment of this call.
    pub(super) fn look<'g>(&'g self, index: u64, g: &'g Guard) -> PageLookup<'g> {
        loop {
            let shift = self.shift(g);
            let slot = self.slot(index, g);
            if let Some(page) = slot.and_then(|slot| slot.page(g)) {
                return PageLookup::Page(page);
            }
            let state = slot.map_or(SlotState::Unset, |slot| slot.state.get());
            let look = match state {
                SlotState::Unset if index < self.status.unknown_below() => PageLookup::Unknown,
                SlotState::Unset | SlotState::Hole => PageLookup::Hole,
                SlotState::Unwritten | SlotState::UnwrittenDirty => PageLookup::Unwritten,
                SlotState::AtBackend => PageLookup::AtBackend,
            };
            if !self.has_shifted(shift, g) {
                return look;
            }
        }
    }

    /// The slot of `index`, if its leaf exists. Raw: a miss counts only if no shift ran.
    pub(super) fn slot<'g>(&'g self, index: u64, g: &'g Guard) -> Option<PageSlot<'g>> {
        match index {
            0 => Some(self.head()),
            _ => Some(self.leaf(index, g)?.slot(index)),
        }
    }

    /// The slot of `index`; nodes are made if needed, and added to `made`.
    pub(super) fn grow<'g>(&'g self, index: u64, made: &mut u64, g: &'g Guard) -> PageSlot<'g> {
        debug_assert!(index < PAGES);
        match index {
            0 => self.head(),
            1..FAN => grow_leaf(&self.near, made, g).slot(index),
            _ => self.grow_far(g).grow(index, made, g).slot(index),
        }
    }

    /// The trees of all pages from 64 on, which are not counted as a node.
    pub(super) fn grow_far<'g>(&'g self, g: &'g Guard) -> &'g Far {
        fill(&self.far, Far::empty, &mut 0, g)
    }

    /// The leaf of `index`, which is not 0.
    pub(super) fn leaf<'g>(&'g self, index: u64, g: &'g Guard) -> Option<&'g Leaf> {
        match index {
            0..FAN => self.near.load(g),
            _ => self.far.load(g)?.leaf(index, g),
        }
    }

    /// The slots of all leaves that exist in `range`, in order; absent subtrees cost nothing.
    pub(super) fn walk<'g>(&'g self, range: Range<u64>, g: &'g Guard) -> LeafWalk<'g> {
        LeafWalk {
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
            let state = if below > 0 {
                SlotState::Hole
            } else {
                SlotState::Unset
            };
            cut += u64::from(self.head().clear(state, g));
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
    pub(super) fn check_known(&self, range: Range<u64>, g: &Guard) -> Result<(), PageMiss> {
        let range = range.start..range.end.min(self.status.unknown_below());
        let mut next = range.start;
        for (index, slot) in self.walk(range.clone(), g) {
            let known = !slot.slot.is_empty() || slot.state.get() != SlotState::Unset;
            if index > next || !known {
                return Err(PageMiss(next));
            }
            next = index + 1;
        }
        if next < range.end {
            Err(PageMiss(next))
        } else {
            Ok(())
        }
    }

    fn head(&self) -> PageSlot<'_> {
        PageSlot {
            slot: &self.first,
            state: self.status.first(),
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
pub(super) struct LeafWalk<'g> {
    data: &'g Data,
    g: &'g Guard,
    /// The leaf of `range.start`, when known.
    leaf: Option<&'g Leaf>,
    /// What is still to come.
    range: Range<u64>,
}

impl<'g> Iterator for LeafWalk<'g> {
    type Item = (u64, PageSlot<'g>);

    fn next(&mut self) -> Option<(u64, PageSlot<'g>)> {
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
        Some((index, leaf.slot(index)))
    }
}

impl<'g> LeafWalk<'g> {
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
