//! Where accesses are counted: a line per (file, range) and core, and what happens when two want
//! the same line. Who may write what is in `docs/design/heat.md`.

use super::allowance::{Allowance, Budget, Recorded};
use super::key::{Access, Key};
use super::line::{BUSY, ENDED, FREE, Line, Spilled, bump};
use super::warmth::Counts;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};

/// Lines of a core; a power of two. A model checker sees the same with few.
const LINES: usize = if cfg!(feature = "shuttle") { 4 } else { 1024 };
/// Lines that a core's ring holds; a power of two.
const RING: usize = if cfg!(feature = "shuttle") { 32 } else { 4096 };
/// How many entries of its ring a core may fill before its accesses are sampled. An entry costs
/// some two microseconds in all, so at this rate they take a thousandth of a core.
const ENTRIES: Allowance = Allowance {
    most: RING as u64 / if cfg!(feature = "shuttle") { 2 } else { 4 },
    per_second: 320,
    step: RING as u64 / if cfg!(feature = "shuttle") { 8 } else { 256 },
};
/// How many accesses it may record before. One costs some 25 nanoseconds, more if cold.
const RECORDS: Allowance = Allowance {
    most: 1 << 14,
    per_second: 5120,
    step: 1 << 7,
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
    cores: PerCpu<CoreCells>,
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
    /// Times that something was recorded, and how many accesses it stands for.
    recorded: AtomicU64,
    stood: AtomicU64,
    /// Accesses that those stand for which made an entry of the ring.
    entered: AtomicU64,
    /// Accesses that found no room.
    dropped: AtomicU64,
    tail: Tail,
}

/// What the last fold has left. On a line of its own: fold writes it.
#[repr(align(64))]
struct Tail {
    /// How far it has taken the ring.
    ring: AtomicU64,
    /// What may be recorded and entered from here on.
    records: Budget,
    entries: Budget,
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
            cores: PerCpu::new(|_| CoreCells::new()),
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
        let weight = core.record(weight);
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
    /// same `seen`.
    pub fn fold(&self, seen: &mut Seen, mut see: impl FnMut(Found<'_>)) {
        for (core, seen) in self.cores.iter().zip(seen.0.chunks_mut(LINES)) {
            core.fold_ring(seen, &mut see);
            core.fold_lines(seen, &mut see);
        }
    }

    /// A period of `millis` is over. Whether what threads have drawn should end: a core needs less
    /// of a sample from here on.
    pub fn renew(&self, millis: u64) -> bool {
        let renewed = self.cores.iter().map(|core| core.renew(millis));
        renewed.fold(false, |any, ends| any | ends)
    }

    /// Whether a core began the period with a sample.
    pub fn is_sampled(&self) -> bool {
        let mut tails = self.cores.iter().map(|core| &core.tail);
        tails.any(|tail| tail.records.is_sampled() || tail.entries.is_sampled())
    }

    /// Accesses that found no room.
    pub fn dropped(&self) -> u64 {
        self.sum(|core| &core.dropped)
    }

    /// What was recorded in all.
    pub fn recorded(&self) -> Recorded {
        Recorded {
            times: self.sum(|core| &core.recorded),
            stood: self.sum(|core| &core.stood),
        }
    }

    /// Bytes that cells and rings take, and what folds have seen of them.
    pub fn bytes(&self) -> u64 {
        let line = size_of::<Line>() + size_of::<SeenLine>();
        let of_core = LINES * line + RING * size_of::<Spilled>();
        (self.cores.iter().count() * of_core) as u64
    }

    fn sum(&self, word: impl Fn(&CoreCells) -> &AtomicU64) -> u64 {
        // Relaxed: a statistic.
        let words = self
            .cores
            .iter()
            .map(|core| word(core).load(Ordering::Relaxed));
        words.sum()
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
            stood: AtomicU64::new(0),
            entered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            tail: Tail {
                ring: AtomicU64::new(0),
                records: Budget::full(&RECORDS),
                entries: Budget::full(&ENTRIES),
            },
        }
    }

    /// One more recording, of `weight` accesses; answers how many the next one should stand for.
    #[inline(always)]
    fn record(&self, weight: u64) -> u64 {
        bump(&self.recorded, 1);
        bump(&self.stood, weight);
        let (head, _) = self.place();
        let recorded = self.recorded.load(Ordering::Relaxed);
        let by_records = self.tail.records.weight(&RECORDS, recorded);
        by_records.max(self.tail.entries.weight(&ENTRIES, head))
    }

    /// See [`Cells::renew`].
    fn renew(&self, millis: u64) -> bool {
        let (head, _) = self.place();
        let of = |times: u64, stood: &AtomicU64| Recorded {
            times,
            stood: stood.load(Ordering::Relaxed),
        };
        let recorded = of(self.recorded.load(Ordering::Relaxed), &self.stood);
        let entered = of(head, &self.entered);
        let by_records = self.tail.records.renew(&RECORDS, recorded, millis);
        let by_entries = self.tail.entries.renew(&ENTRIES, entered, millis);
        by_records | by_entries
    }

    /// The line is somebody else's: takes it, if there is room for what it holds.
    #[inline(never)]
    fn miss(&self, key: Key, access: Access, weight: u64, bytes: u64) {
        let (head, _) = self.place();
        let index = line_of(key);
        let line = &self.lines[index];
        let Some(turn) = line.begin_change() else {
            return self.drop_accesses(weight);
        };
        let is_free = line.is_free();
        let room = is_free || self.spill(head, index, turn, line);
        if room {
            line.become_of(key);
            line.count(access, weight, bytes);
        } else {
            self.drop_accesses(weight);
        }
        if room && !is_free {
            bump(&self.entered, weight);
        }
        line.end_change(if room { turn + 2 } else { turn });
    }

    fn drop_accesses(&self, weight: u64) {
        // Relaxed: a statistic.
        self.dropped.fetch_add(weight, Ordering::Relaxed);
    }

    fn end(&self, file: Key, apart: bool) -> Ended {
        let (head, fill) = self.place();
        let is_told = fill < RING / 4
            && self.enter(head, ENDED, |entry| {
                entry.ino.store(file.ino, Ordering::Relaxed);
                entry.place.store(file.place, Ordering::Relaxed);
                entry.reads.store(u64::from(apart), Ordering::Relaxed);
            });
        Ended {
            is_told,
            is_pressed: fill >= RING / 4 || self.tail.entries.weight(&ENTRIES, head) > 1,
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

    fn fold_ring(&self, seen: &mut [SeenLine], see: &mut impl FnMut(Found<'_>)) {
        let mut tail = self.tail.ring.load(Ordering::Relaxed);
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
