//! What is known of pages that are not in memory: four bits a page.

use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use std::ops::Range;

/// What an empty page slot means. While the slot is filled its state means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SlotState {
    /// Not set: a hole to the backend as well, once it has what was written around it.
    Unset = 0,
    /// A hole that an operation made, of which the backend may have to hear.
    Hole = 1,
    /// Allocated and clean; the backend has the content.
    AtBackend = 2,
    /// Allocated and never written: zeros. The backend knows.
    Unwritten = 3,
    /// Allocated and never written, and the backend has not been told.
    UnwrittenDirty = 4,
}

impl SlotState {
    /// Whether the page counts as allocated although it is not in memory.
    pub(super) fn is_allocated(self) -> bool {
        matches!(
            self,
            SlotState::AtBackend | SlotState::Unwritten | SlotState::UnwrittenDirty
        )
    }

    fn of(nibble: u64) -> SlotState {
        match nibble {
            0 => SlotState::Unset,
            1 => SlotState::Hole,
            2 => SlotState::AtBackend,
            3 => SlotState::Unwritten,
            4 => SlotState::UnwrittenDirty,
            other => unreachable!("no state is written as {other}"),
        }
    }
}

/// States in one word.
pub(super) const STATES: usize = 16;

/// The cell of one page's state.
///
/// All accesses are Relaxed: the state carries no data, and its order against the page slot comes
/// from the slot. To empty a slot, a thread first sets the state and then swaps the slot (AcqRel).
/// A reader that finds the slot empty by that swap (Acquire) therefore finds this state or a later
/// one.
#[derive(Clone, Copy)]
pub(super) struct StateCell<'g> {
    word: &'g AtomicU64,
    shift: u32,
}

impl<'g> StateCell<'g> {
    pub(super) fn new(word: &'g AtomicU64, slot: usize) -> StateCell<'g> {
        debug_assert!(slot < STATES);
        StateCell {
            word,
            shift: slot as u32 * 4,
        }
    }

    pub(super) fn get(self) -> SlotState {
        SlotState::of(self.word.load(Ordering::Relaxed) >> self.shift & 15)
    }

    /// Changes the state; writes nothing when it is there already.
    pub(super) fn set(self, state: SlotState) {
        let _ = self.change(|old| (old != state).then_some(state));
    }

    /// Changes the state from `from` to `to`, unless it is another one.
    pub(super) fn replace(self, from: SlotState, to: SlotState) -> bool {
        self.change(|old| (old == from).then_some(to))
    }

    /// The other states of the word may change at the same time, hence compare and exchange.
    fn change(self, new: impl Fn(SlotState) -> Option<SlotState>) -> bool {
        self.word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                let state = new(SlotState::of(word >> self.shift & 15))?;
                Some(word & !(15 << self.shift) | (state as u64) << self.shift)
            })
            .is_ok()
    }
}

/// Gives the cells `places` of `words` a state, where none has one yet. For words that no other
/// thread uses.
pub(super) fn fill_states(words: &[AtomicU64], places: Range<u64>, state: SlotState) {
    let each = (0..STATES).fold(0, |word, at| word | (state as u64) << (4 * at));
    for (word, first) in words.iter().zip((0..).step_by(STATES)) {
        let from = places.start.saturating_sub(first).min(STATES as u64);
        let to = places.end.saturating_sub(first).min(STATES as u64);
        if from < to {
            // Relaxed: nobody else reads it.
            let mask = u64::MAX >> (64 - 4 * (to - from)) << (4 * from);
            word.store(
                word.load(Ordering::Relaxed) | each & mask,
                Ordering::Relaxed,
            );
        }
    }
}

/// What is known of a whole file, in one word: bit 0 `PARTIAL`, bits 60..=63 the state of page 0.
///
/// Relaxed like [`StateCell`]: changed only with the gate closed (except the state of page 0), and
/// always before the slot whose emptiness it explains is swapped to null.
pub(super) struct Status(AtomicU64);

/// The content of some page is at the backend only.
const PARTIAL: u64 = 1;
const FIRST: usize = 15;

impl Status {
    /// No page is at the backend only.
    pub(super) fn new() -> Status {
        Status(AtomicU64::new(0))
    }

    /// Whether every absent page is a hole.
    pub(super) fn is_complete(&self) -> bool {
        self.0.load(Ordering::Relaxed) & PARTIAL == 0
    }

    /// Pages will be absent although they have content.
    pub(super) fn set_partial(&self) {
        self.change(|word| word | PARTIAL);
    }

    /// No page is left, in memory or at the backend.
    pub(super) fn clear(&self) {
        self.change(|word| word & !PARTIAL);
    }

    /// The state of page 0.
    pub(super) fn first(&self) -> StateCell<'_> {
        StateCell::new(&self.0, FIRST)
    }

    fn change(&self, new: impl Fn(u64) -> u64) {
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                let changed = new(word);
                (changed != word).then_some(changed)
            });
    }
}
