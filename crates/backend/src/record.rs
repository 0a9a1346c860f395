//! The records of what changed.
//!
//! A volume appends them under the lock that orders the change, to a log of the core. Records of
//! one epoch therefore come in no order. What orders two records of one thing is their `version`,
//! which the lock that orders the change counts: the larger one is later, by wrapping comparison.
//! Each record says all that its thing is from then on, except [`Record::Entries`], which adds up.

use crate::attr::{Kind, Target, Time};
use std::ops::Range;

/// Name and value of an extended attribute. ACLs are among them, in their Linux form.
pub type Xattr = (Box<[u8]>, Box<[u8]>);

/// Attributes that are ordered by one lock of the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attrs {
    /// Distinguishes inodes that had one number one after the other.
    pub generation: u32,
    /// Type.
    pub kind: Kind,
    /// Permission bits (`07777`).
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project id.
    pub project: u32,
    /// `FS_*_FL` bits.
    pub flags: u32,
    /// Number of names; of a directory 0 or more than 0. With 0 it is an inode without a name that
    /// is still open.
    pub nlink: u32,
    /// Blocks of 4,096 bytes that extended attributes and ACLs are charged for.
    pub extra_blocks: u32,
    /// Device number.
    pub rdev: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of contents that was set or is older than [`Inode::touched`].
    pub mtime: Time,
    /// Last change of attributes, or of contents that is older than [`Inode::touched`].
    pub ctime: Time,
    /// Creation.
    pub btime: Time,
}

impl Attrs {
    /// Those of a new object of root with one name; its times are not known.
    pub fn new(generation: u32, kind: Kind, perm: u16) -> Attrs {
        Attrs {
            generation,
            kind,
            perm,
            uid: 0,
            gid: 0,
            project: 0,
            flags: 0,
            nlink: 1,
            extra_blocks: 0,
            rdev: 0,
            atime: Time::default(),
            mtime: Time::default(),
            ctime: Time::default(),
            btime: Time::default(),
        }
    }
}

/// An inode as its backend keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Number.
    pub ino: u64,
    /// Attributes.
    pub attrs: Attrs,
    /// Size of a file in bytes.
    pub size: u64,
    /// Allocated pages of a file.
    pub pages: u64,
    /// Latest change of contents in nanoseconds since 1970, where it came after `attrs.mtime` was
    /// set, which it then replaces, even by an earlier time; else 0.
    pub touched: u64,
    /// Entries of a directory: (all, subdirectories).
    pub entries: (u64, u64),
    /// Parent of a directory.
    pub parent: u64,
    /// Target of a symbolic link.
    pub target: Box<[u8]>,
    /// Extended attributes.
    pub xattrs: Vec<Xattr>,
}

/// Where the bytes of an extent are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Here: they become durable with the record. At most 64 KiB.
    Inline(Box<[u8]>),
    /// Where the backend put them; only the backend reads this.
    Stored(Box<[u8]>),
    /// Nowhere: allocated, and zeros.
    Unwritten,
}

/// A range of a file and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Pages of 4,096 bytes.
    pub pages: Range<u64>,
    /// Their bytes.
    pub place: Place,
}

/// A change of the contents of a file. Ranges are in pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The size or the time alone.
    Size,
    /// These pages have these contents.
    Write(Vec<Extent>),
    /// These pages are holes. A part of a page that is cut off comes as zeros with a later write.
    Cut(Range<u64>),
    /// The pages from `from` on move up (`by` > 0) or down; those below the target of a move down
    /// that are run over are gone, and a gap of a move up is a hole.
    Shift {
        /// The first page that moves.
        from: u64,
        /// By how many pages.
        by: i64,
    },
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A new inode: its first record. The versions of its other registers begin below any other.
    New {
        /// All of it.
        inode: Box<Inode>,
        /// Order of its attributes: see [`Record::Attrs`]. 0 unless they have changed since.
        version: u32,
    },
    /// Attributes.
    Attrs {
        /// Inode.
        ino: u64,
        /// Order of the attributes and of the extended attributes of the inode.
        version: u32,
        /// All of them.
        attrs: Attrs,
    },
    /// Extended attributes, all of them.
    Xattrs {
        /// Inode.
        ino: u64,
        /// Generation of the inode.
        generation: u32,
        /// See [`Record::Attrs`].
        version: u32,
        /// All of them.
        xattrs: Vec<Xattr>,
    },
    /// Contents of a file changed.
    Contents {
        /// Inode.
        ino: u64,
        /// Generation of the inode.
        generation: u32,
        /// Order of the changes of its contents. Every one counts, in this order.
        version: u32,
        /// Size in bytes that the data there is durable for.
        size: u64,
        /// See [`Inode::touched`].
        touched: u64,
        /// When that was so, in nanoseconds of a monotonic clock: see [`Record::Untouched`].
        order: u64,
        /// What changed.
        edit: Edit,
    },
    /// The times of contents were set: what was touched before no longer counts. Times of files
    /// come from a coarse clock, so a finer one says what was before, within one epoch.
    /// The order of a touch is 1 where no times of the inode were set before it.
    Untouched {
        /// Inode.
        ino: u64,
        /// Generation of the inode.
        generation: u32,
        /// Nanoseconds of a monotonic clock.
        order: u64,
    },
    /// Entries of a directory came and went: numbers to add.
    Entries {
        /// Directory.
        dir: u64,
        /// Generation of the directory.
        generation: u32,
        /// All.
        entries: i64,
        /// Subdirectories.
        subdirectories: i64,
        /// See [`Inode::touched`]: the latest one counts.
        touched: u64,
        /// When that was so, in nanoseconds of a monotonic clock: see [`Record::Untouched`].
        order: u64,
    },
    /// A directory has another parent.
    Parent {
        /// Directory.
        dir: u64,
        /// Generation of the directory.
        generation: u32,
        /// Order of its parents.
        version: u32,
        /// Its parent.
        parent: u64,
    },
    /// A name means this inode, or none.
    Name {
        /// Directory.
        dir: u64,
        /// Generation of the directory: versions of two directories that had one number one after
        /// the other cannot be compared.
        generation: u32,
        /// Name.
        name: Box<[u8]>,
        /// Order of the changes of this name.
        version: u32,
        /// Its target.
        to: Option<Target>,
        /// Whether it has had a target within the epoch that no record names any more. Where it has
        /// none now the backend may never have heard of it.
        came: bool,
    },
    /// The inode is gone: it has no name and nobody has it open. Nothing of it comes later.
    Gone {
        /// Inode.
        ino: u64,
        /// Generation of the inode.
        generation: u32,
        /// Whether it was made in the same epoch and its [`Record::New`] is left out: the backend
        /// never hears of it, and other records of it count for nothing.
        is_brief: bool,
    },
    /// A setting of the volume, of a tenant or of a file, such as a limit or the heat of a range.
    /// The last one in the order of `version` counts; `None` deletes it.
    Setting {
        /// Key.
        key: Box<[u8]>,
        /// Order of the changes of this key.
        version: u32,
        /// Value.
        value: Option<Box<[u8]>>,
    },
}

impl Record {
    /// The record of a new inode whose attributes have not changed since it was made.
    pub fn new(inode: Inode) -> Record {
        Record::New {
            inode: Box::new(inode),
            version: 0,
        }
    }
}
