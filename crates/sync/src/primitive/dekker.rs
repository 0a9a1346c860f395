//! The first half of "say what I do, then look what you do": two threads that both write and then
//! look at what the other writes, of which at least one must see the other's write.
//!
//! In the order of all sequentially consistent accesses one of the two writes comes first, so the
//! other thread's load, which comes after its own write, sees it. On x86 an addition is a fence
//! anyway, so this costs nothing there. Loom knows no such order of accesses but knows fences:
//! there the same is said by a fence behind the write.

use super::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Adds `more`. Loads that follow must be `SeqCst`, and so those of the other thread.
#[inline(always)]
pub fn add(word: &AtomicU64, more: u64) {
    // SeqCst: see the module; the partner is the same in the other thread.
    word.fetch_add(more, Ordering::SeqCst);
    #[cfg(feature = "loom")]
    super::atomic::fence(Ordering::SeqCst);
}

/// Stores `true`. Loads that follow must be `SeqCst`, and so those of the other thread.
#[inline]
pub fn set(flag: &AtomicBool) {
    // SeqCst: see the module; the partner is the same in the other thread.
    flag.store(true, Ordering::SeqCst);
    #[cfg(feature = "loom")]
    super::atomic::fence(Ordering::SeqCst);
}

/// Makes `from` into `to`, or answers what was there instead. Loads that follow must be `SeqCst`,
/// and so those of the other thread.
///
/// # Errors
/// What was there, and nothing is written.
#[inline(always)]
pub fn exchange(word: &AtomicU32, from: u32, to: u32) -> Result<u32, u32> {
    // SeqCst: see the module; the partner is the same in the other thread. Acquire on failure: what
    // came before the value that was found.
    let was = word.compare_exchange(from, to, Ordering::SeqCst, Ordering::Acquire);
    #[cfg(feature = "loom")]
    super::atomic::fence(Ordering::SeqCst);
    was
}
