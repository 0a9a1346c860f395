//! A slot of counts, and an entry of the overflow ring.

use super::key::{Access, Key};
use super::score::Counts;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering, fence};

pub(super) const FREE: u64 = 0;
pub(super) const BUSY: u64 = 1;
/// A notice: the file has ended.
pub(super) const ENDED: u64 = 2;

/// Counts of one range. Its CPU writes them without a lock prefix (Relaxed load, Relaxed store).
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Slot {
    /// Odd while the slot changes its key, as in a sequence lock.
    version: AtomicU64,
    ino: AtomicU64,
    place: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    /// See [`Counts::estimated`].
    estimated: AtomicU64,
}

/// An entry of the overflow ring: the counts of a former key of a slot.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct OverflowEntry {
    /// [`FREE`], [`BUSY`], [`ENDED`], or the version of the slot with the former key, shifted up,
    /// with the index of the slot in the low bits.
    pub state: AtomicU64,
    pub ino: AtomicU64,
    pub place: AtomicU64,
    pub reads: AtomicU64,
    pub read_bytes: AtomicU64,
    pub writes: AtomicU64,
    pub written_bytes: AtomicU64,
    pub estimated: AtomicU64,
}

// Each a cache line of its own. An atomic of the model checker is larger.
#[cfg(not(feature = "shuttle"))]
const _: () = assert!(size_of::<Slot>() == 64 && size_of::<OverflowEntry>() == 64);

impl Slot {
    #[inline(always)]
    pub fn is_of(&self, key: Key) -> bool {
        // Relaxed: written by this CPU.
        self.ino.load(Ordering::Relaxed) == key.ino
            && self.place.load(Ordering::Relaxed) == key.place
    }

    /// Counts `n` accesses of `bytes` each.
    #[inline(always)]
    pub fn count(&self, access: Access, n: u64, bytes: u64) {
        let (times, sum) = match access {
            Access::Read => (&self.reads, &self.read_bytes),
            Access::Write => (&self.writes, &self.written_bytes),
        };
        bump(times, n);
        bump(sum, bytes.wrapping_mul(n));
        if n > 1 {
            bump(&self.estimated, n - 1);
        }
    }

    pub fn is_free(&self) -> bool {
        self.ino.load(Ordering::Relaxed) == 0
    }

    /// Begins a change of the key; `None` if a thread of this CPU was preempted inside one.
    pub fn begin_takeover(&self) -> Option<u64> {
        let version = self.version.load(Ordering::Relaxed);
        if !version.is_multiple_of(2) {
            return None;
        }
        self.version
            .compare_exchange(version, version + 1, Ordering::Relaxed, Ordering::Relaxed)
            .ok()?;
        // Release: pairs with the Acquire fence of `read`, which then sees the odd version.
        fence(Ordering::Release);
        Some(version)
    }

    pub fn assign(&self, key: Key) {
        for word in [
            &self.reads,
            &self.read_bytes,
            &self.writes,
            &self.written_bytes,
            &self.estimated,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        self.ino.store(key.ino, Ordering::Relaxed);
        self.place.store(key.place, Ordering::Relaxed);
    }

    pub fn end_takeover(&self, version: u64) {
        // Release: pairs with the Acquire of `read`.
        self.version.store(version, Ordering::Release);
    }

    /// Version, key and counts, read consistently; `None` if the slot is free or changes its key.
    pub fn read(&self) -> Option<(u64, Key, Counts)> {
        // Acquire: pairs with the Release of `end_takeover`.
        let version = self.version.load(Ordering::Acquire);
        let key = Key {
            ino: self.ino.load(Ordering::Relaxed),
            place: self.place.load(Ordering::Relaxed),
        };
        let counts = Counts {
            reads: self.reads.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            estimated: self.estimated.load(Ordering::Relaxed),
        };
        // Acquire: pairs with the Release fence of `begin_takeover`.
        fence(Ordering::Acquire);
        let still = self.version.load(Ordering::Relaxed) == version;
        (still && version.is_multiple_of(2) && key.ino != 0).then_some((version, key, counts))
    }
}

impl OverflowEntry {
    pub fn put(&self, line: &Slot) {
        let copy = |to: &AtomicU64, from: &AtomicU64| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        copy(&self.ino, &line.ino);
        copy(&self.place, &line.place);
        copy(&self.reads, &line.reads);
        copy(&self.read_bytes, &line.read_bytes);
        copy(&self.writes, &line.writes);
        copy(&self.written_bytes, &line.written_bytes);
        copy(&self.estimated, &line.estimated);
    }

    pub fn get(&self) -> (Key, Counts) {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let key = Key {
            ino: load(&self.ino),
            place: load(&self.place),
        };
        let counts = Counts {
            reads: load(&self.reads),
            read_bytes: load(&self.read_bytes),
            writes: load(&self.writes),
            written_bytes: load(&self.written_bytes),
            estimated: load(&self.estimated),
        };
        (key, counts)
    }
}

#[inline(always)]
pub(super) fn bump(word: &AtomicU64, by: u64) {
    // Relaxed, and no read-modify-write: only threads of one CPU write it, see the design page.
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}
