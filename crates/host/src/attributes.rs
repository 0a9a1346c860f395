//! What the host says of an inode, as operations return it.

use crate::errno::PassOn;
use crate::identity::Identity;
use hearth::{Attr, Errno, Kind, Result, Time};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp, statx};

/// Number of the mount, which `statx` tells since Linux 5.8.
const MNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x1000);

/// Attributes of an open file.
///
/// # Errors
/// Those of `statx(2)`.
pub fn stat(fd: BorrowedFd<'_>) -> Result<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | MNT_ID;
    statx(fd, c"", AtFlags::EMPTY_PATH, wanted).pass_on()
}

/// The attributes of inode `number`, which programs see as `shown`.
///
/// # Errors
/// `EIO` for a type of file that Linux does not have.
pub fn attr(number: u64, shown: u64, id: &Identity, stat: &Statx) -> Result<Attr> {
    let time = |at: &StatxTimestamp| Time {
        sec: at.tv_sec,
        nsec: at.tv_nsec,
    };
    Ok(Attr {
        ino: number,
        shown_ino: shown,
        generation: generation(id),
        kind: kind(stat)?,
        perm: stat.stx_mode & 0o7777,
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        rdev: libc::makedev(stat.stx_rdev_major, stat.stx_rdev_minor) as u32,
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        blksize: stat.stx_blksize,
        atime: time(&stat.stx_atime),
        mtime: time(&stat.stx_mtime),
        ctime: time(&stat.stx_ctime),
        btime: time(&stat.stx_btime),
        flags: stat.stx_attributes.bits() as u32 & Attr::ATTRIBUTES as u32,
        project: 0,
    })
}

/// The generation of an inode; 0 where the host has none.
pub fn generation(id: &Identity) -> u32 {
    id.handle().map_or(0, |handle| handle.generation())
}

/// The type.
///
/// # Errors
/// `EIO` for one that Linux does not have.
pub fn kind(stat: &Statx) -> Result<Kind> {
    Kind::from_mode(u32::from(stat.stx_mode)).ok_or(Errno::EIO)
}
