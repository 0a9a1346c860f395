//! Where accesses are counted: a slot per (file, range) and core, and what happens when two want
//! the same slot. Who may write what is in `docs/design/heat.md`.

use super::key::{Access, Key};
use super::sample_budget::{BudgetRate, RecordedCounts, SampleBudget};
use super::score::Counts;
use super::slot::{BUSY, ENDED, FREE, OverflowEntry, Slot, bump};
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};

/// Lines of a core; a power of two. A model checker sees the same with few.
const SLOTS: usize = if cfg!(feature = "shuttle") { 4 } else { 1024 };
/// Lines that a core's ring holds; a power of two.
const RING: usize = if cfg!(feature = "shuttle") { 32 } else { 4096 };
/// How many entries of its ring a core may fill before its accesses are sampled. An entry costs
/// some two microseconds in all, so at this rate they take a thousandth of a core.
const ENTRIES: BudgetRate = BudgetRate {
    most: RING as u64 / if cfg!(feature = "shuttle") { 2 } else { 4 },
    per_second: 320,
    step: RING as u64 / if cfg!(feature = "shuttle") { 8 } else { 256 },
};
/// How many accesses it may record before. One costs some 25 nanoseconds, more if cold.
const RECORDS: BudgetRate = BudgetRate {
    most: 1 << 14,
    per_second: 5120,
    step: 1 << 7,
};
/// Bytes of a range, as a shift.
pub(crate) const RANGE_SHIFT: u32 = 20;

/// What follows from an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recording {
    /// Of how many accesses from here on one should be recorded.
    pub weight: u64,
    /// From now on accesses are sampled: somebody should drain.
    pub drain_requested: bool,
}

/// What follows from the end of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndNotice {
    /// There was room for word of it.
    pub is_queued: bool,
    /// Somebody should drain.
    pub drain_requested: bool,
}

/// The slots and rings of every core.
pub(crate) struct PerCpuTable {
    cpus: PerCpu<CpuTable>,
}

/// What a drain has seen of each slot. One for each [`Cells`].
pub(crate) struct DrainProgress(Vec<SeenSlot>);

#[derive(Clone, Copy, Default)]
struct SeenSlot {
    /// Turn of the tenancy; 0 for none.
    version: u64,
    counts: Counts,
}

struct CpuTable {
    /// Arrays, so that a masked index needs no check.
    slots: Box<[Slot; SLOTS]>,
    ring: Box<[OverflowEntry; RING]>,
    /// Where this core puts the next slot. Relaxed: written by this core alone; `state` of the
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

/// What the last drain has left. On a slot of its own: drain writes it.
#[repr(align(64))]
struct Tail {
    /// How far it has taken the ring.
    ring: AtomicU64,
    /// What may be recorded and entered from here on.
    records: SampleBudget,
    entries: SampleBudget,
}

/// What a drain finds.
pub(crate) enum Drained<'a> {
    /// Accesses to a range.
    Counts(Key, &'a Counts),
    /// The file of the key has ended. Whether records of it may lie striped.
    Ended(Key, bool),
}

/// The slot that a key wants.
#[inline]
fn slot_of(key: Key) -> usize {
    key.mixed() & (SLOTS - 1)
}

impl PerCpuTable {
    pub fn new() -> PerCpuTable {
        PerCpuTable {
            cpus: PerCpu::new(|_| CpuTable::new()),
        }
    }

    /// Counts an access of `bytes` that stands for `weight` accesses.
    #[inline]
    pub fn note(&self, key: Key, access: Access, weight: u64, bytes: u64) -> Recording {
        let cpu = self.cpus.get();
        let slot = &cpu.slots[slot_of(key)];
        if slot.is_of(key) {
            slot.count(access, weight, bytes);
        } else {
            cpu.miss(key, access, weight, bytes);
        }
        let weight = cpu.record(weight);
        Recording {
            weight,
            drain_requested: weight > 1,
        }
    }

    /// Leaves word that a file has ended, where there is room.
    pub fn end(&self, file: Key, striped: bool) -> EndNotice {
        self.cpus.get().end(file, striped)
    }

