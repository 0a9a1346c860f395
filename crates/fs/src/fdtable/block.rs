//! A block: 64 neighbouring slots.

use hearth_sync::epoch::Guard;
use hearth_sync::lock::{RawGuard, RawLock};
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use hearth_sync::rcu::{Removed, Share, ShareSlot, Shared};

/// Places in one block.
pub(super) const BLOCK_SLOTS: u32 = 64;
/// Descriptors that a table can have at most, whatever its limit is set to.
pub const FDS_MAX: u32 = 1 << 20;
/// Blocks that a table can have at most.
pub(super) const BLOCKS_MAX: u32 = FDS_MAX / BLOCK_SLOTS + 1;

/// The slot of a descriptor: one further on, because slot 0 is none. Its bit in the first block is
/// that block's lock (see `first_word.rs`).
pub(super) const fn slot(fd: u32) -> u32 {
    fd + 1
}

/// The descriptor of a slot.
pub(super) const fn descriptor(slot: u32) -> u32 {
    slot - 1
}

/// The states of a descriptor: *free* (bit clear, slot empty), *reserved* (bit set, slot empty;
/// only the holder of the reservation changes it), *open* (bit set, slot filled).
///
/// Every slot has a cache line of its own: a lookup reads nothing that opening or closing another
/// descriptor writes. Blocks share no line, so cores that use a block each do not contend.
#[repr(align(64))]
pub(super) struct Block<T: Send + Sync + 'static> {
    /// Orders all changes of the block's descriptors except from reserved to open. Not taken
    /// lowest-first, where the table's lock or the word lock orders them; see [`Changing`].
    lock: RawLock<BlockClass>,
    /// The slots that are not free. Written by the holder of the right to change the block
    /// (Relaxed: its lock orders it), and in the first block lowest-first as `first_word.rs` says.
    pub(super) used: AtomicU64,
    /// Close-on-exec bits, meaningful for slots that are not free. A bit is written by the holder
    /// of the reservation until the slot is open, then by the holder of the right to change the
    /// block.
    cloexec: AtomicU64,
    slots: [PaddedSlot<T>; BLOCK_SLOTS as usize],
}

#[repr(align(64))]
struct PaddedSlot<T: Send + Sync + 'static>(ShareSlot<T>);

/// The right to change a block: its lock, or the locks that order changes lowest-first, which the
/// caller holds then.
pub(super) struct Changing<'b, T: Send + Sync + 'static> {
    block: &'b Block<T>,
    _held: Option<RawGuard<'b>>,
}

lock_class!(pub(super) BlockClass = "fd-block", super::BLOCK_RANK);

impl<T: Send + Sync + 'static> Changing<'_, T> {
    pub(super) fn is_full(&self) -> bool {
        self.used() == u64::MAX
    }

    pub(super) fn contains(&self, bit: u32) -> bool {
        self.used() >> bit & 1 == 1
    }

    /// From free (or open, to be replaced) to not free.
    pub(super) fn take(&mut self, bit: u32, cloexec: bool) {
        self.set_used(self.used() | 1 << bit);
        self.block.set_cloexec(bit, cloexec);
    }

    pub(super) fn remove(&mut self, bit: u32) {
        self.set_used(self.used() & !(1 << bit));
    }

    /// From open to free, if it is `wanted`; returns the description, if it was open. To be retired
    /// when no lock is held.
    ///
    /// A reserved descriptor gets its mark and opens without a lock, so only what is known to be
    /// open is asked for its mark.
    #[inline(always)]
    pub(super) fn close(
        &mut self,
        bit: u32,
        wanted: impl Fn(&Block<T>) -> bool,
    ) -> Option<Removed<T>> {
        let slot = self.block.slot(bit);
        if slot.is_empty() || !wanted(self.block) {
            return None;
        }
        let file = slot.exchange(None);
        self.remove(bit);
        file
    }

    /// The lowest slot in `from..end` that is free.
    pub(super) fn first_free(&self, from: u32, end: u32) -> Option<u32> {
        lowest_clear(self.used(), from, end)
    }

    fn used(&self) -> u64 {
        // Relaxed: see the field.
        self.block.used.load(Ordering::Relaxed)
    }

    fn set_used(&mut self, used: u64) {
        // Relaxed: see the field.
        self.block.used.store(used, Ordering::Relaxed);
    }
}

/// The lowest bit in `from..end` that is clear.
pub(super) fn lowest_clear(bits: u64, from: u32, end: u32) -> Option<u32> {
    let below = (1u64 << from) - 1;
    let bit = (!bits & !below).trailing_zeros();
    (bit < end.min(BLOCK_SLOTS)).then_some(bit)
}

impl<T: Send + Sync + 'static> Block<T> {
    pub(super) fn new() -> Block<T> {
        Block {
            lock: RawLock::new(),
            used: AtomicU64::new(0),
            cloexec: AtomicU64::new(0),
            slots: [const { PaddedSlot(ShareSlot::empty()) }; BLOCK_SLOTS as usize],
        }
    }

    /// The right to change the block; `by_table` if the caller holds the locks that order its
    /// changes lowest-first.
    #[inline(always)]
    #[track_caller]
    pub(super) fn change(&self, by_table: bool) -> Changing<'_, T> {
        Changing {
            block: self,
            _held: (!by_table).then(|| self.lock.lock_guard()),
        }
    }

    pub(super) fn slot(&self, bit: u32) -> &ShareSlot<T> {
        &self.slots[bit as usize].0
    }

    /// Puts the description in the slot of `bit`, and returns the one before.
    pub(super) fn put(&self, bit: u32, file: Share<T>) -> Option<Removed<T>> {
        self.slot(bit).exchange(Some(file))
    }

    /// The description of an open descriptor. Writes nothing.
    pub(super) fn get<'g>(&'g self, bit: u32, guard: &'g Guard) -> Option<Shared<'g, T>> {
        self.slot(bit).load(guard)
    }

    /// Sets or clears the mark; see the field for the locks.
    pub(super) fn set_cloexec(&self, bit: u32, cloexec: bool) {
        // Relaxed: each bit has one writer at a time, and readers need just the flag.
        if self.is_cloexec(bit) == cloexec {
            return;
        }
        match cloexec {
            true => self.cloexec.fetch_or(1 << bit, Ordering::Relaxed),
            false => self.cloexec.fetch_and(!(1 << bit), Ordering::Relaxed),
        };
    }

    pub(super) fn is_cloexec(&self, bit: u32) -> bool {
        // Relaxed: a flag by itself. A thread that learned of the descriptor by other means did so
        // after the flag was set.
        self.cloexec.load(Ordering::Relaxed) >> bit & 1 == 1
    }
}
