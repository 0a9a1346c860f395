//! Bulk copies of words.
//!
//! A page copied word by word takes as many cycles as it has words. The processor's string
//! instruction moves whole lines and takes a third of that. Miri does not support it, and the
//! conflict recorder (`--cfg recorded`) sees only the compiler's loads and stores: both get the
//! loop.

use super::{ANY, WORD};
use crate::primitive::plain::AtomicU64;

/// Copies `words` out.
///
/// # Panics
///
/// When the two lengths differ.
#[inline]
pub(super) fn load(words: &[AtomicU64], out: &mut [[u8; WORD]]) {
    assert_eq!(words.len(), out.len());
    if MANY <= words.len() {
        // SAFETY: `words` and `out` have the asserted length, in any alignment, and `out` is
        // exclusive. A word may be written meanwhile: see `string`.
        unsafe { string(words.as_ptr().cast(), out.as_mut_ptr().cast(), words.len()) };
        return;
    }
    for (bytes, word) in out.iter_mut().zip(words) {
        *bytes = word.load(ANY).to_ne_bytes();
    }
}

/// Copies `src` into `words`.
///
/// # Panics
///
/// When the two lengths differ.
#[inline]
pub(super) fn store(words: &[AtomicU64], src: &[[u8; WORD]]) {
    assert_eq!(words.len(), src.len());
    if MANY <= words.len() {
        // SAFETY: as in `load`; atomics may be written behind a shared reference.
        unsafe {
            string(
                src.as_ptr().cast(),
                words.as_ptr().cast_mut().cast(),
                words.len(),
            )
        };
        return;
    }
    for (bytes, word) in src.iter().zip(words) {
        word.store(u64::from_ne_bytes(*bytes), ANY);
    }
}

/// The number of words from which on the string instruction is faster.
#[cfg(all(target_arch = "x86_64", not(any(miri, recorded))))]
const MANY: usize = 64;
#[cfg(not(all(target_arch = "x86_64", not(any(miri, recorded)))))]
const MANY: usize = usize::MAX;

/// Copies `words` words.
///
/// To the rest of the program this is a loop of Relaxed loads and stores of whole words: the
/// instruction moves word by word in an order of its own, and an aligned word is never torn. So a
/// race with other atomic accesses is as harmless as in the loops above.
///
/// # Safety
///
/// Both sides have `words` words and do not overlap. The destination may be written, and concurrent
/// accesses to it are atomic.
#[cfg(all(target_arch = "x86_64", not(any(miri, recorded))))]
#[inline]
unsafe fn string(from: *const u64, to: *mut u64, words: usize) {
    // SAFETY: the caller promises the memory; the direction flag is clear on entry, as the compiler
    // guarantees.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            inout("rcx") words => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Never called: no slice is that long.
///
/// # Safety
///
/// None.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, recorded)))))]
unsafe fn string(_from: *const u64, _to: *mut u64, _words: usize) {
    unreachable!("no slice has so many words");
}
