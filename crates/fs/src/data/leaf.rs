//! A leaf of the tree, and what its absence means.
//!
//! A leaf whose pages have all left memory may leave it too: what the backend has of its pages then
//! fits in a byte of the node above, and the leaf comes back when one of them is asked for.

use std::ops::Range;

use hearth_sync::epoch::{self, Guard};
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use hearth_sync::rcu::RcuSlot;

use super::page::Page;
use super::resident::Resident;
use super::slot_state::{STATES, SlotState, StateCell, fill_states};
use super::slots::{FAN, SlotLines};

/// 64 pages.
pub(super) struct Leaf {
    /// What the empty slots of `pages` mean. See [`StateCell`] for the order.
    states: [AtomicU64; FAN as usize / STATES],
    /// Came from the backend since eviction last passed: it stays once more. Relaxed: a hint.
    is_new: AtomicBool,
    /// Filled by writers and loads (install), emptied with the gate closed.
    pages: SlotLines<Page>,
    #[cfg(test)]
    _tally: super::live_count::LiveToken,
}

impl Leaf {
    /// A leaf whose pages all have `state`.
    pub(super) fn of(state: SlotState) -> Box<Leaf> {
        let leaf = Box::new(Leaf {
            states: std::array::from_fn(|_| AtomicU64::new(0)),
            is_new: AtomicBool::new(false),
            pages: SlotLines::empty(),
            #[cfg(test)]
            _tally: super::live_count::LiveToken::new(),
        });
        leaf.fill_states(0..FAN, state);
        leaf
    }

    /// The slot of page `index`, which lies in this leaf.
    pub(super) fn slot(&self, index: u64) -> PageSlot<'_> {
        let at = (index % FAN) as usize;
        PageSlot {
            slot: self.pages.at(index),
            state: StateCell::new(&self.states[at / STATES], at % STATES),
        }
    }

    /// Gives pages of this leaf, by their places in it, a state that none of them has yet. Nobody
    /// else uses the leaf.
    pub(super) fn fill_states(&self, places: Range<u64>, state: SlotState) {
        fill_states(&self.states, places, state);
    }

    /// Lets the next pass of eviction leave this leaf in memory.
    pub(super) fn set_new(&self) {
        self.is_new.store(true, Ordering::Relaxed);
    }

    /// The leaf and its pages in memory.
    pub(super) fn resident(&self) -> Resident {
        let pages = self.pages.all().filter(|slot| !slot.is_empty());
        Resident {
            pages: pages.count() as u64,
            nodes: 1,
        }
    }

    /// What the backend has of the pages of this leaf, once it has all that is in memory.
    pub(super) fn at_backend(&self, g: &Guard) -> Absence {
        let slots = || (0..FAN).map(|at| self.slot(at));
        match slots().filter(|slot| slot.is_allocated(g)).count() as u64 {
            FAN if slots().all(|slot| slot.is_written(g)) => Absence::Full,
            count => Absence::partly(count, slots().any(|slot| slot.is_written(g))),
        }
    }

    /// What is to be noted of this leaf if it may leave memory: none of its pages is there, and the
    /// backend can tell of all of them. `is_settled`: it has heard of every operation on the file.
    /// Otherwise it knows only what cannot have changed since pages were evicted. Gate closed.
    pub(super) fn evict(&self, is_settled: bool, g: &Guard) -> Option<Absence> {
        let is_known = |state| match state {
            SlotState::Unset | SlotState::AtBackend => true,
            SlotState::Hole | SlotState::Unwritten => is_settled,
            SlotState::UnwrittenDirty => false,
        };
        let may_go =
            self.pages.are_vacant() && (0..FAN).all(|at| is_known(self.slot(at).state.get()));
        match may_go && !self.is_new.swap(false, Ordering::Relaxed) {
            true => Some(self.at_backend(g)),
            false => None,
        }
    }

    /// Empties the slots in `range` of a leaf that starts at `base`, and counts those in `cut` that
    /// were allocated. Returns whether the leaf is of no more use.
    pub(super) fn cut(&self, base: u64, range: &Range<u64>, cut: &mut u64, g: &Guard) -> bool {
        let part = base.max(range.start)..(base + FAN).min(range.end);
        if part == (base..base + FAN) {
            // All at once: readers that hold the leaf still see its pages from before.
            let slots = || part.clone().map(|index| self.slot(index));
            *cut += slots().filter(|slot| slot.is_allocated(g)).count() as u64;
            let resident = slots().filter(|slot| slot.page(g).is_some()).count();
            epoch::account(resident * Page::SIZE, g);
            return true;
        }
        for index in part {
            *cut += u64::from(self.slot(index).clear(SlotState::Hole, g));
        }
        self.is_vacant()
    }

    /// Whether none of its pages is allocated.
    pub(super) fn is_vacant(&self) -> bool {
        let is_hole = |at| {
            matches!(
                self.slot(at).state.get(),
                SlotState::Unset | SlotState::Hole
            )
        };
        self.pages.are_vacant() && (0..FAN).all(is_hole)
    }
}

