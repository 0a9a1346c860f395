//! Inode flags as `chattr(1)` and `FS_IOC_SETFLAGS` know them.

/// Append only (`chattr +a`).
pub const APPEND: u32 = 0x20;
/// Immutable (`chattr +i`).
pub const IMMUTABLE: u32 = 0x10;
/// Not for `dump` (`chattr +d`); kept, no effect.
pub const NODUMP: u32 = 0x40;
/// Reads leave the access time alone (`chattr +A`).
pub const NOATIME: u32 = 0x80;
/// Synchronous updates (`chattr +S`).
pub const SYNC: u32 = 0x8;
/// Synchronous directory updates (`chattr +D`).
pub const DIRSYNC: u32 = 0x1_0000;
/// New inodes inherit the project id (`chattr +P`).
pub const PROJINHERIT: u32 = 0x2000_0000;
/// All flags that can be set by a user.
pub const SETTABLE: u32 = APPEND | IMMUTABLE | NODUMP | NOATIME | SYNC | DIRSYNC | PROJINHERIT;
/// Flags that a new inode takes from its directory.
pub const INHERITED: u32 = NODUMP | NOATIME | SYNC | DIRSYNC | PROJINHERIT;

/// Pairs of (`FS_*_FL`, `FS_XFLAG_*`): the two ioctls have different bits for the flags.
const XFLAGS: [(u32, u32); 6] = [
    (IMMUTABLE, 0x8),
    (APPEND, 0x10),
    (SYNC, 0x20),
    (NOATIME, 0x40),
    (NODUMP, 0x80),
    (PROJINHERIT, 0x200),
];

/// `FS_XFLAG_*` bits for `FS_*_FL` bits.
pub fn to_xflags(flags: u32) -> u32 {
    XFLAGS
        .iter()
        .filter(|(fl, _)| flags & fl != 0)
        .fold(0, |x, (_, xflag)| x | xflag)
}

/// `FS_*_FL` bits for `FS_XFLAG_*` bits; `None` where a bit has no meaning here.
pub fn from_xflags(xflags: u32) -> Option<u32> {
    let known = XFLAGS.iter().fold(0, |x, (_, xflag)| x | xflag);
    (xflags & !known == 0).then(|| {
        XFLAGS
            .iter()
            .filter(|(_, x)| xflags & x != 0)
            .fold(0, |f, (fl, _)| f | fl)
    })
}
