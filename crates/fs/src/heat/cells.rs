//! Where accesses are counted: a line per (file, range) and core, and what happens when two want
//! the same line. Who may write what is in `docs/design/heat.md`.

use super::allowance::Allowance;
use super::key::{Access, Key};
use super::line::{BUSY, ENDED, FREE, Line, Spilled, bump};
use super::warmth::Counts;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use hearth_sync::spread::PerCore;

/// Lines of a core; a power of two. A model checker sees the same with few.
const LINES: usize = if cfg!(feature = "shuttle") { 4 } else { 1024 };
/// Lines that a core's ring holds; a power of two.
const RING: usize = if cfg!(feature = "shuttle") { 32 } else { 4096 };
/// How many entries of its ring a core may fill before its accesses are sampled. An entry costs
/// some two microseconds in all, so at this rate they take a four hundredth of a core.
const ENTRIES: Allowance = Allowance {
    most: RING as u64 / 2,
    least: RING as u64 / if cfg!(feature = "shuttle") { 2 } else { 64 },
    per_second: 1280,
    step: RING as u64 / if cfg!(feature = "shuttle") { 8 } else { 64 },
};
/// How many accesses it may record before. One costs some 25 nanoseconds.
const RECORDS: Allowance = Allowance {
    most: 1 << 14,
    least: 1 << 10,
    per_second: 40_960,
    step: 1 << 10,
};
/// Bytes of a range, as a shift.
pub(crate) const RANGE_SHIFT: u32 = 20;

/// What follows from an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Of how many accesses from here on one should be recorded.
    pub weight: u64,
    /// From now on accesses are sampled: somebody should fold.
    pub is_pressed: bool,
}

/// What follows from the end of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// There was room for word of it.
    pub is_told: bool,
    /// Somebody should fold.
    pub is_pressed: bool,
}

/// The lines and rings of every core.
pub(crate) struct Cells {
    cores: PerCore<CoreCells>,
}

/// What a fold has seen of each line. One for each [`Cells`].
pub(crate) struct Seen(Vec<SeenLine>);

#[derive(Clone, Copy, Default)]
struct SeenLine {
    /// Turn of the tenancy; 0 for none.
    turn: u64,
    counts: Counts,
}

struct CoreCells {
    /// Arrays, so that a masked index needs no check.
    lines: Box<[Line; LINES]>,
    ring: Box<[Spilled; RING]>,
    /// Where this core puts the next line. Relaxed: written by this core alone; `state` of the
    /// entries is what orders.
    head: AtomicU64,
    /// Accesses recorded.
    recorded: AtomicU64,
    dropped: AtomicU64,
    tail: Tail,
}

/// What the last fold has left. On a line of its own: fold writes it.
#[repr(align(64))]
struct Tail {
    /// How far it has taken the ring.
    ring: AtomicU64,
    /// How many accesses were recorded before it. Relaxed: hints, as those below.
    recorded: AtomicU64,
    /// What may be recorded one by one until the next.
    entries_allowed: AtomicU64,
    records_allowed: AtomicU64,
}

/// What a fold finds.
pub(crate) enum Found<'a> {
    /// Accesses to a range.
    Counts(Key, &'a Counts),
    /// The file of the key has ended. Whether records of it may lie apart.
    Ended(Key, bool),
}

/// The line that a key wants.
#[inline]
fn line_of(key: Key) -> usize {
    key.mixed() & (LINES - 1)
}

impl Cells {
    pub fn new() -> Cells {
        Cells {
            cores: PerCore::new(|_| CoreCells::new()),
        }
    }

    /// Counts an access of `bytes` that stands for `weight` accesses.
    #[inline]
    pub fn note(&self, key: Key, access: Access, weight: u64, bytes: u64) -> Noted {
        let core = self.cores.get();
        let line = &core.lines[line_of(key)];
        if line.is_of(key) {
            line.count(access, weight, bytes);
        } else {
            core.miss(key, access, weight, bytes);
        }
        let weight = core.record();
        Noted {
            weight,
            is_pressed: weight > 1,
        }
    }

