//! Per-CPU table of access counts, direct-mapped by (file, range), with an overflow ring for slots
//! that lose their place. `docs/design/heat.md` says which thread may write what.

use super::key::{Access, Key};
use super::recording::{Due, ENTRIES, EndNotice, RECORDS, RING, Recording};
use super::sample_budget::{RecordedCounts, SampleBudget};
use super::score::Counts;
use super::slot::{BUSY, ENDED, FREE, OverflowEntry, Slot, bump};
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};

/// Slots of a CPU; a power of two. Few are enough for a model checker.
const SLOTS: usize = if cfg!(feature = "shuttle") { 4 } else { 1024 };
/// Bytes of a range, as a shift.
pub(crate) const RANGE_SHIFT: u32 = 20;

/// The slots and rings of all CPUs.
pub(crate) struct PerCpuTable {
    cpus: PerCpu<CpuTable>,
}

/// What drains have taken from each slot so far. One for each [`PerCpuTable`].
pub(crate) struct DrainProgress(Vec<SeenSlot>);

#[derive(Clone, Copy, Default)]
struct SeenSlot {
    /// Version of the slot at that time; 0 for none.
    version: u64,
    counts: Counts,
}

struct CpuTable {
    /// Arrays, so that a masked index needs no check.
    slots: Box<[Slot; SLOTS]>,
    ring: Box<[OverflowEntry; RING]>,
    /// Index of the next entry of the ring. Relaxed: written by this CPU alone; the `state` of the
    /// entries orders.
    head: AtomicU64,
    /// Number of recordings, and the number of accesses that they stand for.
    recorded: AtomicU64,
    stood: AtomicU64,
    /// Number of entries of the ring, with those that it had no room for, and the number of
    /// accesses that they stand for.
    entries: AtomicU64,
    entered: AtomicU64,
    /// Accesses that were dropped because the ring was full.
    dropped: AtomicU64,
    tail: Tail,
}

/// What the last drain left. Own cache line: drains write it.
#[repr(align(64))]
struct Tail {
    /// How far the ring is drained.
    ring: AtomicU64,
    /// How much may be recorded and entered from here on.
    records: SampleBudget,
    entries: SampleBudget,
}

/// An item that a drain takes out.
pub(crate) enum Drained<'a> {
    /// Accesses to a range.
    Counts(Key, &'a Counts),
    /// The file of the key has ended. True if its records may be striped over all shards.
    Ended(Key, bool),
}

