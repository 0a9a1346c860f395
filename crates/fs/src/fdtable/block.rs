//! 64 neighbouring descriptors.

use hearth_sync::epoch::Guard;
use hearth_sync::lock::{self, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use hearth_sync::rcu::RcuSlot;

/// Descriptors in one block.
pub(super) const BLOCK_FDS: u32 = 64;
/// Descriptors that a table can have at most, whatever its limit is set to.
pub const FDS_MAX: u32 = 1 << 20;
/// Blocks that a table can have at most.
pub(super) const BLOCKS_MAX: u32 = FDS_MAX / BLOCK_FDS;

/// The states of a descriptor: *free* (bit clear, slot empty), *reserved* (bit set, slot empty;
/// only the holder of the reservation moves it on), *open* (bit set, slot filled).
///
/// Every slot has a line of its own: a lookup reads nothing that opening or closing another
/// descriptor writes. Blocks share no line, so cores that use a block each do not meet.
#[repr(align(64))]
pub(super) struct Block<T: Send + Sync + 'static> {
    /// Which descriptors are not free. Its lock orders all changes of the block's descriptors but
    /// one: reserved to open.
    used: Lock<BlockClass, Used>,
    /// Close-on-exec bits, meaningful for descriptors that are not free. Written under `used`.
    cloexec: AtomicU64,
    slots: [OwnLine<T>; BLOCK_FDS as usize],
}

#[repr(align(64))]
struct OwnLine<T: Send + Sync + 'static>(RcuSlot<Arc<T>>);

/// A set of the descriptors of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used(u64);

lock_class!(pub(super) BlockClass = "fd-block", super::BLOCK_RANK);

impl Used {
    pub(super) fn is_full(self) -> bool {
        self.0 == u64::MAX
    }

    pub(super) fn contains(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }

    pub(super) fn insert(&mut self, bit: u32) {
        self.0 |= 1 << bit;
    }

    pub(super) fn remove(&mut self, bit: u32) {
        self.0 &= !(1 << bit);
    }

    /// The lowest descriptor in `from..end` that is free.
    pub(super) fn first_free(self, from: u32, end: u32) -> Option<u32> {
        let below = (1u64 << from) - 1;
        let bit = (!self.0 & !below).trailing_zeros();
        (bit < end.min(BLOCK_FDS)).then_some(bit)
    }
}

impl<T: Send + Sync + 'static> Block<T> {
    pub(super) fn new() -> Block<T> {
        Block {
            used: Lock::new(Used::default()),
            cloexec: AtomicU64::new(0),
            slots: [const { OwnLine(RcuSlot::empty()) }; BLOCK_FDS as usize],
        }
    }

    #[track_caller]
    pub(super) fn lock(&self) -> lock::Guard<'_, BlockClass, Used> {
        self.used.lock()
    }

    pub(super) fn slot(&self, bit: u32) -> &RcuSlot<Arc<T>> {
        &self.slots[bit as usize].0
    }

    /// What an open descriptor names. Writes nothing.
    pub(super) fn get<'g>(&'g self, bit: u32, guard: &'g Guard) -> Option<&'g Arc<T>> {
        self.slot(bit).load(guard)
    }

    pub(super) fn is_cloexec(&self, bit: u32) -> bool {
        // Relaxed: a flag by itself; who was told of the descriptor through other means was told
        // after it was set.
        self.cloexec.load(Ordering::Relaxed) >> bit & 1 == 1
    }

    /// The guard says that the caller may change the block.
    pub(super) fn set_cloexec(&self, _used: &mut Used, bit: u32, cloexec: bool) {
        // Relaxed: writers exclude each other by the lock, readers want just the flag.
        let others = self.cloexec.load(Ordering::Relaxed) & !(1 << bit);
        self.cloexec
            .store(others | u64::from(cloexec) << bit, Ordering::Relaxed);
    }
}
