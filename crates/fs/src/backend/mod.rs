//! Where objects come from when they are not in memory, and where changes go.

mod memory;
mod test;

pub use memory::MemoryBackend;
pub use test::{Fault, TestBackend};

use crate::attr::{Attr, Target};
use crate::errno::Result;

/// A volume's backend. Calls come from any thread. A call may block, and may fail with any errno;
/// then the operation that needed it fails with that errno and has changed nothing.
pub trait Backend: Send + Sync + 'static {
    /// Whether objects may be evicted from memory because the backend can give them back. Where
    /// not, the load functions are never called and changes are not reported.
    fn evictable(&self) -> bool;

    /// The highest inode number that it keeps, linked or unlinked; 0 if there is none.
    fn last_inode(&self) -> Result<u64>;

    /// The inode with this number.
    fn load_inode(&self, ino: u64) -> Result<Option<InodeRecord>>;

    /// The target of entry `name` of directory `dir`.
    fn load_entry(&self, dir: u64, name: &[u8]) -> Result<Option<Target>>;

    /// All entries of directory `dir`.
    fn load_directory(&self, dir: u64) -> Result<Vec<(Box<[u8]>, Target)>>;

    /// Page `index` of file `ino`: 4,096 bytes, or fewer if the rest is zero; `None` is a hole.
    fn load_page(&self, ino: u64, index: u64) -> Result<Option<Vec<u8>>>;

    /// Indices of the pages of file `ino` that are not holes, in any order.
    fn list_pages(&self, ino: u64) -> Result<Vec<u64>>;

    /// Makes all changes or none.
    fn commit(&self, changes: &[BackendOp<'_>]) -> Result<()>;

    /// Writes back one page of a file.
    fn write_page(&self, ino: u64, index: u64, bytes: &[u8]) -> Result<()>;

    /// Returns when everything committed and written before is durable.
    fn sync(&self) -> Result<()>;
}

/// Name and value of an extended attribute.
pub type Xattr = (Box<[u8]>, Box<[u8]>);

/// An inode as its backend keeps it.
#[derive(Clone, Debug)]
pub struct InodeRecord {
    /// Attributes; `size` of a directory and `nlink` of a directory are derived and ignored.
    pub attr: Attr,
    /// Entries of a directory: (all, subdirectories).
    pub entries: (u64, u64),
    /// Parent of a directory.
    pub parent: u64,
    /// Target of a symbolic link.
    pub target: Box<[u8]>,
    /// Extended attributes, including ACLs in their Linux xattr form.
    pub xattrs: Vec<Xattr>,
}

/// One change of the tree, as a backend logs it.
#[derive(Debug)]
pub enum BackendOp<'a> {
    /// A new or changed inode.
    Put(&'a InodeRecord),
    /// The inode is gone: it has no name and nobody has it open.
    Drop(u64),
    /// `name` in `dir` now means `to`.
    Link {
        /// Directory.
        dir: u64,
        /// Name.
        name: &'a [u8],
        /// Its new target.
        to: Target,
    },
    /// `name` in `dir` is gone.
    Unlink {
        /// Directory.
        dir: u64,
        /// Name.
        name: &'a [u8],
    },
    /// Pages from this byte on are gone, and the rest of the last page is zero.
    Truncate {
        /// File.
        ino: u64,
        /// New size in bytes.
        size: u64,
    },
    /// Every page of the file is gone; pages that it still has are written again.
    Rewrite(u64),
}

impl<H: Backend> Backend for hearth_sync::primitive::Arc<H> {
    fn evictable(&self) -> bool {
        (**self).evictable()
    }

    fn last_inode(&self) -> Result<u64> {
        (**self).last_inode()
    }

    fn load_inode(&self, ino: u64) -> Result<Option<InodeRecord>> {
        (**self).load_inode(ino)
    }

    fn load_entry(&self, dir: u64, name: &[u8]) -> Result<Option<Target>> {
        (**self).load_entry(dir, name)
    }

    fn load_directory(&self, dir: u64) -> Result<Vec<(Box<[u8]>, Target)>> {
        (**self).load_directory(dir)
    }

    fn load_page(&self, ino: u64, index: u64) -> Result<Option<Vec<u8>>> {
        (**self).load_page(ino, index)
    }

    fn list_pages(&self, ino: u64) -> Result<Vec<u64>> {
        (**self).list_pages(ino)
    }

    fn commit(&self, changes: &[BackendOp<'_>]) -> Result<()> {
        (**self).commit(changes)
    }

    fn write_page(&self, ino: u64, index: u64, bytes: &[u8]) -> Result<()> {
        (**self).write_page(ino, index, bytes)
    }

    fn sync(&self) -> Result<()> {
        (**self).sync()
    }
}
