//! The nodes of the tree.
//!
//! An index picks its tree by size: page 0 hangs on `Data` itself, pages 1..64 on one leaf, and
//! pages 64^k..64^(k+1) on a tree of height k. No tree ever grows upwards, so a reader needs no
//! sequence count to find a page while the file grows.

use std::ops::Range;

use hearth_sync::epoch::{self, Guard};
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::AtomicU64;
use hearth_sync::rcu::RcuSlot;
use hearth_sync::seq::SeqCount;

use super::page::Page;
use super::resident::Resident;
use super::slot_state::{STATES, SlotState, StateCell, fill_states};

/// SlotLines of a node.
pub(super) const FAN: u64 = 64;
const BITS: u32 = FAN.trailing_zeros();

/// Heights of the trees in `Far`: 64^9 is above the highest page index.
const LEVELS: usize = 8;

/// SlotLines on cache lines of their own. A slot is written when it is first filled and when it is
/// emptied. Eight slots share a line, those of every eighth page: neighbours, which different
/// threads often write first at the same time, lie on different lines. Overwriting a page in memory
/// writes the page only.
#[repr(align(64))]
struct SlotLines<T>([RcuSlot<T>; FAN as usize]);

impl<T: Send + Sync + 'static> SlotLines<T> {
    fn empty() -> SlotLines<T> {
        SlotLines(std::array::from_fn(|_| RcuSlot::empty()))
    }

    /// The slot of the page group `number`, counted in children of this level.
    fn at(&self, number: u64) -> &RcuSlot<T> {
        &self.0[place_of(number)]
    }

    fn is_vacant(&self) -> bool {
        self.0.iter().all(|slot| slot.is_empty())
    }
}

/// Index of the slot of a number: rows and columns of eight are exchanged.
fn place_of(number: u64) -> usize {
    const ROW: u64 = 8;
    let at = number % FAN;
    (at % ROW * (FAN / ROW) + at / ROW) as usize
}

/// 64 pages.
pub(super) struct Leaf {
    /// What the empty slots of `pages` mean. See [`StateCell`] for the order.
    states: [AtomicU64; FAN as usize / STATES],
    /// Filled by writers and loads (install), emptied with the gate closed.
    pages: SlotLines<Page>,
    #[cfg(test)]
    _tally: super::live_count::LiveToken,
}

impl Leaf {
    fn empty() -> Box<Leaf> {
        Box::new(Leaf {
            states: std::array::from_fn(|_| AtomicU64::new(0)),
            pages: SlotLines::empty(),
            #[cfg(test)]
            _tally: super::live_count::LiveToken::new(),
        })
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

    /// The leaf and its pages in memory.
    pub(super) fn resident(&self) -> Resident {
        let pages = self.pages.0.iter().filter(|slot| !slot.is_empty());
        Resident {
            pages: pages.count() as u64,
            nodes: 1,
        }
    }

    /// Whether nothing would be lost with this leaf.
    fn is_vacant(&self) -> bool {
        let unmarked = (0..FAN).all(|at| self.slot(at).state.get() == SlotState::Unset);
        unmarked && self.pages.is_vacant()
    }
}

/// An interior node: 64 nodes of the next lower level.
pub(super) struct Inner {
    below: Below,
    #[cfg(test)]
    _tally: super::live_count::LiveToken,
}

enum Below {
    Inners(SlotLines<Inner>),
    Leaves(SlotLines<Leaf>),
}

impl Inner {
    fn empty(level: u32) -> Box<Inner> {
        let below = match level {
            1 => Below::Leaves(SlotLines::empty()),
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
            Below::Inners(slots) => slots.is_vacant(),
            Below::Leaves(slots) => slots.is_vacant(),
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
        let mut level = level_of(index);
        let mut node = self.tree(level).load(g)?;
        loop {
            match &node.below {
                Below::Leaves(slots) => return slots.at(index / FAN).load(g),
                Below::Inners(slots) => node = slots.at(index >> (BITS * level)).load(g)?,
            }
            level -= 1;
        }
    }

    /// The leaf of page `index`; it and the nodes above it are made if needed, and added to `made`.
    pub(super) fn grow<'g>(&'g self, index: u64, made: &mut u64, g: &'g Guard) -> &'g Leaf {
        let mut level = level_of(index);
        let mut node = fill(self.tree(level), || Inner::empty(level), made, g);
        loop {
            match &node.below {
                Below::Leaves(slots) => return grow_leaf(slots.at(index / FAN), made, g),
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

    /// Passes every leaf that has pages in `range` to `visit`, and drops those for which it returns
    /// true, with the nodes that become empty. Only with the gate closed.
    pub(super) fn sweep(&self, range: &Range<u64>, g: &Guard, visit: &mut Visit<'_>) {
        for level in 1..=LEVELS as u32 {
            if is_in_tree(level, range) {
                sweep_inner(self.tree(level), level, 0, range, g, visit);
            }
        }
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

/// Gets a leaf and its first index; true drops the leaf.
pub(super) type Visit<'v> = dyn FnMut(u64, &Leaf) -> bool + 'v;

/// Passes the leaf in `slot`, if any, to `visit`.
pub(super) fn sweep_leaf(slot: &RcuSlot<Leaf>, base: u64, g: &Guard, visit: &mut Visit<'_>) {
    if slot.load(g).is_some_and(|leaf| visit(base, leaf)) {
        slot.take(g);
    }
}

/// Empties the slots in `range` of a leaf that starts at `base`; true when the leaf is of no more
/// use. PageMiss pages below `unknown_below` are marked as holes, because an unset state means
/// unknown there.
pub(super) fn cut_leaf(
    leaf: &Leaf,
    base: u64,
    range: &Range<u64>,
    unknown_below: u64,
    g: &Guard,
    cut: &mut u64,
) -> bool {
    let part = base.max(range.start)..(base + FAN).min(range.end);
    if part == (base..base + FAN) && base >= unknown_below {
        // All at once: readers that hold the leaf still see its pages from before.
        let slots = || part.clone().map(|index| leaf.slot(index));
        *cut += slots().filter(|slot| slot.is_allocated(g)).count() as u64;
        let resident = slots().filter(|slot| slot.page(g).is_some()).count();
        epoch::account(resident * Page::SIZE, g);
        return true;
    }
    for index in part {
        let state = if index < unknown_below {
            SlotState::Hole
        } else {
            SlotState::Unset
        };
        *cut += u64::from(leaf.slot(index).clear(state, g));
    }
    leaf.is_vacant()
}

/// True when a leaf may go because nothing is in it.
pub(super) fn is_vacant(_base: u64, leaf: &Leaf) -> bool {
    leaf.is_vacant()
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

/// The leaf in `slot`, made if needed, and then added to `made`.
pub(super) fn grow_leaf<'g>(slot: &'g RcuSlot<Leaf>, made: &mut u64, g: &'g Guard) -> &'g Leaf {
    fill(slot, Leaf::empty, made, g)
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
            Below::Leaves(slots) => slots.at(at).load(g).map(Leaf::resident).unwrap_or_default(),
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
        Below::Leaves(slots) => later.find_map(|(at, base)| Some((base, slots.at(at).load(g)?))),
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
            Below::Leaves(slots) => sweep_leaf(slots.at(at), base + at * step, g, visit),
            Below::Inners(slots) => {
                sweep_inner(slots.at(at), level - 1, base + at * step, range, g, visit);
            }
        }
    }
    if node.is_vacant() {
        slot.take(g);
    }
}
