//! The blocks that a write may allocate.

use crate::errno::PassOn;
use hearth::{BLOCK, Errno, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::{SeekFrom, seek};
use std::ops::Range;

/// Blocks of `off..off + len` that are not allocated in a file of this size, in order. All of them
/// where the filesystem does not tell.
pub fn holes(fd: BorrowedFd<'_>, off: u64, len: u64, size: u64) -> Vec<Range<u64>> {
    seen(fd, off, len, size).unwrap_or_else(|_| {
        let mut all = Vec::new();
        push(
            &mut all,
            off / BLOCK..off.saturating_add(len).div_ceil(BLOCK),
        );
        all
    })
}

fn seen(fd: BorrowedFd<'_>, off: u64, len: u64, size: u64) -> Result<Vec<Range<u64>>> {
    let mut found = Vec::new();
    let end = off.saturating_add(len);
    let (first, last) = (off / BLOCK, end.div_ceil(BLOCK));
    let end_of_file = size.div_ceil(BLOCK);
    if len == 0 {
        return Ok(found);
    }
    let mut at = first * BLOCK;
    let within = end.min(size);
    while at < within {
        let hole = seek(fd, SeekFrom::Hole(at)).pass_on()?;
        if hole >= within {
            break;
        }
        // Nothing but a hole up to the end of the file.
        let data = match seek(fd, SeekFrom::Data(hole)).pass_on() {
            Err(Errno::ENXIO) => size,
            data => data?,
        };
        let range = hole / BLOCK..data.min(within).div_ceil(BLOCK).min(end_of_file);
        push(&mut found, range);
        at = data.max(at + 1);
    }
    push(&mut found, first.max(end_of_file)..last);
    Ok(found)
}

/// How many blocks these are.
pub fn count(holes: &[Range<u64>]) -> u64 {
    holes.iter().map(|hole| hole.end - hole.start).sum()
}

/// The first `blocks` blocks of these.
pub fn first(holes: &[Range<u64>], mut blocks: u64) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    for hole in holes {
        let taken = blocks.min(hole.end - hole.start);
        push(&mut found, hole.start..hole.start + taken);
        blocks -= taken;
    }
    found
}

/// Where a write must end that may allocate `blocks` of these.
pub fn end_of(holes: &[Range<u64>], mut blocks: u64) -> u64 {
    for hole in holes {
        let has = hole.end - hole.start;
        if blocks < has {
            return (hole.start + blocks) * BLOCK;
        }
        blocks -= has;
    }
    u64::MAX
}

fn push(found: &mut Vec<Range<u64>>, range: Range<u64>) {
    // Two holes of smaller blocks may lie in one of these.
    let start = found.last().map_or(0, |last| last.end).max(range.start);
    if start < range.end {
        found.push(start..range.end);
    }
}