/// The index of the slot for a key.
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
        let is_counted = if slot.is_of(key) {
            slot.count(access, weight, bytes);
            true
        } else {
            cpu.miss(key, access, weight, bytes)
        };
        let (next, due) = cpu.record(weight);
        Recording {
            weight: next,
            due,
            is_lost: !is_counted,
        }
    }

    /// Says that accesses were dropped.
    pub fn drop_accesses(&self, times: u64) {
        self.cpus.get().drop_accesses(times);
    }

    /// Queues a notice that a file has ended, if the ring has space.
    pub fn end(&self, file: Key, striped: bool) -> EndNotice {
        self.cpus.get().end(file, striped)
    }

    /// Calls `see` with all counts, and all ends of files, since the last drain with the same
    /// `seen`.
    pub fn drain(&self, seen: &mut DrainProgress, mut see: impl FnMut(Drained<'_>)) {
        for (cpu, seen) in self.cpus.iter().zip(seen.0.chunks_mut(SLOTS)) {
            cpu.drain_ring(seen, &mut see);
            cpu.drain_slots(seen, &mut see);
        }
    }

    /// Ends a period of `millis`. True if the sampling epoch should end: some CPU can sample more
    /// densely from here on.
    pub fn renew(&self, millis: u64) -> bool {
        let renewed = self.cpus.iter().map(|cpu| cpu.renew(millis));
        renewed.fold(false, |any, ends| any | ends)
    }

    /// Whether some CPU began the period with sampling.
    pub fn is_sampled(&self) -> bool {
        let mut tails = self.cpus.iter().map(|cpu| &cpu.tail);
        tails.any(|tail| tail.records.is_sampled() || tail.entries.is_sampled())
    }

    /// Accesses that were dropped because a ring was full.
    pub fn dropped(&self) -> u64 {
        self.sum(|cpu| &cpu.dropped)
    }

    /// The sum of all recordings.
    pub fn recorded(&self) -> RecordedCounts {
        RecordedCounts {
            times: self.sum(|cpu| &cpu.recorded),
            stood: self.sum(|cpu| &cpu.stood),
        }
    }

    /// Bytes of slots, rings, and the state that drains keep of them.
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
            entries: AtomicU64::new(0),
            entered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            tail: Tail {
                ring: AtomicU64::new(0),
                records: SampleBudget::full(&RECORDS),
                entries: SampleBudget::full(&ENTRIES),
            },
        }
    }

    /// Accounts a recording of `weight` accesses; returns how many the next one should stand for,
    /// and whether a drain is due.
    #[inline(always)]
    fn record(&self, weight: u64) -> (u64, Due) {
        bump(&self.recorded, 1);
        bump(&self.stood, weight);
        let (_, fill) = self.place();
        let entries = self.entries.load(Ordering::Relaxed);
        let recorded = self.recorded.load(Ordering::Relaxed);
        let by_records = self.tail.records.weight(&RECORDS, recorded);
        let next = by_records.max(self.tail.entries.weight(&ENTRIES, entries));
        let due = if fill >= RING / 4 {
            Due::Now
        } else if next > 1 || self.tail.records.is_half_used(&RECORDS, recorded) {
            Due::Soon
        } else {
            Due::No
        };
        (next, due)
    }

    /// See [`PerCpuTable::renew`].
    fn renew(&self, millis: u64) -> bool {
        let of = |times: u64, stood: &AtomicU64| RecordedCounts {
            times,
            stood: stood.load(Ordering::Relaxed),
        };
        let recorded = of(self.recorded.load(Ordering::Relaxed), &self.stood);
        let entered = of(self.entries.load(Ordering::Relaxed), &self.entered);
        let by_records = self.tail.records.renew(&RECORDS, recorded, millis);
        let by_entries = self.tail.entries.renew(&ENTRIES, entered, millis);
        by_records | by_entries
    }

    /// Takes over a slot of another key, if the ring has space for its counts; otherwise the access
    /// is not counted here.
    #[inline(never)]
    fn miss(&self, key: Key, access: Access, weight: u64, bytes: u64) -> bool {
        let (head, _) = self.place();
        let index = slot_of(key);
        let slot = &self.slots[index];
        let Some(version) = slot.begin_takeover() else {
            return false;
        };
        let is_free = slot.is_free();
        let room = is_free || self.overflow(head, index, version, slot);
        if room {
            slot.assign(key);
            slot.count(access, weight, bytes);
        }
        if !is_free {
            bump(&self.entries, 1);
            bump(&self.entered, weight);
        }
        slot.end_takeover(if room { version + 2 } else { version });
        room
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
        if is_queued {
            bump(&self.entries, 1);
        }
        let entries = self.entries.load(Ordering::Relaxed);
        EndNotice {
            is_queued,
            drain_requested: fill >= RING / 4 || self.tail.entries.weight(&ENTRIES, entries) > 1,
        }
    }

    /// Index of the next entry, and the number of entries not drained. A thread that is preempted
    /// between an entry and its count leaves `head` behind what a drain has read meanwhile.
    fn place(&self) -> (u64, usize) {
        // Relaxed: an old `tail` only makes the ring look fuller, an old `head` meets entries that
        // are not free.
        let tail = self.tail.ring.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Relaxed).max(tail);
        (head, (head - tail) as usize)
    }

    /// Moves the counts of `slot` into the ring; false if the ring is full.
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
        // Relaxed: a hint. Never decreased: another thread of this CPU may have advanced it.
        self.head.fetch_max(head + 1, Ordering::Relaxed);
        true
    }

    fn drain_ring(&self, seen: &mut [SeenSlot], see: &mut impl FnMut(Drained<'_>)) {
        let mut tail = self.tail.ring.load(Ordering::Relaxed);
        loop {
            let entry = &self.ring[tail as usize & (RING - 1)];
            // Acquire: pairs with the Release of `enter`.
            let state = entry.state.load(Ordering::Acquire);
            if state == FREE || state == BUSY {
                break;
            }
            let (key, counts) = entry.get();
            // Release: pairs with the Acquire of `enter`.
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
            let Some((version, key, counts)) = slot.read() else {
                continue;
            };
            if seen.version == 0 {
                seen.version = version;
            }
            // Otherwise the counts of the former key are, or will be, in the ring.
            if seen.version == version {
                credit_new(key, &counts.since(&seen.counts), see);
                seen.counts = counts;
            }
        }
    }
}

/// `N` defaults, made in place on the heap.
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
