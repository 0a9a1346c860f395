//! The root of a file's pages, and how a page is found.

use std::ops::{ControlFlow, Range};

use hearth_sync::epoch::Guard;
use hearth_sync::rcu::RcuSlot;

use super::leaf::{Absence, Leaf, PageSlot};
use super::page::Page;
use super::slot_state::{SlotState, Status};
use super::slots::FAN;
use super::span::PAGES;
use super::tree::{Far, LeafEntry, Visit, VisitAbsence, fill};

/// A miss: the page of this index must be loaded from the backend first ([`Data::load`]); then call
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMiss(
    /// The page's index: its offset divided by [`PAGE`](super::PAGE).
    pub u64,
);

/// The pages of one file.
///
/// A page is in memory, or has a state that says what its absence means. So has a leaf of the far
/// trees.
///
/// 1. A slot is filled by installing over null and emptied only with the gate closed.
/// 2. The state, or the absence of a leaf, is set before a slot is emptied.
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
    /// Only the backend knows whether there is a page: see [`Data::unknown_leaf`].
    Unknown,
}

impl Data {
    /// Data without any page.
    pub fn new() -> Data {
        Data {
            first: RcuSlot::empty(),
            near: RcuSlot::empty(),
            far: RcuSlot::empty(),
            status: Status::new(),
        }
    }

    /// Whether every absent page is a hole: no call will return [`PageMiss`].
    pub fn is_complete(&self) -> bool {
        self.status.is_complete()
    }

    /// Pages of the file, counted one by one: those in memory and those known to be allocated. For
    /// checks; exact when nothing changes meanwhile.
    #[cfg_attr(not(test), allow(dead_code, reason = "a check"))]
    pub fn pages(&self, g: &Guard) -> u64 {
        self.allocated_in(0..PAGES, g)
    }

    /// The pages of `range` that are allocated. Of a leaf at its edge of which only the backend
    /// knows, none counts. Exact inside the gate.
    pub fn allocated_in(&self, range: Range<u64>, g: &Guard) -> u64 {
        let slots = self.walk(range.clone(), g);
        let mut count = slots.filter(|(_, slot)| slot.is_allocated(g)).count() as u64;
        let _ = self.visit_absences(&range, g, &mut |base, absence| {
            let part = base.max(range.start)..(base + FAN).min(range.end);
            count += match absence {
                Absence::Full => part.end - part.start,
                Absence::Partly { count, .. } if part == (base..base + FAN) => count.into(),
                Absence::Partly { .. } | Absence::Hole => 0,
            };
            ControlFlow::Continue(())
        });
        count
    }

