//! ext4 takes blocks from those that are reserved for a file before it counts them as allocated,
//! and who asks in between is told of neither (Linux 6.18, `ext4_da_update_reserve_space`; once in
//! some 100,000 questions during a write-back). What is being written back would be given back, and
//! somebody else could have it. The extents tell the same at every moment.

use super::Quotas;
use super::amounts::UNIT;
use super::{allocated, amounts::Told};
use crate::attributes;
use hearth::{BLOCK, Kind, Result};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Statx, fstatfs};

/// `f_type` of ext2, ext3 and ext4.
const EXT4: u64 = 0xEF53;

impl Quotas {
    /// What the host says of an inode of which `charged` blocks are charged, or as many as its size
    /// needs if nobody knows.
    ///
    /// # Errors
    /// Those of `statx(2)`.
    pub fn stat(&self, fd: BorrowedFd<'_>, kind: Kind, charged: Option<u64>) -> Result<Statx> {
        let stat = attributes::stat(fd)?;
        Ok(self.without_dip(stat, fd, kind, charged))
    }

    /// [`Quotas::stat`] of what was told a moment ago.
    pub fn without_dip(
        &self,
        stat: Statx,
        fd: BorrowedFd<'_>,
        kind: Kind,
        charged: Option<u64>,
    ) -> Statx {
        let charged = charged.unwrap_or_else(|| stat.stx_size.div_ceil(BLOCK));
        if kind != Kind::File || Told::by(&stat, kind).all() >= charged {
            return stat;
        }
        if !fstatfs(fd).is_ok_and(|found| found.f_type as u64 == EXT4) {
            return stat;
        }
        // The extents are asked for by a descriptor that is open for reading.
        let Ok(file) = self.tree.open_for_ioctl(fd, kind) else {
            return stat;
        };
        let whole = 0..u64::MAX / BLOCK;
        let ask = || attributes::stat(fd).ok();
        let extents = || allocated::within(file.as_fd(), std::slice::from_ref(&whole)).ok();
        by_extents(stat, ask, extents)
    }
}

/// `stat`, if the file has as many blocks by that as its extents are; or what is told next, and no
/// less than they are. Who cuts the file meanwhile settles it after.
fn by_extents(
    stat: Statx,
    ask: impl FnOnce() -> Option<Statx>,
    extents: impl FnOnce() -> Option<u64>,
) -> Statx {
    let told = Told::by(&stat, Kind::File).all();
    let Some(least) = extents().filter(|least| told < *least) else {
        return stat;
    };
    // With the blocks that the extents of a fragmented file take themselves, most times.
    let mut next = ask().unwrap_or(stat);
    next.stx_blocks = next.stx_blocks.max(least * (BLOCK / UNIT));
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn told(blocks: u64) -> Statx {
        let mut stat = attributes::stat(File::open("/").unwrap().as_fd()).unwrap();
        stat.stx_blocks = blocks * (BLOCK / UNIT);
        stat
    }

    fn all(stat: Statx) -> u64 {
        Told::by(&stat, Kind::File).all()
    }

    #[test]
    fn what_is_told_during_a_write_back_is_no_less_than_the_extents() {
        // What was cut, and what has more than its extents, is taken as it is told.
        let asked = || -> Option<Statx> { panic!("asked again") };
        assert_eq!(all(by_extents(told(3), asked, || Some(3))), 3);
        assert_eq!(all(by_extents(told(5), asked, || Some(3))), 5);
        assert_eq!(all(by_extents(told(3), asked, || None)), 3);
        // Sixteen blocks and one for the extents, all of them in the moment.
        let over = || Some(told(17));
        assert_eq!(all(by_extents(told(0), over, || Some(16))), 17);
        // The next extent is in its moment.
        assert_eq!(all(by_extents(told(0), || Some(told(8)), || Some(16))), 16);
        assert_eq!(all(by_extents(told(0), || None, || Some(16))), 16);
    }
}
