//! Prefetching memory before it is needed.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches the lines of the value at `at`, which need not be initialised or even mapped: a hint
/// that reads and changes nothing. Does nothing on processors without a known instruction for it.
#[inline]
pub fn prefetch<T>(at: *const T) {
    for line in 0..size_of::<T>().div_ceil(LINE) {
        hint(at.cast::<u8>().wrapping_add(line * LINE));
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn hint(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: it is part of every x86-64 processor and does not fault, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
fn hint(_at: *const u8) {}
