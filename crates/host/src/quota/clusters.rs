//! Clusters of ext4 (`bigalloc`): what it allocates at least, which it tells nobody.

use super::amounts::UNIT;
use super::dips::DIPPING;
use crate::tree::Tree;
use hearth::BLOCK;
use rustix::fd::AsFd;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fstat, openat};
use std::ops::Range;

/// Bytes that the filesystem of the root allocates at least, if it is ext4: tried with a file that
/// has no name and is never seen. [`BLOCK`] where no file can be made, or nothing be allocated.
pub fn unit(tree: &Tree, magic: u64) -> u64 {
    if !DIPPING.contains(&magic) {
        return BLOCK;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let tried = openat(tree.root(), ".", flags, Mode::RUSR | Mode::WUSR).and_then(|file| {
        // An ACL that it was given has one already.
        let before = fstat(&file)?.st_blocks;
        fallocate(file.as_fd(), FallocateFlags::empty(), 0, 1)?;
        Ok((fstat(&file)?.st_blocks - before) as u64 * UNIT)
    });
    let unit = tried.ok().filter(|bytes| bytes.is_power_of_two());
    unit.map_or(BLOCK, |bytes| bytes.max(BLOCK))
}

/// Those of these holes, in blocks, that are whole clusters of `blocks`: in any other one something
/// is allocated, and with it all of it.
pub fn whole(holes: &[Range<u64>], blocks: u64) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for hole in holes {
        match joined.last_mut() {
            Some(last) if last.end == hole.start => last.end = hole.end,
            _ => joined.push(hole.clone()),
        }
    }
    let inside = joined.iter().map(|hole| {
        let start = hole.start.div_ceil(blocks) * blocks;
        start..hole.end / blocks * blocks
    });
    inside.filter(|hole| hole.start < hole.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_with_a_block_in_it_is_no_hole() {
        let found = |holes: &[(u64, u64)]| {
            let holes: Vec<_> = holes.iter().map(|&(start, end)| start..end).collect();
            let whole = whole(&holes, 16).into_iter();
            whole.map(|hole| (hole.start, hole.end)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[(0, 16)]), [(0, 16)]);
        assert_eq!(found(&[(1, 16)]), []);
        assert_eq!(found(&[(0, 15)]), []);
        // The end of a file lies within.
        assert_eq!(found(&[(3, 20), (20, 64)]), [(16, 64)]);
        assert_eq!(found(&[(0, 20), (21, 64)]), [(0, 16), (32, 64)]);
    }
}
