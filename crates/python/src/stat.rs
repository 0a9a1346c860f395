//! Attributes, as `os.stat` names them.

use hearth::{Attr, StatFs, Time};
use pyo3::prelude::*;

/// Attributes of a file at one moment, with the names of os.stat_result.
#[pyclass(frozen, eq, module = "hearth_fs")]
#[derive(PartialEq)]
pub struct Stat {
    attr: Attr,
}

/// Room of a volume, with the names of os.statvfs_result.
#[pyclass(frozen, get_all, module = "hearth_fs")]
pub struct StatVfs {
    /// Preferred size of transfers in bytes.
    f_bsize: u32,
    /// Unit of the block counts in bytes.
    f_frsize: u32,
    /// Size of the volume in units of f_frsize.
    f_blocks: u64,
    /// Free blocks.
    f_bfree: u64,
    /// Free blocks for users other than root.
    f_bavail: u64,
    /// Inodes at most.
    f_files: u64,
    /// Inodes free.
    f_ffree: u64,
    /// Longest name in bytes.
    f_namemax: u32,
}

impl Stat {
    pub fn new(attr: Attr) -> Stat {
        Stat { attr }
    }
}

impl From<StatFs> for StatVfs {
    fn from(stat: StatFs) -> StatVfs {
        StatVfs {
            f_bsize: stat.bsize,
            f_frsize: stat.frsize,
            f_blocks: stat.blocks,
            f_bfree: stat.bfree,
            f_bavail: stat.bavail,
            f_files: stat.files,
            f_ffree: stat.ffree,
            f_namemax: stat.namelen,
        }
    }
}

#[pymethods]
impl Stat {
    /// Type and permission bits.
    #[getter]
    fn st_mode(&self) -> u32 {
        self.attr.mode()
    }

    /// Inode number.
    #[getter]
    fn st_ino(&self) -> u64 {
        self.attr.shown_ino
    }

    /// Number of the device: 0, since a volume that is not mounted has none.
    #[getter]
    fn st_dev(&self) -> u64 {
        0
    }

    /// Number of names.
    #[getter]
    fn st_nlink(&self) -> u32 {
        self.attr.nlink
    }

    /// Owner.
    #[getter]
    fn st_uid(&self) -> u32 {
        self.attr.uid
    }

    /// Group.
    #[getter]
    fn st_gid(&self) -> u32 {
        self.attr.gid
    }

    /// Device that the inode stands for.
    #[getter]
    fn st_rdev(&self) -> u32 {
        self.attr.rdev
    }

    /// Size in bytes.
    #[getter]
    fn st_size(&self) -> u64 {
        self.attr.size
    }

    /// Allocated blocks of 512 bytes.
    #[getter]
    fn st_blocks(&self) -> u64 {
        self.attr.blocks
    }

    /// Preferred size of reads and writes in bytes.
    #[getter]
    fn st_blksize(&self) -> u32 {
        self.attr.blksize
    }

    /// Last access, in seconds since the epoch.
    #[getter]
    fn st_atime(&self) -> f64 {
        seconds(self.attr.atime)
    }

    /// Last change of contents, in seconds since the epoch.
    #[getter]
    fn st_mtime(&self) -> f64 {
        seconds(self.attr.mtime)
    }

    /// Last change of contents or attributes, in seconds since the epoch.
    #[getter]
    fn st_ctime(&self) -> f64 {
        seconds(self.attr.ctime)
    }

    /// Creation, in seconds since the epoch.
    #[getter]
    fn st_birthtime(&self) -> f64 {
        seconds(self.attr.btime)
    }

    /// Last access, in nanoseconds since the epoch.
    #[getter]
    fn st_atime_ns(&self) -> i128 {
        nanoseconds(self.attr.atime)
    }

    /// Last change of contents, in nanoseconds since the epoch.
    #[getter]
    fn st_mtime_ns(&self) -> i128 {
        nanoseconds(self.attr.mtime)
    }

    /// Last change of contents or attributes, in nanoseconds since the epoch.
    #[getter]
    fn st_ctime_ns(&self) -> i128 {
        nanoseconds(self.attr.ctime)
    }

    /// Creation, in nanoseconds since the epoch.
    #[getter]
    fn st_birthtime_ns(&self) -> i128 {
        nanoseconds(self.attr.btime)
    }

    /// Tells inodes apart that had one number one after the other.
    #[getter]
    fn generation(&self) -> u32 {
        self.attr.generation
    }

    /// Project that the inode is charged to; 0 is none.
    #[getter]
    fn project(&self) -> u32 {
        self.attr.project
    }

    /// Inode flags, as lsattr(1) shows them (FS_*_FL).
    #[getter]
    fn flags(&self) -> u32 {
        self.attr.flags
    }

    fn __repr__(&self) -> String {
        let Attr { uid, gid, size, .. } = self.attr;
        let (mode, ino) = (self.attr.mode(), self.attr.shown_ino);
        format!(
            "Stat(st_mode=0o{mode:o}, st_ino={ino}, st_uid={uid}, st_gid={gid}, st_size={size})"
        )
    }
}

fn seconds(time: Time) -> f64 {
    time.sec as f64 + f64::from(time.nsec) * 1e-9
}

fn nanoseconds(time: Time) -> i128 {
    i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec)
}
