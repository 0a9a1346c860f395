//! The recorder of one thread: its cells, one per call site.
//!
//! | who | does | ordering | partner |
//! |---|---|---|---|
//! | owner | ends a session: the number becomes 0 | Relaxed, Release fence | a snapshot's fence |
//! | owner | clears and fills cells | Relaxed | the fences around |
//! | owner | begins a session: stores its number | Release | a snapshot's first load |
//! | snapshot | first load of the number | Acquire | the owner's store |
//! | snapshot | second load | Acquire fence, Relaxed | the owner's Release fence |
//!
//! A snapshot that copied a cell that was cleared for a later session sees that the number has
//! changed.

use super::counts::{Counts, Key};
use crate::primitive::OnceLock;
use crate::primitive::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Cells of a recorder: the number of call sites that one thread may use.
const CELLS: usize = if cfg!(any(feature = "loom", feature = "shuttle")) {
    2
} else {
    256
};

/// No session.
const NONE: u32 = 0;

/// One thread's cells. Only the owner calls the methods that change it.
#[derive(Debug)]
pub struct Recorder {
    /// The session that the cells belong to, or [`NONE`].
    session: AtomicU32,
    /// Requests that found no cell.
    lost: AtomicU64,
    cells: Box<[SiteCell]>,
}

/// Two cache lines, so that no two recorders share one.
#[derive(Debug, Default)]
#[repr(align(128))]
struct SiteCell {
    /// The key of the cell; set once, by the owner.
    key: OnceLock<Key>,
    /// In the order of the fields of [`Counts`].
    numbers: [AtomicU64; NUMBERS],
}

const NUMBERS: usize = 9;

/// The index of a cell in its recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteIndex(usize);

impl Recorder {
    /// Empty cells that belong to no session.
    #[expect(clippy::new_without_default, reason = "24 KiB are no default")]
    pub fn new() -> Recorder {
        Recorder {
            session: AtomicU32::new(NONE),
            lost: AtomicU64::new(0),
            cells: (0..CELLS).map(|_| SiteCell::default()).collect(),
        }
    }

    /// The session of the cells.
    pub fn session(&self) -> u32 {
        // Relaxed: the owner wrote it.
        self.session.load(Ordering::Relaxed)
    }

    /// Clears all cells, which belong to `session` from here on. Called by the owner.
    pub fn begin(&self, session: u32) {
        // Relaxed: ordered before the clearing by the fence.
        self.session.store(NONE, Ordering::Relaxed);
        // Release: pairs with the Acquire fence in `copy`: a snapshot that copies a cleared cell
        // sees that the session has ended.
        fence(Ordering::Release);
        // Relaxed: counts, published by the session.
        self.lost.store(0, Ordering::Relaxed);
        for number in self.cells.iter().flat_map(|cell| &cell.numbers) {
            number.store(0, Ordering::Relaxed);
        }
        // Release: pairs with the first load in `copy`: the cells are clear.
        self.session.store(session, Ordering::Release);
    }

    /// The cell of `key`. `None` when all cells are in use; then `requests` are counted as lost.
    /// Called by the owner.
    pub fn site(&self, key: &Key, requests: u64) -> Option<SiteIndex> {
        let site = std::ptr::from_ref(key.site).addr();
        let first = (site >> 3) ^ (key.class.as_ptr().addr() >> 4) ^ key.side as usize;
        for step in 0..self.cells.len() {
            let index = (first + step) % self.cells.len();
            let cell = &self.cells[index];
            if let Some(taken) = cell.key.get() {
                if taken.is(key) {
                    return Some(SiteIndex(index));
                }
            } else if cell.key.set(*key).is_ok() {
                return Some(SiteIndex(index));
            }
        }
        bump(&self.lost, requests);
        None
    }

    /// Adds to a cell. Called by the owner.
    pub fn add(&self, index: SiteIndex, counts: &Counts) {
        let numbers = &self.cells[index.0].numbers;
        let [sums @ .., _, _, _] = numbers;
        let [_, _, _, _, _, _, hold_max, wait, wait_max] = numbers;
        let [free, waited, refused, bounced, timed, hold] = sums;
        for (number, more) in [
            (free, counts.free),
            (waited, counts.waited),
            (refused, counts.refused),
            (bounced, counts.bounced),
            (timed, counts.timed),
            (hold, counts.hold_ns),
            (wait, counts.wait_ns),
        ] {
            if more != 0 {
                bump(number, more);
            }
        }
        raise(hold_max, counts.hold_ns_max);
        raise(wait_max, counts.wait_ns_max);
    }

    /// All cells in use and the number of lost requests, if they belong to `session`. Called by any
    /// thread.
    pub fn copy(&self, session: u32) -> Option<(Vec<(Key, Counts)>, u64)> {
        // Acquire: pairs with the Release in `begin`.
        if self.session.load(Ordering::Acquire) != session {
            return None;
        }
        // Relaxed: a count.
        let lost = self.lost.load(Ordering::Relaxed);
        let cells = self
            .cells
            .iter()
            .filter_map(|cell| Some((*cell.key.get()?, cell.counts())))
            .filter(|(_, counts)| *counts != Counts::default())
            .collect();
        // Acquire: pairs with the Release fence in `begin`.
        fence(Ordering::Acquire);
        // Relaxed: the fence orders it after the cells.
        (self.session.load(Ordering::Relaxed) == session).then_some((cells, lost))
    }
}

impl Key {
    /// Compares addresses: a name or call site that the compiler has duplicated takes two cells,
    /// and snapshots add them up.
    fn is(&self, other: &Key) -> bool {
        std::ptr::eq(self.site, other.site)
            && std::ptr::eq(self.class, other.class)
            && self.side == other.side
    }
}

impl SiteCell {
    fn counts(&self) -> Counts {
        // Relaxed: each is a count of its own.
        let [
            free,
            waited,
            refused,
            bounced,
            timed,
            hold_ns,
            hold_ns_max,
            wait_ns,
            wait_ns_max,
        ] = self.numbers.each_ref().map(|n| n.load(Ordering::Relaxed));
        Counts {
            free,
            waited,
            refused,
            bounced,
            timed,
            hold_ns,
            hold_ns_max,
            wait_ns,
            wait_ns_max,
        }
    }
}

/// Adds without a read-modify-write: only the owner writes.
fn bump(number: &AtomicU64, more: u64) {
    // Relaxed: see `SiteCell::counts`.
    number.store(number.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

fn raise(number: &AtomicU64, to: u64) {
    // Relaxed: see `SiteCell::counts`.
    if number.load(Ordering::Relaxed) < to {
        number.store(to, Ordering::Relaxed);
    }
}