    /// What is at `index`, as of one moment of this call.
    pub(super) fn look<'g>(&'g self, index: u64, g: &'g Guard) -> PageLookup<'g> {
        loop {
            let shift = self.shift(g);
            let slot = self.slot(index, g);
            if let Some(page) = slot.and_then(|slot| slot.page(g)) {
                return PageLookup::Page(page);
            }
            let look = match slot.map(|slot| slot.state.get()) {
                None => match self.absence(index, g) {
                    Absence::Hole => PageLookup::Hole,
                    Absence::Full => PageLookup::AtBackend,
                    Absence::Partly { .. } => PageLookup::Unknown,
                },
                Some(SlotState::Unset | SlotState::Hole) => PageLookup::Hole,
                Some(SlotState::Unwritten | SlotState::UnwrittenDirty) => PageLookup::Unwritten,
                Some(SlotState::AtBackend) => PageLookup::AtBackend,
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
            1..FAN => self.grow_near(made, g).slot(index),
            _ => self.grow_far(g).grow(index, made, g).slot(index),
        }
    }

    /// The leaf of pages 1..64. It stays in memory with the file.
    pub(super) fn grow_near<'g>(&'g self, made: &mut u64, g: &'g Guard) -> &'g Leaf {
        fill(&self.near, || Leaf::of(SlotState::Unset), made, g)
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

    /// What the absence of the leaf of `index` means, which was found absent.
    pub(super) fn absence(&self, index: u64, g: &Guard) -> Absence {
        match self.far.load(g) {
            Some(far) if index >= FAN => far.absence(index, g),
            _ => Absence::Hole,
        }
    }

    /// The pages of the leaf of `index`, if only the backend knows which of them are allocated.
    pub fn unknown_leaf(&self, index: u64, g: &Guard) -> Option<Range<u64>> {
        let is_absent = index >= FAN && self.leaf(index, g).is_none();
        let is_unknown = is_absent && matches!(self.absence(index, g), Absence::Partly { .. });
        let base = index / FAN * FAN;
        is_unknown.then(|| base..base + FAN)
    }

    /// Passes the absences of leaves in `range` to `visit`, like [`Far::visit_absences`].
    pub(super) fn visit_absences(
        &self,
        range: &Range<u64>,
        g: &Guard,
        visit: &mut VisitAbsence<'_>,
    ) -> ControlFlow<()> {
        match self.far.load(g) {
            Some(far) if !self.is_complete() => far.visit_absences(range, g, visit),
            _ => ControlFlow::Continue(()),
        }
    }

    /// The first leaf in `range` that is absent and no hole, and whose absence is `wanted`: the
    /// first of its pages in `range`, and whether they are all at the backend.
    pub(super) fn first_absent(
        &self,
        range: &Range<u64>,
        wanted: impl Fn(Absence) -> bool,
        g: &Guard,
    ) -> Option<(u64, bool)> {
        let mut found = None;
        let _ = self.visit_absences(range, g, &mut |base, absence| {
            if !wanted(absence) {
                return ControlFlow::Continue(());
            }
            found = Some((base.max(range.start), absence == Absence::Full));
            ControlFlow::Break(())
        });
        found
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

    /// Drops the pages of `range`; returns how many were allocated. The caller has found the leaves
    /// at its edges known ([`Data::check_edges`]). Gate closed.
    pub(super) fn cut(&self, range: Range<u64>, g: &Guard) -> u64 {
        let mut cut = 0;
        if range.is_empty() {
            return cut;
        }
        if range.contains(&0) {
            cut += u64::from(self.head().clear(SlotState::Unset, g));
        }
        // A leaf of which some pages stay has to be there.
        for index in cut_leaves(&range) {
            if self.leaf(index, g).is_none() && self.absence(index, g) == Absence::Full {
                self.grow(index, &mut 0, g);
            }
        }
        self.sweep(&range, g, &mut |base, leaf| match leaf {
            LeafEntry::Present(leaf) => {
                leaf.cut(base, &range, &mut cut, g).then_some(Absence::Hole)
            }
            LeafEntry::Absent(absence) => {
                debug_assert!(range.start <= base && base + FAN <= range.end);
                cut += absence.count();
                Some(Absence::Hole)
            }
        });
        cut
    }

    /// Passes the leaves of `range` to `visit`, like [`Far::sweep`].
    pub(super) fn sweep(&self, range: &Range<u64>, g: &Guard, visit: &mut Visit<'_>) {
        if range.is_empty() {
            return;
        }
        if let Some(leaf) = self.near.load(g).filter(|_| range.start < FAN)
            && visit(0, LeafEntry::Present(leaf)).is_some()
        {
            self.near.take(g);
        }
        if let Some(far) = self.far.load(g) {
            far.sweep(range, g, visit);
        }
    }

    /// Fails with the first page of `range` of which only the backend knows whether it is
    /// allocated.
    pub(super) fn check_known(&self, range: &Range<u64>, g: &Guard) -> Result<(), PageMiss> {
        match self.first_absent(range, |absence| absence != Absence::Full, g) {
            Some((index, _)) => Err(PageMiss(index)),
            None => Ok(()),
        }
    }

    /// [`Data::check_known`] of the leaves that `range` covers in part.
    pub(super) fn check_edges(&self, range: &Range<u64>, g: &Guard) -> Result<(), PageMiss> {
        cut_leaves(range).try_for_each(|index| self.check_known(&(index..index + 1), g))
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

/// A page of each leaf that `range` covers in part: none, one or two.
fn cut_leaves(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    let Range { start, end } = range.clone();
    let first = (start < end && !start.is_multiple_of(FAN)).then_some(start);
    let last = (start < end && !end.is_multiple_of(FAN)).then(|| end - 1);
    let apart = last.filter(|last| first.is_none_or(|first| first / FAN != last / FAN));
    first.into_iter().chain(apart)
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
