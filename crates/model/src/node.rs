//! Inodes.

use std::collections::BTreeMap;

use crate::acl::Acl;
use crate::data::{PAGE, Pages};
use crate::outcome::{Kind, Stamp};

/// Names an inode permanently.
pub type NodeId = u64;

/// The root directory.
pub const ROOT: NodeId = 1;

/// The type and contents of an inode.
#[derive(Debug, Clone)]
pub enum Content {
    /// Regular file.
    File(Pages),
    /// Directory.
    Directory(Directory),
    /// Symbolic link with its target.
    Symlink(Vec<u8>),
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device.
    Char(u32),
    /// Block device.
    Block(u32),
}

/// Entries of a directory.
#[derive(Debug, Clone)]
pub struct Directory {
    /// By name, without "." and "..".
    pub entries: BTreeMap<Vec<u8>, NodeId>,
    /// Where ".." leads; the root's parent is the root.
    pub parent: NodeId,
    /// Removed while a process still holds it.
    pub removed: bool,
}

/// An inode. Inodes are never dropped, so a dangling id cannot exist.
#[derive(Debug, Clone)]
pub struct Node {
    pub perm: u16,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub atime: Stamp,
    pub mtime: Stamp,
    /// `FS_*_FL`
    pub flags: u32,
    pub project: u32,
    /// All but ACLs.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub acl: Option<Acl>,
    pub default_acl: Option<Acl>,
    pub content: Content,
    /// Made by `O_TMPFILE` without `O_EXCL`: it may get its first name later.
    pub linkable: bool,
}

impl Node {
    pub fn kind(&self) -> Kind {
        match self.content {
            Content::File(_) => Kind::File,
            Content::Directory(_) => Kind::Directory,
            Content::Symlink(_) => Kind::Symlink,
            Content::Fifo => Kind::Fifo,
            Content::Socket => Kind::Socket,
            Content::Char(_) => Kind::Char,
            Content::Block(_) => Kind::Block,
        }
    }

    pub fn is_dir(&self) -> bool {
        matches!(self.content, Content::Directory(_))
    }

    pub fn is_symlink(&self) -> bool {
        matches!(self.content, Content::Symlink(_))
    }

    pub fn directory(&self) -> Option<&Directory> {
        match &self.content {
            Content::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub fn directory_mut(&mut self) -> Option<&mut Directory> {
        match &mut self.content {
            Content::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub fn pages(&self) -> Option<&Pages> {
        match &self.content {
            Content::File(pages) => Some(pages),
            _ => None,
        }
    }

    pub fn pages_mut(&mut self) -> Option<&mut Pages> {
        match &mut self.content {
            Content::File(pages) => Some(pages),
            _ => None,
        }
    }

    pub fn rdev(&self) -> u32 {
        match self.content {
            Content::Char(rdev) | Content::Block(rdev) => rdev,
            _ => 0,
        }
    }

    pub fn size(&self) -> u64 {
        match &self.content {
            Content::File(pages) => pages.size(),
            Content::Symlink(target) => target.len() as u64,
            _ => 0,
        }
    }

    /// Pages that extended attributes fill, if the filesystem gives them pages.
    pub fn attribute_pages(&self) -> u64 {
        let plain = self
            .xattrs
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let acls = [("access", &self.acl), ("default", &self.default_acl)].into_iter();
        let acls = acls.filter_map(|(name, acl)| {
            let name = "system.posix_acl_".len() + name.len();
            Some(name + acl.as_ref()?.serialise().len())
        });
        (plain.sum::<usize>() + acls.sum::<usize>()).div_ceil(PAGE as usize) as u64
    }

    pub fn immutable(&self) -> bool {
        self.flags & libc_flags::IMMUTABLE != 0
    }

    pub fn append_only(&self) -> bool {
        self.flags & libc_flags::APPEND != 0
    }

    /// Notes a read: moves atime like `relatime`. ctime is always "now", so every atime except one
    /// in the future is older and moves. One in the future moves only for a later mtime.
    pub fn accessed(&mut self) {
        if self.flags & libc_flags::NOATIME != 0 {
            return;
        }
        let future = |stamp: Stamp| match stamp {
            Stamp::At(sec, nsec) if sec >= Stamp::TO => Some((sec, nsec)),
            _ => None,
        };
        if future(self.atime).is_none() || future(self.atime) <= future(self.mtime) {
            self.atime = Stamp::Now;
        }
    }

    /// Notes a change of content.
    pub fn modified(&mut self) {
        self.mtime = Stamp::Now;
    }
}

/// `FS_*_FL` and `FS_XFLAG_*` bits that the model knows.
pub mod libc_flags {
    pub const IMMUTABLE: u32 = 0x10;
    pub const APPEND: u32 = 0x20;
    pub const NODUMP: u32 = 0x40;
    pub const NOATIME: u32 = 0x80;
    pub const PROJINHERIT: u32 = 0x2000_0000;

    /// Returns these flags as `FS_XFLAG_*`.
    pub const XFLAGS: [(u32, u32); 5] = [
        (IMMUTABLE, 0x8),
        (APPEND, 0x10),
        (NOATIME, 0x40),
        (NODUMP, 0x80),
        (PROJINHERIT, 0x200),
    ];
}
