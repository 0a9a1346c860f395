//! Byte ranges of a file as pages.

use std::ops::Range;

/// Bytes in a page.
pub const PAGE: u64 = 4096;

/// [`PAGE`] as a length in memory.
pub(super) const PAGE_BYTES: usize = PAGE as usize;

/// No byte of a file lies at or past this offset (the largest file has 2^63-1 bytes).
pub(super) const BYTES: u64 = 1 << 63;

/// No page of a file has this index or a higher one.
pub const PAGES: u64 = BYTES / PAGE;

/// The part of one page that a range of bytes covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Index of the page.
    pub(super) index: u64,
    /// The bytes of the page.
    pub(super) bytes: Range<usize>,
}

impl Span {
    /// Whether all of the page is covered.
    pub(super) fn is_whole(&self) -> bool {
        self.bytes == (0..PAGE_BYTES)
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.end - self.bytes.start
    }
}

/// The pages of `len` bytes from `off`, in order. Bytes past [`BYTES`] are left out.
pub(super) fn spans(off: u64, len: u64) -> impl Iterator<Item = Span> {
    let end = end_of(off, len);
    let mut at = off;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let start = (at % PAGE) as usize;
        let stop = (PAGE as usize).min(start + (end - at).min(PAGE) as usize);
        let span = Span {
            index: at / PAGE,
            bytes: start..stop,
        };
        at += span.len() as u64;
        Some(span)
    })
}

/// The pages that hold at least one byte of the range.
pub(super) fn touched(off: u64, len: u64) -> Range<u64> {
    let end = end_of(off, len);
    if end <= off {
        0..0
    } else {
        off / PAGE..end.div_ceil(PAGE)
    }
}

/// The pages that the range covers completely.
pub(super) fn whole(off: u64, len: u64) -> Range<u64> {
    let range = off.div_ceil(PAGE)..end_of(off, len) / PAGE;
    if range.is_empty() { 0..0 } else { range }
}

/// The pages that the range covers only in part: none, one or two.
pub(super) fn edges(off: u64, len: u64) -> impl Iterator<Item = Span> {
    let end = end_of(off, len);
    let head = spans(off, len).next();
    let tail = end.saturating_sub(1) / PAGE * PAGE;
    let apart = end > off && tail / PAGE != off / PAGE;
    let tail = apart.then(|| spans(tail, end - tail).next()).flatten();
    head.into_iter().chain(tail).filter(|span| !span.is_whole())
}

/// The offset past a range that must lie in the largest file.
///
/// # Panics
/// When it does not: the caller has returned `EFBIG` by then.
pub(super) fn checked_end(off: u64, len: u64) -> u64 {
    let end = off.checked_add(len).filter(|end| *end < BYTES);
    end.expect("the caller has checked the range against the largest file size")
}

fn end_of(off: u64, len: u64) -> u64 {
    off.saturating_add(len).min(BYTES)
}
