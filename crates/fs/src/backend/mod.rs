//! Where objects come from when they are not in memory, and where changes go.

mod memory;
mod test;

pub use memory::MemoryBackend;
pub use test::{Fault, TestBackend};

use crate::attr::{Attr, Target};
use crate::errno::Result;

/// A volume's backend. Calls come from any thread; a call may block and may fail with any errno, and
/// then the operation that needed it fails with that errno and has changed nothing.
pub trait Backend: Send + Sync + 'static {
    /// Whether objects may be dropped from memory because the backend gives them back. Without it the
    /// load functions are never called and changes are not reported.
    fn evictable(&self) -> bool;

    /// The highest number of an inode that it keeps, with a name or without; 0 if there is none.
    fn last_inode(&self) -> Result<u64>;

    /// The inode with this number.
    fn load_inode(&self, ino: u64) -> Result<Option<InodeRecord>>;

    /// The entry `name` of directory `dir`: what it means.
    fn load_entry(&self, dir: u64, name: &[u8]) -> Result<Option<Target>>;

    /// All entries of directory `dir`.
    fn load_directory(&self, dir: u64) -> Result<Vec<(Box<[u8]>, Target)>>;

    /// Page `index` (4,096 bytes, may be given shorter) of file `ino`; `None` is a hole.
    fn load_page(&self, ino: u64, index: u64) -> Result<Option<Vec<u8>>>;

    /// Indices of the pages of file `ino` that are not holes, in any order.
    fn list_pages(&self, ino: u64) -> Result<Vec<u64>>;

    /// Makes all changes or none.
    fn commit(&self, changes: &[Change<'_>]) -> Result<()>;

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
    /// Directory above, for directories.
    pub parent: u64,
    /// Target of a symbolic link.
    pub target: Box<[u8]>,
    /// Extended attributes, ACLs in their Linux xattr form among them.
    pub xattrs: Vec<Xattr>,
}

/// One change of the tree, as a backend logs it.
#[derive(Debug)]
pub enum Change<'a> {
    /// A new or changed inode.
    Put(&'a InodeRecord),
    /// The inode is gone: no name and nobody has it open.
    Drop(u64),
    /// `name` in `dir` now means `to`.
    Link {
        /// Directory.
        dir: u64,
        /// Name.
        name: &'a [u8],
        /// What it means now.
        to: Target,
    },
    /// `name` in `dir` is gone.
    Unlink {
        /// Directory.
        dir: u64,
        /// Name.
        name: &'a [u8],
    },
    /// Pages from this byte on are gone, and the last page is zero behind it.
    Truncate {
        /// File.
        ino: u64,
        /// New size in bytes.
        size: u64,
    },
    /// Every page of the file is gone; those that it still has are written again.
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

    fn commit(&self, changes: &[Change<'_>]) -> Result<()> {
        (**self).commit(changes)
    }

    fn write_page(&self, ino: u64, index: u64, bytes: &[u8]) -> Result<()> {
        (**self).write_page(ino, index, bytes)
    }

    fn sync(&self) -> Result<()> {
        (**self).sync()
    }
}
