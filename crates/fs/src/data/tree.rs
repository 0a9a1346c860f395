//! The nodes of the tree.
//!
//! An index picks its tree by size: page 0 hangs on `Data` itself, pages 1..64 on one leaf, and
//! pages 64^k..64^(k+1) on a tree of height k. No tree ever grows upwards, so a reader needs no
//! sequence count to find a page while the file grows.

use std::ops::{ControlFlow, Range};

use hearth_sync::epoch::Guard;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::AtomicU64;
use hearth_sync::rcu::RcuSlot;
use hearth_sync::seq::SeqCount;

use super::leaf::{Absence, AbsenceCell, Leaf};
use super::resident::Resident;
use super::slot_state::SlotState;
use super::slots::{FAN, SlotLines};

const BITS: u32 = FAN.trailing_zeros();

/// Heights of the trees in `Far`: 64^9 is above the highest page index.
const LEVELS: usize = 8;

/// An interior node: 64 nodes of the next lower level.
pub(super) struct Inner {
    below: Below,
    #[cfg(test)]
    _tally: super::live_count::LiveToken,
}

enum Below {
    Inners(SlotLines<Inner>),
    Leaves(Leaves),
}

/// 64 leaves, or what their absence means.
struct Leaves {
    slots: SlotLines<Leaf>,
    absences: [AbsenceCell; FAN as usize],
}

impl Leaves {
    fn empty() -> Leaves {
        Leaves {
            slots: SlotLines::empty(),
            absences: std::array::from_fn(|_| AbsenceCell::new()),
        }
    }

    /// The leaf `number`, counted in leaves, and its absence.
    fn at(&self, number: u64) -> (&RcuSlot<Leaf>, &AbsenceCell) {
        let absence = &self.absences[(number % FAN) as usize];
        (self.slots.at(number), absence)
    }

    fn are_vacant(&self) -> bool {
        let is_hole = |absence: &AbsenceCell| absence.get() == Absence::Hole;
        self.slots.are_vacant() && self.absences.iter().all(is_hole)
    }
}

impl Inner {
    fn empty(level: u32) -> Box<Inner> {
        let below = match level {
            1 => Below::Leaves(Leaves::empty()),
            _ => Below::Inners(SlotLines::empty()),
        };
        Box::new(Inner {
            below,
            #[cfg(test)]
            _tally: super::live_count::LiveToken::new(),
        })
    }

    fn is_vacant(&self) -> bool {
        match &self.below {
            Below::Inners(slots) => slots.are_vacant(),
            Below::Leaves(leaves) => leaves.are_vacant(),
        }
    }
}

lock_class!(pub(super) Shift = "data.shift", 61);

/// The trees of all pages from 64 on.
#[repr(align(64))]
pub(super) struct Far {
    levels: [RcuSlot<Inner>; LEVELS],
    /// Odd while collapse or insert moves pages: a reader that misses a page tries again.
    pub(super) shift: SeqCount<Shift>,
    /// Page at which eviction goes on: the clock hand. Written with the gate closed.
    pub(super) hand: AtomicU64,
    #[cfg(test)]
    _tally: super::live_count::LiveToken,
}

impl Far {
    pub(super) fn empty() -> Box<Far> {
        Box::new(Far {
            levels: std::array::from_fn(|_| RcuSlot::empty()),
            shift: SeqCount::new(),
            hand: AtomicU64::new(0),
            #[cfg(test)]
            _tally: super::live_count::LiveToken::new(),
        })
    }

    /// The leaf of page `index`, if there is one.
    pub(super) fn leaf<'g>(&'g self, index: u64, g: &'g Guard) -> Option<&'g Leaf> {
        let (slot, _) = self.leaf_slot(index, g)?;
        slot.load(g)
    }

    /// What the absence of the leaf of page `index` means, which was found absent.
    pub(super) fn absence(&self, index: u64, g: &Guard) -> Absence {
        let absence = |(_, cell): (_, &AbsenceCell)| cell.get();
        self.leaf_slot(index, g).map_or(Absence::Hole, absence)
    }

