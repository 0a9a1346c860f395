//! Copying many words at once.
//!
//! A page copied word by word takes as many cycles as it has words; the processor's string
//! instruction moves whole lines, and takes a third of that. Miri does not know it, and the
//! conflict recorder (`--cfg recorded`) sees what the compiler's loads and stores do: they get the
//! loop.

use super::{ANY, WORD};
use crate::primitive::plain::AtomicU64;

/// Copies `words` out.
///
/// # Panics
///
/// When there are not as many of both.
#[inline]
pub(super) fn load(words: &[AtomicU64], out: &mut [[u8; WORD]]) {
    assert_eq!(words.len(), out.len());
    if MANY <= words.len() {
        // SAFETY: `words` and `out` are as long as is said, aligned or not, and `out` is ours. A
        // word may be written meanwhile: see `string`.
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
/// When there are not as many of both.
#[inline]
pub(super) fn store(words: &[AtomicU64], src: &[[u8; WORD]]) {
    assert_eq!(words.len(), src.len());
    if MANY <= words.len() {
        // SAFETY: as in `load`; the words may be changed behind a shared reference, as atomics.
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

/// From how many words on the string instruction pays for its start.
#[cfg(all(target_arch = "x86_64", not(any(miri, recorded))))]
const MANY: usize = 64;
#[cfg(not(all(target_arch = "x86_64", not(any(miri, recorded)))))]
const MANY: usize = usize::MAX;

/// Copies so many words.
///
/// To the rest of the program it is a loop of Relaxed loads and stores of whole words: the
/// instruction moves word by word in an order of its own, and an aligned word is never torn. So a
/// race with other atomic accesses is as harmless as in the loops above.
///
/// # Safety
///
/// Both sides have so many words and do not overlap; what is written may be written, and nobody
/// races it but with atomics.
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

/// Nothing is so long that it would be used.
///
/// # Safety
///
/// None.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, recorded)))))]
unsafe fn string(_from: *const u64, _to: *mut u64, _words: usize) {
    unreachable!("no slice has so many words");
}
