//! Files of filesystems that are not Hearth's.

use fuser::{FileAttr, FileType, INodeNo};
use std::time::UNIX_EPOCH;

/// An inode of root with one name, made in 1970.
pub fn root_attr(ino: u64, (kind, perm): (FileType, u16), size: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