    /// The slot of the leaf of page `index`, and its absence.
    #[inline]
    fn leaf_slot<'g>(
        &'g self,
        index: u64,
        g: &'g Guard,
    ) -> Option<(&'g RcuSlot<Leaf>, &'g AbsenceCell)> {
        let mut level = level_of(index);
        let mut node = self.tree(level).load(g)?;
        loop {
            match &node.below {
                Below::Leaves(leaves) => return Some(leaves.at(index / FAN)),
                Below::Inners(slots) => node = slots.at(index >> (BITS * level)).load(g)?,
            }
            level -= 1;
        }
    }

    /// The leaf of page `index`; it and the nodes above it are made if needed, and added to `made`.
    ///
    /// # Panics
    /// When only the backend knows which of its pages are allocated: the caller has checked that.
    pub(super) fn grow<'g>(&'g self, index: u64, made: &mut u64, g: &'g Guard) -> &'g Leaf {
        let (slot, absence) = self.grow_slot(index, made, g);
        // A caller inside the gate finds what was there when the leaf went.
        let make = || match absence.get() {
            Absence::Hole => Leaf::of(SlotState::Unset),
            Absence::Full => Leaf::of(SlotState::AtBackend),
            Absence::Partly { .. } => unreachable!("the caller has checked that the leaf is known"),
        };
        fill(slot, make, made, g)
    }

    /// The slot of the leaf of page `index`, and its absence; the nodes above it are made if
    /// needed, and added to `made`.
    pub(super) fn grow_slot<'g>(
        &'g self,
        index: u64,
        made: &mut u64,
        g: &'g Guard,
    ) -> (&'g RcuSlot<Leaf>, &'g AbsenceCell) {
        let mut level = level_of(index);
        let mut node = fill(self.tree(level), || Inner::empty(level), made, g);
        loop {
            match &node.below {
                Below::Leaves(leaves) => return leaves.at(index / FAN),
                Below::Inners(slots) => {
                    let slot = slots.at(index >> (BITS * level));
                    node = fill(slot, || Inner::empty(level - 1), made, g);
                }
            }
            level -= 1;
        }
    }

    /// The first leaf that has pages at or past `from` (at least 64), and its first index.
    pub(super) fn next_leaf<'g>(&'g self, from: u64, g: &'g Guard) -> Option<(u64, &'g Leaf)> {
        (level_of(from)..=LEVELS as u32)
            .find_map(|level| next_below(self.tree(level).load(g)?, level, 0, from, g))
    }

    /// Passes every leaf that has pages in `range` to `visit`, or its absence if that is no hole.
    /// Leaves the absence that it returns, without the leaf, and drops nodes that have become
    /// empty. Only with the gate closed.
    pub(super) fn sweep(&self, range: &Range<u64>, g: &Guard, visit: &mut Visit<'_>) {
        for level in 1..=LEVELS as u32 {
            if is_in_tree(level, range) {
                sweep_inner(self.tree(level), level, 0, range, g, visit);
            }
        }
    }

    /// Passes the absence of every leaf that has pages in `range` to `visit`, in order, if it is no
    /// hole, until that breaks.
    pub(super) fn visit_absences(
        &self,
        range: &Range<u64>,
        g: &Guard,
        visit: &mut VisitAbsence<'_>,
    ) -> ControlFlow<()> {
        let mut levels = (1..=LEVELS as u32).filter(|&level| is_in_tree(level, range));
        levels.try_for_each(|level| absences_below(self.tree(level), level, 0, range, g, visit))
    }

    /// The nodes that have pages in `range`, and all pages in memory of their leaves.
    pub(super) fn resident(&self, range: &Range<u64>, g: &Guard) -> Resident {
        let mut all = Resident::default();
        for level in 1..=LEVELS as u32 {
            if is_in_tree(level, range) {
                all.add(resident_below(self.tree(level), level, 0, range, g));
            }
        }
        all
    }

    fn tree(&self, level: u32) -> &RcuSlot<Inner> {
        &self.levels[level as usize - 1]
    }
}

/// What [`Far::sweep`] finds in the place of a leaf.
pub(super) enum LeafEntry<'l> {
    Present(&'l Leaf),
    Absent(Absence),
}

/// Gets what there is of a leaf, and its first index. Returns the absence to leave in its place, if
/// that changes.
pub(super) type Visit<'v> = dyn FnMut(u64, LeafEntry<'_>) -> Option<Absence> + 'v;

/// Gets the absence of a leaf, and its first index; a break ends the walk.
pub(super) type VisitAbsence<'v> = dyn FnMut(u64, Absence) -> ControlFlow<()> + 'v;