    /// Leaves word that a file has ended, where there is room.
    pub fn end(&self, file: Key, apart: bool) -> Ended {
        self.cores.get().end(file, apart)
    }

    /// Shows `see` every count, and every end of a file, that has come since the last fold with the
    /// same `seen`, `millis` ago. Whether a core had its accesses sampled.
    pub fn fold(&self, seen: &mut Seen, millis: u64, mut see: impl FnMut(Found<'_>)) -> bool {
        let mut was_sampled = false;
        for (core, seen) in self.cores.iter().zip(seen.0.chunks_mut(LINES)) {
            let entries = core.fold_ring(seen, &mut see);
            core.fold_lines(seen, &mut see);
            was_sampled |= core.begin_anew(entries, millis);
        }
        was_sampled
    }

    /// Accesses that found no room.
    pub fn dropped(&self) -> u64 {
        // Relaxed: a statistic.
        self.cores
            .iter()
            .map(|core| core.dropped.load(Ordering::Relaxed))
            .sum()
    }

    /// Bytes that cells and rings take.
    pub fn bytes(&self) -> u64 {
        let of_core = LINES * size_of::<Line>() + RING * size_of::<Spilled>();
        (self.cores.iter().count() * of_core) as u64
    }

    /// Nothing seen yet.
    pub fn seen(&self) -> Seen {
        Seen(vec![SeenLine::default(); LINES * self.cores.iter().count()])
    }
}

impl CoreCells {
    fn new() -> CoreCells {
        CoreCells {
            lines: array(),
            ring: array(),
            head: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            tail: Tail {
                ring: AtomicU64::new(0),
                recorded: AtomicU64::new(0),
                entries_allowed: AtomicU64::new(ENTRIES.most),
                records_allowed: AtomicU64::new(RECORDS.most),
            },
        }
    }

    /// One more recording; answers how many accesses the next one should stand for.
    #[inline(always)]
    fn record(&self) -> u64 {
        bump(&self.recorded, 1);
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        // Two threads of a core can lose a step between them.
        let recorded = load(&self.recorded).saturating_sub(load(&self.tail.recorded));
        let (_, fill) = self.place();
        let by_records = RECORDS.weight(recorded, load(&self.tail.records_allowed));
        by_records.max(ENTRIES.weight(fill as u64, load(&self.tail.entries_allowed)))
    }

    /// A fold that found so many entries is over. Whether accesses were sampled before.
    fn begin_anew(&self, entries: u64, millis: u64) -> bool {
        let all = self.recorded.load(Ordering::Relaxed);
        let recorded = all.saturating_sub(self.tail.recorded.swap(all, Ordering::Relaxed));
        let of_records = RECORDS.renew(&self.tail.records_allowed, recorded, millis);
        let of_entries = ENTRIES.renew(&self.tail.entries_allowed, entries, millis);
        of_records || of_entries
    }

    /// The line is somebody else's: takes it, if there is room for what it holds.
    #[inline(never)]
    fn miss(&self, key: Key, access: Access, weight: u64, bytes: u64) {
        let (head, _) = self.place();
        let index = line_of(key);
        let line = &self.lines[index];
        let Some(turn) = line.begin_change() else {
            return self.drop_access();
        };
        let room = line.is_free() || self.spill(head, index, turn, line);
        if room {
            line.become_of(key);
            line.count(access, weight, bytes);
        } else {
            self.drop_access();
        }
        line.end_change(if room { turn + 2 } else { turn });
    }

    fn drop_access(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self, file: Key, apart: bool) -> Ended {
        let (head, fill) = self.place();
        let is_told = fill < RING / 4
            && self.enter(head, ENDED, |entry| {
                entry.ino.store(file.ino, Ordering::Relaxed);
                entry.place.store(file.place, Ordering::Relaxed);
                entry.reads.store(u64::from(apart), Ordering::Relaxed);
            });
        let allowed = self.tail.entries_allowed.load(Ordering::Relaxed);
        Ended {
            is_told,
            is_pressed: fill >= RING / 4 || fill as u64 >= allowed,
        }
    }

