//! What `stat(2)` returns and what `setattr` may change: plain data.

use crate::flags;

/// Seconds and nanoseconds since the epoch, as `struct timespec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since 1970-01-01 UTC; negative before.
    pub sec: i64,
    /// Nanoseconds within the second, 0 to 999,999,999.
    pub nsec: u32,
}

/// Seconds from which on a number of nanoseconds may have no room.
const FAR: u64 = u64::MAX / 1_000_000_000 - 4;

impl Time {
    /// Nanoseconds since the epoch; times before it give 0, times after the year 2554 the maximum.
    pub fn nanos(self) -> u64 {
        // In one comparison: seconds before 1970 are large without their sign.
        match self.sec.cast_unsigned() {
            sec @ ..FAR => sec * 1_000_000_000 + u64::from(self.nsec),
            _ => self.far_nanos(),
        }
    }

    #[cold]
    #[inline(never)]
    fn far_nanos(self) -> u64 {
        u64::try_from(self.sec).map_or(0, |s| {
            s.saturating_mul(1_000_000_000)
                .saturating_add(u64::from(self.nsec))
        })
    }

    /// The inverse of [`Time::nanos`].
    pub fn from_nanos(nanos: u64) -> Time {
        Time {
            sec: (nanos / 1_000_000_000) as i64,
            nsec: (nanos % 1_000_000_000) as u32,
        }
    }
}

/// Type of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Regular file.
    #[default]
    File = 8,
    /// Directory.
    Directory = 4,
    /// Symbolic link.
    Symlink = 10,
    /// Named pipe.
    Fifo = 1,
    /// Unix-domain socket.
    Socket = 12,
    /// Character device.
    Char = 2,
    /// Block device.
    Block = 6,
}

impl Kind {
    /// The kind in the `S_IFMT` bits of `mode`; no bits at all mean a regular file, as `mknod(2)`
    /// says.
    pub fn from_mode(mode: u32) -> Option<Kind> {
        let bits = (mode & libc::S_IFMT) >> 12;
        Kind::from_dirent(if bits == 0 { libc::DT_REG } else { bits as u8 })
    }

    /// The kind with this `DT_*` number.
    #[inline]
    pub fn from_dirent(number: u8) -> Option<Kind> {
        // A table: every entry of a listing comes here.
        *Kind::BY_DIRENT.get(usize::from(number))?
    }

    /// The word for it: `file`, `directory`, `symlink`, `fifo`, `socket`, `char`, `block`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Symlink => "symlink",
            Kind::Fifo => "fifo",
            Kind::Socket => "socket",
            Kind::Char => "char",
            Kind::Block => "block",
        }
    }

    const BY_DIRENT: [Option<Kind>; 16] = {
        let all = [
            Kind::File,
            Kind::Directory,
            Kind::Symlink,
            Kind::Fifo,
            Kind::Socket,
            Kind::Char,
            Kind::Block,
        ];
        let (mut table, mut at) = ([None; 16], 0);
        while at < all.len() {
            table[all[at] as usize] = Some(all[at]);
            at += 1;
        }
        table
    };

    /// The `S_IFMT` bits.
    pub fn mode_bits(self) -> u32 {
        u32::from(self as u8) << 12
    }

    /// The `DT_*` number that `readdir(3)` shows.
    pub fn dirent_type(self) -> u8 {
        self as u8
    }
}

/// Attributes of an inode at one moment: the fields are consistent with each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// The number by which front ends name the inode; the root is 1.
    pub ino: u64,
    /// The number that programs see. It differs where another filesystem gives out the numbers.
    pub shown_ino: u64,
    /// Distinguishes inodes that had one number one after the other.
    pub generation: u32,
    /// Type.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky (`07777`).
    pub perm: u16,
    /// Number of hard links; 2 plus the subdirectories for a directory.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device inode, as `makedev` packs it.
    pub rdev: u32,
    /// Size in bytes.
    pub size: u64,
    /// Allocated blocks of 512 bytes.
    pub blocks: u64,
    /// Preferred size of reads and writes in bytes.
    pub blksize: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of contents.
    pub mtime: Time,
    /// Last change of contents or attributes.
    pub ctime: Time,
    /// Creation.
    pub btime: Time,
    /// `FS_*_FL` bits (see [`crate::flags`]).
    pub flags: u32,
    /// Project id.
    pub project: u32,
}

impl Attr {
    /// Type and permission bits as `st_mode` has them.
    pub fn mode(&self) -> u32 {
        self.kind.mode_bits() | u32::from(self.perm)
    }

