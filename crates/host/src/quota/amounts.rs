//! What an inode uses, by what the host says of it.

use super::Quotas;
use crate::node::Node;
use crate::sys;
use crate::tree::Tree;
use hearth::{Amounts, Attr, BLOCK, Kind};
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, Statx, fstat, getxattr, openat};
use rustix::io::Errno;

/// `st_blocks` counts these.
pub const UNIT: u64 = 512;
/// Blocks of the file were allocated because a program asked for it.
const FS_XFLAG_PREALLOC: u32 = 2;
/// The file has a hint how much is to be allocated at once.
const FS_XFLAG_EXTSIZE: u32 = 0x800;
/// What new inodes of a directory get.
const DEFAULT_ACL: &str = "system.posix_acl_default";
/// What ext4 has room for is shorter.
const USUAL_ACL: usize = 8 << 10;
const LONGEST_ACL: usize = 64 << 10;
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
        let all = told.all();
        let blocks = match told.kind {
            Kind::Directory if self.is_xfs && told.blocks > 0 => self.of_attributes(told.kind, fd),
            Kind::File if self.is_xfs && all > self.within(told.size) => {
                match fd.is_some_and(|fd| self.is_preallocated(fd)) {
                    true => all,
                    false => all.min(self.within(told.size) + self.of_attributes(told.kind, fd)),
                }
            }
            _ => all,
        };
        [blocks, 1]
    }

    /// Blocks that the extended attributes of a file or directory of XFS have.
    pub fn of_attributes(&self, kind: Kind, fd: Option<BorrowedFd<'_>>) -> u64 {
        let open = fd.and_then(|fd| self.tree.open_for_ioctl(fd, kind).ok());
        let bytes = open.and_then(|file| sys::xfs_attribute_bytes(file.as_fd()).ok());
        bytes.unwrap_or(0).div_ceil(BLOCK)
    }

    /// Blocks that an attribute with a value of `len` bytes may take.
    pub fn of_value(&self, len: usize) -> u64 {
        let len = len as u64;
        let own = match self.is_xfs {
            // Each block has a head of its own.
            true if len > self.unit / 2 => len.div_ceil(self.unit - 64),
            // It is in an inode of its own, where ext4 has those (`ea_inode`).
            false if len + 64 > self.block => len.div_ceil(self.unit),
            _ => 0,
        };
        (1 + own) * (self.unit / BLOCK)
    }

    /// Blocks that a new inode of this kind may have from the start: a long symbolic link, or the
    /// ACL that its directory hands down.
    pub fn of_new(&self, kind: Kind, parent: &Arc<Node>) -> u64 {
        if kind == Kind::Symlink {
            return self.unit / BLOCK + self.of_label(parent);
        }
        if !self.counts_attributes(kind) {
            return 0;
        }
        let label = match kind {
            Kind::File => self.of_label(parent),
            _ => 0,
        };
        // A directory hands it on, and has it for itself.
        let values = if kind == Kind::Directory { 2 } else { 1 };
        match self
            .tree
            .reach(parent)
            .map_or(0, |at| default_acl(at.as_fd()))
        {
            0 => label,
            len => label + values * self.of_value(len),
        }
    }

    /// Blocks of a label that a new file or link in this directory may have.
    fn of_label(&self, parent: &Node) -> u64 {
        let blocks = parent.charged.labels.get().or_else(|| self.labels.get());
        blocks.unwrap_or(0).into()
    }

    /// A file was made in a directory, for which `reserved` was reserved.
    pub fn learn_label(&self, parent: &Arc<Node>, reserved: Amounts, attr: &Attr) {
        if attr.kind != Kind::File || attr.size > 0 {
            return;
        }
        let others = reserved[0].saturating_sub(self.of_label(parent));
        let has = Told::by_attr(attr).all();
        let blocks = u32::try_from(has.saturating_sub(others)).unwrap_or(0);
        parent.charged.labels.set(blocks);
        self.labels.set(self.labels.get().unwrap_or(0).max(blocks));
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

/// Blocks of a label that the root gives: tried with a file that has no name and is never seen.
pub fn of_roots_label(tree: &Tree) -> u32 {
    // An ACL that it was given is reckoned by itself.
    if default_acl(tree.root()) > 0 {
        return 0;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let tried = openat(tree.root(), ".", flags, Mode::RUSR | Mode::WUSR);
    let blocks = tried
        .and_then(|file| fstat(&file))
        .map(|stat| stat.st_blocks);
    blocks.map_or(0, |blocks| (blocks as u64 * UNIT).div_ceil(BLOCK) as u32)
}

/// Bytes of the ACL that a directory hands down; 0 for none.
fn default_acl(directory: BorrowedFd<'_>) -> usize {
    let path = Tree::proc_path(directory);
    match getxattr(&*path, DEFAULT_ACL, &mut [0; USUAL_ACL]) {
        Err(Errno::RANGE) => LONGEST_ACL,
        length => length.unwrap_or(0),
    }
}