    /// Where the next entry goes, and how many wait. A thread that loses the core between an entry
    /// and its count leaves `head` behind what a fold has read meanwhile.
    fn place(&self) -> (u64, usize) {
        // Relaxed: an old `tail` only makes the ring look fuller, an old `head` meets entries that
        // are not free.
        let tail = self.tail.ring.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Relaxed).max(tail);
        (head, (head - tail) as usize)
    }

    /// Puts what `line` holds into the ring; false if the ring is full.
    fn spill(&self, head: u64, index: usize, turn: u64, line: &Line) -> bool {
        self.enter(head, turn << 10 | index as u64, |entry| entry.put(line))
    }

    /// Fills the next entry of the ring; false if that is not free.
    fn enter(&self, head: u64, state: u64, fill: impl FnOnce(&Spilled)) -> bool {
        let entry = &self.ring[head as usize & (RING - 1)];
        // Acquire: pairs with the Release of `fold_ring`, which has read the entry before.
        let free = entry
            .state
            .compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if !free {
            return false;
        }
        // Relaxed: published by the Release below.
        fill(entry);
        // Release: pairs with the Acquire of `fold_ring`.
        entry.state.store(state, Ordering::Release);
        // Relaxed: a hint. Never back: another thread of this core may have gone on.
        self.head.fetch_max(head + 1, Ordering::Relaxed);
        true
    }

    /// Answers how many entries there were.
    fn fold_ring(&self, seen: &mut [SeenLine], see: &mut impl FnMut(Found<'_>)) -> u64 {
        let begin = self.tail.ring.load(Ordering::Relaxed);
        let mut tail = begin;
        loop {
            let entry = &self.ring[tail as usize & (RING - 1)];
            // Acquire: pairs with the Release of `spill`.
            let state = entry.state.load(Ordering::Acquire);
            if state == FREE || state == BUSY {
                break;
            }
            let (key, counts) = entry.get();
            // Release: pairs with the Acquire of `spill`.
            entry.state.store(FREE, Ordering::Release);
            tail += 1;
            // Relaxed: see `miss`.
            self.tail.ring.store(tail, Ordering::Relaxed);
            if state == ENDED {
                see(Found::Ended(key, counts.reads != 0));
                continue;
            }
            let seen = &mut seen[state as usize & (LINES - 1)];
            let before = match seen.turn == state >> 10 {
                true => std::mem::take(seen).counts,
                false => Counts::default(),
            };
            credit_new(key, &counts.since(&before), see);
        }
        tail - begin
    }

    fn fold_lines(&self, seen: &mut [SeenLine], see: &mut impl FnMut(Found<'_>)) {
        for (line, seen) in self.lines.iter().zip(seen.iter_mut()) {
            let Some((turn, key, counts)) = line.look() else {
                continue;
            };
            if seen.turn == 0 {
                seen.turn = turn;
            }
            // Otherwise the ring has, or will have, what the earlier tenant counted.
            if seen.turn == turn {
                credit_new(key, &counts.since(&seen.counts), see);
                seen.counts = counts;
            }
        }
    }
}

/// `N` of the kind, made where they stay.
fn array<T: Default, const N: usize>() -> Box<[T; N]> {
    let made: Box<[T]> = (0..N).map(|_| T::default()).collect();
    let made = made.try_into();
    made.unwrap_or_else(|_| unreachable!("as many were made"))
}

fn credit_new(key: Key, counts: &Counts, see: &mut impl FnMut(Found<'_>)) {
    if !counts.is_empty() {
        see(Found::Counts(key, counts));
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
#[path = "cells_tests.rs"]
mod tests;
