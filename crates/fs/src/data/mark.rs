//! What is known of pages that are not in memory, four bits a page.

use hearth_sync::primitive::atomic::{AtomicU64, Ordering};

/// What an empty page slot means. While the slot is filled its mark means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mark {
    /// Nothing was noted: a hole, or unknown below `Status::unknown_below`.
    Nothing = 0,
    /// The backend said, or an operation made it so: a hole.
    Hole = 1,
    /// Allocated; the backend has the content.
    Held = 2,
    /// Allocated and never written: zeros. The backend knows.
    Blank = 3,
    /// As `Blank`, but the backend has not been told.
    Fresh = 4,
}

impl Mark {
    /// Whether the page counts as allocated though it is not in memory.
    pub(super) fn is_allocated(self) -> bool {
        matches!(self, Mark::Held | Mark::Blank | Mark::Fresh)
    }

    fn of(nibble: u64) -> Mark {
        match nibble {
            0 => Mark::Nothing,
            1 => Mark::Hole,
            2 => Mark::Held,
            3 => Mark::Blank,
            4 => Mark::Fresh,
            other => unreachable!("no mark is written as {other}"),
        }
    }
}

/// Marks that one word holds.
pub(super) const MARKS: usize = 16;

/// Where the mark of one page lies.
///
/// All accesses are Relaxed: a mark carries no data, and its order against the page slot comes
/// from the slot. Whoever empties a slot sets the mark first and swaps the slot (AcqRel) after;
/// a reader that finds the slot empty by that swap (Acquire) therefore finds this mark or a
/// later one.
#[derive(Clone, Copy)]
pub(super) struct Spot<'g> {
    word: &'g AtomicU64,
    shift: u32,
}

impl<'g> Spot<'g> {
    pub(super) fn new(word: &'g AtomicU64, place: usize) -> Spot<'g> {
        debug_assert!(place < MARKS);
        Spot {
            word,
            shift: place as u32 * 4,
        }
    }

    pub(super) fn get(self) -> Mark {
        Mark::of(self.word.load(Ordering::Relaxed) >> self.shift & 15)
    }

    /// Changes the mark; writes nothing when it is there already.
    pub(super) fn set(self, mark: Mark) {
        let _ = self.change(|old| (old != mark).then_some(mark));
    }

    /// Changes the mark from `from` to `to`, unless it is another one.
    pub(super) fn replace(self, from: Mark, to: Mark) -> bool {
        self.change(|old| (old == from).then_some(to))
    }

    /// The other marks of the word may change at the same time, hence compare and exchange.
    fn change(self, new: impl Fn(Mark) -> Option<Mark>) -> bool {
        self.word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                let mark = new(Mark::of(word >> self.shift & 15))?;
                Some(word & !(15 << self.shift) | (mark as u64) << self.shift)
            })
            .is_ok()
    }
}

/// What is known of a whole file, in one word: bits 0..=51 `unknown_below`, bit 52 `PARTIAL`,
/// bits 60..=63 the mark of page 0.
///
/// Relaxed as in [`Spot`]: changed only with the gate closed (except the mark of page 0), always
/// before the slot whose emptiness it explains is swapped to null.
pub(super) struct Status(AtomicU64);

/// Some page's content is at the backend only.
const PARTIAL: u64 = 1 << 52;
const BELOW: u64 = PARTIAL - 1;
const FIRST: usize = 15;

impl Status {
    /// Every page below `unknown_below` that has no mark is unknown; past it, a hole.
    pub(super) fn new(unknown_below: u64) -> Status {
        debug_assert!(unknown_below <= BELOW);
        Status(AtomicU64::new(unknown_below))
    }

    pub(super) fn unknown_below(&self) -> u64 {
        self.0.load(Ordering::Relaxed) & BELOW
    }

    /// From page `limit` on, a page without a mark is a hole.
    pub(super) fn lower(&self, limit: u64) {
        self.change(|word| word & !BELOW | (word & BELOW).min(limit));
    }

    /// Whether an absent page is a hole, wherever it is.
    pub(super) fn is_complete(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (BELOW | PARTIAL) == 0
    }

    /// Pages will be absent though they have content.
    pub(super) fn set_partial(&self) {
        self.change(|word| word | PARTIAL);
    }

    /// No page is left, here or at the backend.
    pub(super) fn clear(&self) {
        self.change(|word| word & !(PARTIAL | BELOW));
    }

    /// The mark of page 0.
    pub(super) fn first(&self) -> Spot<'_> {
        Spot::new(&self.0, FIRST)
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