    /// The `STATX_ATTR_*` bits that an inode may have here.
    pub const ATTRIBUTES: u64 =
        (libc::STATX_ATTR_IMMUTABLE | libc::STATX_ATTR_APPEND | libc::STATX_ATTR_NODUMP) as u64;

    /// The bits that it has: each has one meaning here and in the inode flags.
    pub fn attributes(&self) -> u64 {
        u64::from(self.flags) & Attr::ATTRIBUTES
    }
}

/// The result of `statx(2)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatX {
    /// `STATX_*` bits of the valid fields: always the basic ones and the creation time.
    pub mask: u32,
    /// `STATX_ATTR_*` bits that the inode has.
    pub attributes: u64,
    /// `STATX_ATTR_*` bits that the inode could have.
    pub attributes_mask: u64,
    /// The other fields.
    pub attr: Attr,
}

impl StatX {
    /// The result for an inode with these attributes.
    pub fn of(attr: Attr) -> StatX {
        StatX {
            mask: libc::STATX_BASIC_STATS | libc::STATX_BTIME,
            attributes: attr.attributes(),
            attributes_mask: Attr::ATTRIBUTES,
            attr,
        }
    }
}

const _: () = assert!(
    flags::IMMUTABLE == libc::STATX_ATTR_IMMUTABLE as u32
        && flags::APPEND == libc::STATX_ATTR_APPEND as u32
        && flags::NODUMP == libc::STATX_ATTR_NODUMP as u32
);

/// The target of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Inode number.
    pub ino: u64,
    /// Generation of the inode: the number may be reused later.
    pub generation: u32,
    /// Its kind.
    pub kind: Kind,
}

/// A time for `setattr`: the volume's clock or a given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of the operation (`UTIME_NOW`).
    Now,
    /// This time.
    At(Time),
    /// This time, where what is there is earlier: a kernel in front sends the time of one change
    /// beside another that the volume has seen.
    NoEarlier(Time),
}

/// What `setattr` changes; absent fields stay (`UTIME_OMIT` is an absent time).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// New permission bits (`07777`).
    pub mode: Option<u16>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size (truncate).
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<SetTime>,
    /// New modification time.
    pub mtime: Option<SetTime>,
    /// New change time, from a kernel that keeps times itself (writeback cache).
    pub ctime: Option<Time>,
    /// Clear setuid and setgid like a write by an unprivileged user does.
    pub kill_suidgid: bool,
}

/// The result of `statfs(2)`; counts are in units of `frsize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Preferred transfer size in bytes.
    pub bsize: u32,
    /// Unit of the block counts in bytes.
    pub frsize: u32,
    /// Size of the volume.
    pub blocks: u64,
    /// Free.
    pub bfree: u64,
    /// Free for users other than root.
    pub bavail: u64,
    /// Inodes at most.
    pub files: u64,
    /// Inodes free.
    pub ffree: u64,
    /// Longest name in bytes.
    pub namelen: u32,
}

/// One entry of `readdir`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Inode number.
    pub ino: u64,
    /// Type, so that a listing touches no inode.
    pub kind: Kind,
    /// Name, 1 to 255 bytes, no `/` and no NUL.
    pub name: &'a [u8],
    /// The cookie to go on from after this entry.
    pub cookie: u64,
}

/// `struct fsxattr` of `FS_IOC_FSGETXATTR`, without the padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsXAttr {
    /// `FS_XFLAG_*` bits.
    pub xflags: u32,
    /// Extent size hint; always 0.
    pub extsize: u32,
    /// Number of extents; always 0.
    pub nextents: u32,
    /// Project id.
    pub project: u32,
    /// Copy-on-write extent size hint; always 0.
    pub cowextsize: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_are_exact_up_to_the_last_that_have_room() {
        let far = FAR.cast_signed();
        for sec in [0, 1, far - 1, far, far + 3, far + 4, far + 5, i64::MAX] {
            for nsec in [0, 1, 999_999_999] {
                let exact = sec as u128 * 1_000_000_000 + u128::from(nsec);
                let most = u128::from(u64::MAX);
                let nanos = Time { sec, nsec }.nanos();
                assert_eq!(u128::from(nanos), exact.min(most), "{sec}, {nsec}");
                assert_eq!(
                    Time {
                        sec: -1 - sec,
                        nsec
                    }
                    .nanos(),
                    0
                );
            }
        }
    }
}