/// Where one page lies: its slot, and the state that says what an empty slot means.
#[derive(Clone, Copy)]
pub(super) struct PageSlot<'g> {
    pub(super) slot: &'g RcuSlot<Page>,
    pub(super) state: StateCell<'g>,
}

impl<'g> PageSlot<'g> {
    pub(super) fn page(&self, g: &'g Guard) -> Option<&'g Page> {
        self.slot.load(g)
    }

    /// Whether the page counts as one of the file. The slot is read first: see [`StateCell`].
    pub(super) fn is_allocated(&self, g: &Guard) -> bool {
        self.slot.load(g).is_some() || self.state.get().is_allocated()
    }

    /// Whether the page has content, in memory or at the backend.
    pub(super) fn is_written(&self, g: &Guard) -> bool {
        self.slot.load(g).is_some() || self.state.get() == SlotState::AtBackend
    }

    /// Takes the page away and leaves `state`; true when the page was allocated. Gate closed.
    pub(super) fn clear(&self, state: SlotState, g: &Guard) -> bool {
        let allocated = self.is_allocated(g);
        self.state.set(state);
        if !self.slot.is_empty() && self.slot.take(g) {
            epoch::account(Page::SIZE - size_of::<Page>(), g);
        }
        allocated
    }
}

/// What the absence of a leaf means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// None of its pages is allocated.
    Hole,
    /// This many of its pages are allocated, and some of them written or none. The backend knows
    /// which.
    Partly { count: u8, has_data: bool },
    /// All of its pages are written, and the backend has them.
    Full,
}

impl Absence {
    /// A leaf that has `count` allocated pages, of which some are written if it `has_data`.
    pub(super) fn partly(count: u64, has_data: bool) -> Absence {
        debug_assert!(count <= FAN);
        match count as u8 {
            0 => Absence::Hole,
            count => Absence::Partly { count, has_data },
        }
    }

    /// Whether some of its pages are written.
    pub(super) fn has_data(self) -> bool {
        match self {
            Absence::Hole => false,
            Absence::Partly { has_data, .. } => has_data,
            Absence::Full => true,
        }
    }

    /// How many pages are allocated.
    pub(super) fn count(self) -> u64 {
        match self {
            Absence::Hole => 0,
            Absence::Partly { count, .. } => count.into(),
            Absence::Full => FAN,
        }
    }
}

/// The absence of one leaf, in its place in the node above. Means nothing while the leaf is there.
///
/// Relaxed, like a [`StateCell`]: it is written only with the gate closed, or before others see the
/// file, and always before the slot is emptied whose emptiness it explains.
pub(super) struct AbsenceCell(AtomicU8);

const FULL: u8 = u8::MAX;
/// Beside the count of a leaf that [`Absence::has_data`].
const HAS_DATA: u8 = 1 << 7;

impl AbsenceCell {
    /// For a leaf that never was.
    pub(super) fn new() -> AbsenceCell {
        AbsenceCell(AtomicU8::new(0))
    }

    pub(super) fn get(&self) -> Absence {
        match self.0.load(Ordering::Relaxed) {
            FULL => Absence::Full,
            byte => Absence::partly((byte & !HAS_DATA).into(), byte & HAS_DATA != 0),
        }
    }

    pub(super) fn set(&self, absence: Absence) {
        let byte = match absence {
            Absence::Full => FULL,
            Absence::Hole => 0,
            Absence::Partly { count, has_data } => count | (HAS_DATA * u8::from(has_data)),
        };
        self.0.store(byte, Ordering::Relaxed);
    }
}