    /// Shows `see` every count, and every end of a file, that has come since the last drain with
    /// the same `seen`.
    pub fn drain(&self, seen: &mut DrainProgress, mut see: impl FnMut(Drained<'_>)) {
        for (cpu, seen) in self.cpus.iter().zip(seen.0.chunks_mut(SLOTS)) {
            cpu.drain_ring(seen, &mut see);
            cpu.drain_slots(seen, &mut see);
        }
    }

    /// A period of `millis` is over. Whether what threads have drawn should end: a core needs less
    /// of a sample from here on.
    pub fn renew(&self, millis: u64) -> bool {
        let renewed = self.cpus.iter().map(|cpu| cpu.renew(millis));
        renewed.fold(false, |any, ends| any | ends)
    }

    /// Whether a core began the period with a sample.
    pub fn is_sampled(&self) -> bool {
        let mut tails = self.cpus.iter().map(|cpu| &cpu.tail);
        tails.any(|tail| tail.records.is_sampled() || tail.entries.is_sampled())
    }

    /// Accesses that found no room.
    pub fn dropped(&self) -> u64 {
        self.sum(|cpu| &cpu.dropped)
    }

    /// What was recorded in all.
    pub fn recorded(&self) -> RecordedCounts {
        RecordedCounts {
            times: self.sum(|cpu| &cpu.recorded),
            stood: self.sum(|cpu| &cpu.stood),
        }
    }

    /// Bytes that table and rings take, and what drains have seen of them.
    pub fn bytes(&self) -> u64 {
        let slot = size_of::<Slot>() + size_of::<SeenSlot>();
        let of_core = SLOTS * slot + RING * size_of::<OverflowEntry>();
        (self.cpus.iter().count() * of_core) as u64
    }

    fn sum(&self, word: impl Fn(&CpuTable) -> &AtomicU64) -> u64 {
        // Relaxed: a statistic.
        let words = self
            .cpus
            .iter()
            .map(|cpu| word(cpu).load(Ordering::Relaxed));
        words.sum()
    }

    /// Nothing seen yet.
    pub fn seen(&self) -> DrainProgress {
        DrainProgress(vec![SeenSlot::default(); SLOTS * self.cpus.iter().count()])
    }
}

impl CpuTable {
    fn new() -> CpuTable {
        CpuTable {
            slots: array(),
            ring: array(),
            head: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            stood: AtomicU64::new(0),
            entered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            tail: Tail {
                ring: AtomicU64::new(0),
                records: SampleBudget::full(&RECORDS),
                entries: SampleBudget::full(&ENTRIES),
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
        let of = |times: u64, stood: &AtomicU64| RecordedCounts {
            times,
            stood: stood.load(Ordering::Relaxed),
        };
        let recorded = of(self.recorded.load(Ordering::Relaxed), &self.stood);
        let entered = of(head, &self.entered);
        let by_records = self.tail.records.renew(&RECORDS, recorded, millis);
        let by_entries = self.tail.entries.renew(&ENTRIES, entered, millis);
        by_records | by_entries
    }

    /// The slot is somebody else's: takes it, if there is room for what it holds.
    #[inline(never)]
    fn miss(&self, key: Key, access: Access, weight: u64, bytes: u64) {
        let (head, _) = self.place();
        let index = slot_of(key);
        let slot = &self.slots[index];
        let Some(version) = slot.begin_change() else {
            return self.drop_accesses(weight);
        };
        let is_free = slot.is_free();
        let room = is_free || self.overflow(head, index, version, slot);
        if room {
            slot.become_of(key);
            slot.count(access, weight, bytes);
        } else {
            self.drop_accesses(weight);
        }
        if room && !is_free {
            bump(&self.entered, weight);
        }
        slot.end_change(if room { version + 2 } else { version });
    }

    fn drop_accesses(&self, weight: u64) {
        // Relaxed: a statistic.
        self.dropped.fetch_add(weight, Ordering::Relaxed);
    }

    fn end(&self, file: Key, striped: bool) -> EndNotice {
        let (head, fill) = self.place();
        let is_queued = fill < RING / 4
            && self.enter(head, ENDED, |entry| {
                entry.ino.store(file.ino, Ordering::Relaxed);
                entry.place.store(file.place, Ordering::Relaxed);
                entry.reads.store(u64::from(striped), Ordering::Relaxed);
            });
        EndNotice {
            is_queued,
            drain_requested: fill >= RING / 4 || self.tail.entries.weight(&ENTRIES, head) > 1,
        }
    }

    /// Where the next entry goes, and how many wait. A thread that loses the core between an entry
    /// and its count leaves `head` behind what a drain has read meanwhile.
    fn place(&self) -> (u64, usize) {
        // Relaxed: an old `tail` only makes the ring look fuller, an old `head` meets entries that
        // are not free.
        let tail = self.tail.ring.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Relaxed).max(tail);
        (head, (head - tail) as usize)
    }

    /// Puts what `slot` holds into the ring; false if the ring is full.
    fn overflow(&self, head: u64, index: usize, version: u64, slot: &Slot) -> bool {
        self.enter(head, version << 10 | index as u64, |entry| entry.put(slot))
    }

    /// Fills the next entry of the ring; false if that is not free.
    fn enter(&self, head: u64, state: u64, fill: impl FnOnce(&OverflowEntry)) -> bool {
        let entry = &self.ring[head as usize & (RING - 1)];
        // Acquire: pairs with the Release of `drain_ring`, which has read the entry before.
        let free = entry
            .state
            .compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if !free {
            return false;
        }
        // Relaxed: published by the Release below.
        fill(entry);
        // Release: pairs with the Acquire of `drain_ring`.
        entry.state.store(state, Ordering::Release);
        // Relaxed: a hint. Never back: another thread of this core may have gone on.
        self.head.fetch_max(head + 1, Ordering::Relaxed);
        true
    }

    fn drain_ring(&self, seen: &mut [SeenSlot], see: &mut impl FnMut(Drained<'_>)) {
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
                see(Drained::Ended(key, counts.reads != 0));
                continue;
            }
            let seen = &mut seen[state as usize & (SLOTS - 1)];
            let before = match seen.version == state >> 10 {
                true => std::mem::take(seen).counts,
                false => Counts::default(),
            };
            credit_new(key, &counts.since(&before), see);
        }
    }

    fn drain_slots(&self, seen: &mut [SeenSlot], see: &mut impl FnMut(Drained<'_>)) {
        for (slot, seen) in self.slots.iter().zip(seen.iter_mut()) {
            let Some((version, key, counts)) = slot.look() else {
                continue;
            };
            if seen.version == 0 {
                seen.version = version;
            }
            // Otherwise the ring has, or will have, what the earlier tenant counted.
            if seen.version == version {
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

fn credit_new(key: Key, counts: &Counts, see: &mut impl FnMut(Drained<'_>)) {
    if !counts.is_empty() {
        see(Drained::Counts(key, counts));
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
#[path = "percpu_tests.rs"]
mod tests;
