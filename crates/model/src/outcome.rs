//! The result of an operation.

use crate::bytes::Bytes;
use crate::data::PageCount;
use crate::op::LockKind;

/// The result of one operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Success without a value.
    Done,
    /// A new descriptor.
    Fd(i32),
    /// A count, an offset, a set of flags or an old value.
    Number(u64),
    /// Bytes read, a link target, an attribute value, a directory path.
    Data(Bytes),
    /// `struct stat`.
    Attr(Attr),
    /// `struct statx`.
    StatX(StatX),
    /// Entries of a directory, sorted by name.
    Entries(Vec<Entry>),
    /// Names, sorted.
    Names(Vec<Bytes>),
    /// `F_GETLK`: the locks of which any one may be reported; empty when nothing conflicts.
    Locks(Vec<LockInfo>),
    /// Flags and project of an inode.
    Project(u32, u32),
    /// A new process.
    Process(usize),
    /// Failed with this errno.
    Error(i32),
    /// Unspecified: Linux lets a filesystem choose. The model did nothing, and the runner skips the
    /// operation on the other system too.
    Unspecified,
}

/// Kind of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    Char,
    Block,
}

impl Kind {
    /// Returns the kind that the type bits of a mode name.
    pub fn from_mode(mode: u32) -> Option<Kind> {
        Some(match mode & libc::S_IFMT {
            libc::S_IFREG => Kind::File,
            libc::S_IFDIR => Kind::Directory,
            libc::S_IFLNK => Kind::Symlink,
            libc::S_IFIFO => Kind::Fifo,
            libc::S_IFSOCK => Kind::Socket,
            libc::S_IFCHR => Kind::Char,
            libc::S_IFBLK => Kind::Block,
            _ => return None,
        })
    }
}

/// A comparable time: either a script set it, or the system chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// Some moment during the test.
    Now,
    /// Exactly these seconds and nanoseconds.
    At(i64, u32),
}

impl Stamp {
    /// Times from here to [`Stamp::TO`] count as the system's own; scripts set others.
    pub const FROM: i64 = 1_500_000_000;
    /// See [`Stamp::FROM`].
    pub const TO: i64 = 4_000_000_000;

    /// Returns the stamp of a time that a system reports.
    pub fn of(sec: i64, nsec: u32) -> Stamp {
        if (Self::FROM..Self::TO).contains(&sec) {
            Stamp::Now
        } else {
            Stamp::At(sec, nsec)
        }
    }
}

/// Attributes of an inode, as far as they are determined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attr {
    /// The inode's number in its system; systems are compared by equality classes.
    pub ino: u64,
    /// Kind.
    pub kind: Kind,
    /// Permission bits, 07777.
    pub perm: u16,
    /// Number of names; 2 + subdirectories for a directory.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device, else 0.
    pub rdev: u32,
    /// Bytes of a file or symlink, else 0 (the size of a directory is up to the system).
    pub size: u64,
    /// Time of last access.
    pub atime: Stamp,
    /// Time of last modification.
    pub mtime: Stamp,
    /// Time of last change, which no call sets.
    pub ctime: Stamp,
    /// Pages that a file holds, else 0 (symlinks and directories are up to the system).
    pub pages: PageCount,
}

/// The result of `statx`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatX {
    /// `STATX_*` bits of the reported fields. In the model: those of [`Attr`] and the birth that
    /// were requested; in other systems perhaps more.
    pub mask: u32,
    /// `STATX_ATTR_*` bits of [`StatX::ATTRIBUTES`] that the inode has.
    pub attributes: u64,
    /// Those that the system reports.
    pub attributes_mask: u64,
    /// Preferred size of reads and writes.
    pub blksize: u32,
    /// The rest.
    pub attr: Attr,
    /// Seconds and nanoseconds of the birth, if reported. The model leaves it open: a system must
    /// keep to what it first reports of an inode.
    pub birth: (i64, u32),
}

impl StatX {
    /// The attributes that are compared.
    pub const ATTRIBUTES: u64 =
        (libc::STATX_ATTR_IMMUTABLE | libc::STATX_ATTR_APPEND | libc::STATX_ATTR_NODUMP) as u64;

    /// The fields that are compared.
    pub const FIELDS: u32 = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
}

/// One directory entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Name, "." and ".." included.
    pub name: Bytes,
    /// Kind.
    pub kind: Kind,
    /// Inode, as in [`Attr::ino`]; 0 for "..", whose number a chroot may hide.
    pub ino: u64,
}

/// A lock that conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockInfo {
    /// Read or Write.
    pub kind: LockKind,
    /// First byte.
    pub start: u64,
    /// Last byte; `i64::MAX` is the end of every file.
    pub end: u64,
}
