//! Byte buffers that may be read and written concurrently: the contents of file pages.
//!
//! Two processes may read and write one page at the same time, and the filesystem neither locks it
//! nor orders their bytes. With plain bytes that would be undefined behaviour. These are Relaxed
//! atomic words, so a race yields a mixture of old and new bytes and nothing worse. A write inside
//! one aligned word arrives as a whole.

mod copy;

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ops::Range;

use crate::primitive::plain::{AtomicU64, Ordering};

// Relaxed everywhere in this file: bytes order nothing. The code that publishes a page publishes
// its bytes.
const ANY: Ordering = Ordering::Relaxed;

const WORD: usize = size_of::<u64>();

/// `WORDS * 8` bytes that may be accessed concurrently, on cache lines of their own.
#[repr(C, align(64))]
pub struct AtomicBytes<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> AtomicBytes<WORDS> {
    /// The size in bytes.
    pub const BYTES: usize = {
        let bytes = WORDS * WORD;
        assert!(
            bytes == size_of::<AtomicBytes<WORDS>>(),
            "whole cache lines"
        );
        bytes
    };

    /// A buffer of zeros, from a zeroing allocation.
    pub fn boxed() -> Box<AtomicBytes<WORDS>> {
        let layout = Layout::new::<AtomicBytes<WORDS>>();
        assert_ne!(layout.size(), 0, "no words");
        // SAFETY: the layout is not empty.
        let words = unsafe { alloc_zeroed(layout) }.cast::<AtomicBytes<WORDS>>();
        if words.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the memory has the layout of the type, and zero is a valid atomic word.
        unsafe { Box::from_raw(words) }
    }

    /// A buffer with `src` at `off`, and zeros around it.
    ///
    /// # Panics
    ///
    /// When the range is not inside.
    pub fn boxed_with(off: usize, src: &[u8]) -> Box<AtomicBytes<WORDS>> {
        if src.len() < Self::BYTES {
            let words = Self::boxed();
            words.write(off, src);
            return words;
        }
        assert_eq!((off, src.len()), (0, Self::BYTES), "outside of the words");
        let mut words = Box::<AtomicBytes<WORDS>>::new_uninit();
        // SAFETY: the box has space for that many bytes, which are all that a value consists of,
        // and any bytes are valid atomic words.
        unsafe {
            let to = words.as_mut_ptr().cast::<u8>();
            to.copy_from_nonoverlapping(src.as_ptr(), Self::BYTES);
            words.assume_init()
        }
    }

    /// Copies the bytes from `off` into `out`.
    ///
    /// # Panics
    ///
    /// When the range is not inside.
    #[inline]
    pub fn read(&self, off: usize, out: &mut [u8]) {
        let (head, words, tail) = self.split(off, out.len());
        let (out_head, out) = out.split_at_mut(head.len());
        let (out_words, out_tail) = out.split_at_mut(words.len() * WORD);
        self.read_part(&head, out_head);
        copy::load(words, out_words.as_chunks_mut::<WORD>().0);
        self.read_part(&tail, out_tail);
    }

    /// Copies `src` to the bytes from `off`.
    ///
    /// # Panics
    ///
    /// When the range is not inside.
    #[inline]
    pub fn write(&self, off: usize, src: &[u8]) {
        let (head, words, tail) = self.split(off, src.len());
        let (src_head, src) = src.split_at(head.len());
        let (src_words, src_tail) = src.split_at(words.len() * WORD);
        self.write_part(&head, src_head);
        copy::store(words, src_words.as_chunks::<WORD>().0);
        self.write_part(&tail, src_tail);
    }

    /// Sets the bytes in `range` to zero.
    ///
    /// # Panics
    ///
    /// When the range is not inside.
    pub fn zero(&self, range: Range<usize>) {
        let (head, words, tail) = self.split(range.start, range.len());
        const ZEROS: [u8; WORD] = [0; WORD];
        self.write_part(&head, &ZEROS[..head.len()]);
        for word in words {
            word.store(0, ANY);
        }
        self.write_part(&tail, &ZEROS[..tail.len()]);
    }

    /// True if all bytes in `range` are zero.
    ///
    /// # Panics
    ///
    /// When the range is not inside.
    pub fn is_zero(&self, range: Range<usize>) -> bool {
        let (head, words, tail) = self.split(range.start, range.len());
        let mut ends = [0_u8; 2 * WORD];
        let (first, last) = ends.split_at_mut(WORD);
        self.read_part(&head, &mut first[..head.len()]);
        self.read_part(&tail, &mut last[..tail.len()]);
        ends == [0; 2 * WORD] && words.iter().all(|word| word.load(ANY) == 0)
    }

    /// Splits `len` bytes from `off` into the end of a word, whole words, and the start of a word.
    #[inline]
    fn split(&self, off: usize, len: usize) -> (Range<usize>, &[AtomicU64], Range<usize>) {
        let end = off.checked_add(len).filter(|&end| end <= Self::BYTES);
        let end = end.unwrap_or_else(|| outside(off, len, Self::BYTES));
        let first = off.next_multiple_of(WORD);
        let last = end - end % WORD;
        if first <= last {
            (off..first, &self.0[first / WORD..last / WORD], last..end)
        } else {
            // All inside one word.
            (off..end, &[], end..end)
        }
    }

    /// Reads some bytes of one word.
    #[inline]
    fn read_part(&self, range: &Range<usize>, out: &mut [u8]) {
        if range.is_empty() {
            return;
        }
        let bytes = self.0[range.start / WORD].load(ANY).to_ne_bytes();
        let start = range.start % WORD;
        out.copy_from_slice(&bytes[start..start + range.len()]);
    }

    /// Writes some bytes of one word and leaves its other bytes to concurrent writers.
    #[inline]
    fn write_part(&self, range: &Range<usize>, src: &[u8]) {
        if range.is_empty() {
            return;
        }
        let start = range.start % WORD;
        let (mut mask, mut value) = ([0_u8; WORD], [0_u8; WORD]);
        mask[start..start + range.len()].fill(0xff);
        value[start..start + range.len()].copy_from_slice(src);
        let (mask, value) = (u64::from_ne_bytes(mask), u64::from_ne_bytes(value));
        let word = &self.0[range.start / WORD];
        let mut old = word.load(ANY);
        while let Err(now) = word.compare_exchange_weak(old, old & !mask | value, ANY, ANY) {
            old = now;
        }
    }
}

impl<const WORDS: usize> std::fmt::Debug for AtomicBytes<WORDS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtomicBytes")
            .field("bytes", &Self::BYTES)
            .finish()
    }
}

#[cold]
fn outside(off: usize, len: usize, bytes: usize) -> ! {
    panic!("{len} bytes at {off} of {bytes}");
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;
