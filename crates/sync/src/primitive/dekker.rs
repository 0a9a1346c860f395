//! Dekker's pattern: two threads each write and then load what the other writes, and at least one
//! of them must see the other's write.
//!
//! In the total order of sequentially consistent accesses one of the two writes comes first. The
//! other thread's load comes after its own write, so it sees that first one. On x86 an addition is
//! a full fence anyway, so this costs nothing there. Loom does not model such an order of accesses
//! but models fences: there a fence behind the write has the same effect.

use super::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Adds `more`. The loads that follow must be `SeqCst`, and so must those of the other thread.
#[inline(always)]
pub fn add(word: &AtomicU64, more: u64) {
    // SeqCst: see the module; the partner is this same access in the other thread.
    word.fetch_add(more, Ordering::SeqCst);
    #[cfg(feature = "loom")]
    super::atomic::fence(Ordering::SeqCst);
}

/// Stores `true`. The loads that follow must be `SeqCst`, and so must those of the other thread.
#[inline]
pub fn set(flag: &AtomicBool) {
    // SeqCst: see the module; the partner is this same access in the other thread.
    flag.store(true, Ordering::SeqCst);
    #[cfg(feature = "loom")]
    super::atomic::fence(Ordering::SeqCst);
}

/// Replaces `from` by `to`. The loads that follow must be `SeqCst`, and so must those of the other
/// thread. If it does, it is a full fence as well, between all that the thread did before and does
/// from now on.
///
/// # Errors
/// The value that was found; nothing is written.
#[inline(always)]
pub fn exchange(word: &AtomicU32, from: u32, to: u32) -> Result<u32, u32> {
    // SeqCst: see the module; the partner is this same access in the other thread. Acquire on
    // failure: what came before the value that was found is visible.
    let was = word.compare_exchange(from, to, Ordering::SeqCst, Ordering::Acquire);
    // SeqCst: as promised. On x86 the exchange is one for the processor; for the compiler the
    // second one is.
    #[cfg(any(
        not(target_arch = "x86_64"),
        miri,
        feature = "loom",
        feature = "shuttle"
    ))]
    super::atomic::fence(Ordering::SeqCst);
    #[cfg(not(any(
        not(target_arch = "x86_64"),
        miri,
        feature = "loom",
        feature = "shuttle"
    )))]
    super::atomic::compiler_fence(Ordering::SeqCst);
    was
}
