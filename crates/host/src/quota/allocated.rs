//! What a file has allocated where a hole is seen, or behind its end: space that a program has
//! asked for in advance.

use crate::sys;
use hearth::{BLOCK, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::fstatfs;
use std::ops::Range;

/// `TMPFS_MAGIC`.
pub const TMPFS: u64 = 0x0102_1994;
/// `BTRFS_SUPER_MAGIC`.
pub const BTRFS: u64 = 0x9123_683e;
/// Extents that are asked for where a file may have a million. Each takes some microseconds.
const FEW: usize = if cfg!(test) { 16 } else { 4096 };
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
    let of_range = |range| Ok(of_extents(fd, range, usize::MAX)?.unwrap_or(0));
    ranges.iter().map(of_range).sum()
}

/// [`within`] for a range of a file that has extents: `None` if they are too many to be asked for,
/// or not told.
pub fn in_few(fd: BorrowedFd<'_>, range: &Range<u64>) -> Option<u64> {
    of_extents(fd, range, FEW).ok().flatten()
}

/// `None` if there are more than `most`.
fn of_extents(fd: BorrowedFd<'_>, range: &Range<u64>, most: usize) -> Result<Option<u64>> {
    let mut left = in_bytes(range);
    let (mut bytes, mut count) = (0, 0);
    while left.start < left.end {
        let extents = sys::extents(fd, &left)?;
        let Some(last) = extents.last() else { break };
        count += extents.len();
        if count > most {
            return Ok(None);
        }
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
    Ok(Some(bytes / BLOCK))
}

fn in_bytes(range: &Range<u64>) -> Range<u64> {
    let byte = |block: u64| block.saturating_mul(BLOCK).min(END);
    byte(range.start)..byte(range.end)
}