fn sweep_leaf(
    (slot, absence): (&RcuSlot<Leaf>, &AbsenceCell),
    base: u64,
    g: &Guard,
    visit: &mut Visit<'_>,
) {
    let left = match (slot.load(g), absence.get()) {
        (Some(leaf), _) => visit(base, LeafEntry::Present(leaf)),
        (None, Absence::Hole) => None,
        (None, known) => visit(base, LeafEntry::Absent(known)),
    };
    if let Some(left) = left {
        absence.set(left);
        if !slot.is_empty() {
            slot.take(g);
        }
    }
}

/// The value in `slot`, made by `make` if it is empty, and then added to `made`.
pub(super) fn fill<'g, T: Send + Sync + 'static>(
    slot: &'g RcuSlot<T>,
    make: impl Fn() -> Box<T>,
    made: &mut u64,
    g: &'g Guard,
) -> &'g T {
    loop {
        if let Some(node) = slot.load(g) {
            return node;
        }
        if let Ok(node) = slot.install(make(), g) {
            *made += 1;
            return node;
        }
    }
}

fn resident_below(
    slot: &RcuSlot<Inner>,
    level: u32,
    base: u64,
    range: &Range<u64>,
    g: &Guard,
) -> Resident {
    let Some(node) = slot.load(g) else {
        return Resident::default();
    };
    let mut all = Resident { pages: 0, nodes: 1 };
    let step = 1 << (BITS * level);
    for at in children(level, base, range) {
        all.add(match &node.below {
            Below::Leaves(leaves) => {
                let leaf = leaves.slots.at(at).load(g);
                leaf.map(Leaf::resident).unwrap_or_default()
            }
            Below::Inners(slots) => {
                resident_below(slots.at(at), level - 1, base + at * step, range, g)
            }
        });
    }
    all
}

/// Whether the tree of height `level` has pages of `range`.
fn is_in_tree(level: u32, range: &Range<u64>) -> bool {
    range.end > 1 << (BITS * level) && range.start < 1 << (BITS * (level + 1))
}

/// The children, of a node of height `level` whose first page is `base`, with pages of `range`.
fn children(level: u32, base: u64, range: &Range<u64>) -> Range<u64> {
    let step = 1 << (BITS * level);
    let first = range.start.saturating_sub(base) / step;
    first..range.end.saturating_sub(base).div_ceil(step).min(FAN)
}

/// The height of the tree that holds page `index`, 64 or more.
fn level_of(index: u64) -> u32 {
    debug_assert!(index >= FAN);
    index.ilog2() / BITS
}

fn next_below<'g>(
    node: &'g Inner,
    level: u32,
    base: u64,
    from: u64,
    g: &'g Guard,
) -> Option<(u64, &'g Leaf)> {
    let step = 1 << (BITS * level);
    let mut later = (from.saturating_sub(base) / step..FAN).map(|at| (at, base + at * step));
    match &node.below {
        Below::Leaves(leaves) => {
            later.find_map(|(at, base)| Some((base, leaves.slots.at(at).load(g)?)))
        }
        Below::Inners(slots) => {
            later.find_map(|(at, base)| next_below(slots.at(at).load(g)?, level - 1, base, from, g))
        }
    }
}

fn sweep_inner(
    slot: &RcuSlot<Inner>,
    level: u32,
    base: u64,
    range: &Range<u64>,
    g: &Guard,
    visit: &mut Visit<'_>,
) {
    let Some(node) = slot.load(g) else { return };
    let step = 1 << (BITS * level);
    for at in children(level, base, range) {
        match &node.below {
            Below::Leaves(leaves) => sweep_leaf(leaves.at(at), base + at * step, g, visit),
            Below::Inners(slots) => {
                sweep_inner(slots.at(at), level - 1, base + at * step, range, g, visit);
            }
        }
    }
    if node.is_vacant() {
        slot.take(g);
    }
}

fn absences_below(
    slot: &RcuSlot<Inner>,
    level: u32,
    base: u64,
    range: &Range<u64>,
    g: &Guard,
    visit: &mut VisitAbsence<'_>,
) -> ControlFlow<()> {
    let Some(node) = slot.load(g) else {
        return ControlFlow::Continue(());
    };
    let step = 1 << (BITS * level);
    children(level, base, range).try_for_each(|at| match &node.below {
        Below::Leaves(leaves) => match leaves.at(at) {
            (slot, cell) if slot.is_empty() && cell.get() != Absence::Hole => {
                visit(base + at * step, cell.get())
            }
            _ => ControlFlow::Continue(()),
        },
        Below::Inners(slots) => {
            absences_below(slots.at(at), level - 1, base + at * step, range, g, visit)
        }
    })
}
