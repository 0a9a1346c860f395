//! What a file has allocated where a hole is seen, or behind its end: space that a program has
//! asked for in advance.

use crate::sys;
use hearth::{BLOCK, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::fstatfs;
use std::ops::Range;

/// `TMPFS_MAGIC`.
pub const TMPFS: u64 = 0x0102_1994;
/// The end of the largest file.
const END: u64 = i64::MAX as u64;

/// Blocks of these ranges, in blocks, that are allocated. Fewer where not all are told.
///
/// # Errors
/// The filesystem tells of none.
pub fn within(fd: BorrowedFd<'_>, ranges: &[Range<u64>]) -> Result<u64> {
    if fstatfs(fd).is_ok_and(|found| found.f_type as u64 == TMPFS) {
        let pages = |range: &Range<u64>| sys::cached_pages(fd, &in_bytes(range));
        return ranges.iter().map(pages).sum();
    }
    ranges.iter().map(|range| of_extents(fd, range)).sum()
}

fn of_extents(fd: BorrowedFd<'_>, range: &Range<u64>) -> Result<u64> {
    let mut left = in_bytes(range);
    let mut bytes = 0;
    while left.start < left.end {
        let extents = sys::extents(fd, &left)?;
        let Some(last) = extents.last() else { break };
        let of = |extent: &Range<u64>| {
            let end = extent.end.min(left.end);
            end.saturating_sub(extent.start.max(left.start))
        };
        bytes += extents.iter().map(of).sum::<u64>();
        if last.end <= left.start {
            break;
        }
        left.start = last.end;
    }
    Ok(bytes / BLOCK)
}

fn in_bytes(range: &Range<u64>) -> Range<u64> {
    let byte = |block: u64| block.saturating_mul(BLOCK).min(END);
    byte(range.start)..byte(range.end)
}
