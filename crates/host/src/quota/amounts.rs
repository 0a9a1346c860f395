//! What an inode uses, by what the host says of it.

use super::Quotas;
use crate::sys;
use hearth::{Amounts, Attr, BLOCK, Kind};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::Statx;

/// `st_blocks` counts these.
pub const UNIT: u64 = 512;
/// Blocks of the file were allocated because a program asked for it.
const FS_XFLAG_PREALLOC: u32 = 2;
/// The file has a hint how much is to be allocated at once.
const FS_XFLAG_EXTSIZE: u32 = 0x800;
/// `XFS_SUPER_MAGIC`.
pub const XFS: u64 = 0x5846_5342;

/// Size and blocks as the host tells them.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub kind: Kind,
    pub size: u64,
    /// Of 512 bytes.
    pub blocks: u64,
}

impl Told {
    /// By `statx`.
    pub fn by(stat: &Statx, kind: Kind) -> Told {
        Told {
            kind,
            size: stat.stx_size,
            blocks: stat.stx_blocks,
        }
    }

    /// By the attributes of an operation.
    pub fn by_attr(attr: &Attr) -> Told {
        Told {
            kind: attr.kind,
            size: attr.size,
            blocks: attr.blocks,
        }
    }

    /// Blocks of the ledger, of which XFS may have allocated some ahead.
    pub fn all(&self) -> u64 {
        match self.kind {
            Kind::File | Kind::Symlink => (self.blocks * UNIT).div_ceil(BLOCK),
            _ => 0,
        }
    }
}

impl Quotas {
    /// What an inode uses that has a name or is open.
    pub fn amounts(&self, told: Told, fd: Option<BorrowedFd<'_>>) -> Amounts {
        let (all, within) = (told.all(), self.within(told.size));
        let is_ahead = self.is_xfs && told.kind == Kind::File && all > within;
        let blocks = match is_ahead && !fd.is_some_and(|fd| self.is_preallocated(fd)) {
            true => within,
            false => all,
        };
        [blocks, 1]
    }

    /// Blocks that a file of this size has without holes.
    pub fn within(&self, size: u64) -> u64 {
        size.div_ceil(self.unit) * (self.unit / BLOCK)
    }

    /// Bytes that a write into a hole of a file of XFS allocates at least, by the hint that was set
    /// for it, if there is one.
    pub fn unit_of(&self, fd: BorrowedFd<'_>) -> u64 {
        let hint = |found: sys::FsxAttr| match found.xflags & FS_XFLAG_EXTSIZE {
            0 => None,
            _ => Some(u64::from(found.extsize)),
        };
        let hinted = sys::get_fsxattr(fd).ok().and_then(hint);
        self.unit.max(hinted.unwrap_or(0))
    }

    /// Whether a program has asked for blocks ahead.
    pub fn is_preallocated(&self, fd: BorrowedFd<'_>) -> bool {
        let open = self.tree.open_for_ioctl(fd, Kind::File);
        open.and_then(|file| sys::get_fsxattr(file.as_fd()))
            .is_ok_and(|found| found.xflags & FS_XFLAG_PREALLOC != 0)
    }
}
