//! The seam between a volume and the backend that keeps it: plain data of inodes, the records of
//! what changed, and the trait [`Backend`]. See `docs/design/store.md`.
//!
//! It lies below both the filesystem and the stores, so neither knows the other.
#![forbid(unsafe_code)]

pub mod attr;
pub mod errno;
pub mod flags;
mod memory;
mod pages;
mod record;

pub use attr::{Attr, Kind, Target, Time};
pub use errno::{Errno, Result};
pub use memory::MemoryBackend;
pub use pages::{Page, PageSource};
pub use record::{Attrs, Edit, Extent, Inode, Place, Record, Xattr};

use std::ops::Range;

/// A volume's backend: gives back what is not in memory, and keeps what was changed.
///
/// Calls come from any thread that may block, with no lock of the volume held and no epoch pinned.
/// [`Backend::commit`] is called by one thread at a time; everything else by many at once, also
/// beside a commit.
pub trait Backend: Send + Sync + 'static {
    /// Whether it keeps anything: objects may be evicted from memory because it can give them
    /// back. Where not, no other function is called. Asked once, when the volume is built.
    fn is_durable(&self) -> bool;

    /// What an opened volume needs to go on. `None`: the volume is new, and its first commit makes
    /// the root.
    fn restart(&self) -> Result<Option<Restart>>;

    /// The inode with this number, as of the last commit.
    fn load_inode(&self, ino: u64) -> Result<Option<Inode>>;

    /// Inodes with numbers in `range`, each with what [`Backend::load_allocation`] returns of it,
    /// in any order. Asked ahead of need: those that are dear to load may be left out, all of them
    /// where each costs as much as the one that is needed, and one that changes beside the call
    /// may be torn.
    fn load_inodes(&self, _range: Range<u64>) -> Result<Vec<(Inode, Allocation)>> {
        Ok(Vec::new())
    }

    /// The target of entry `name` of directory `dir`, as of the last commit.
    fn load_entry(&self, dir: u64, name: &[u8]) -> Result<Option<Target>>;

    /// All entries of directory `dir`, as of the last commit, in any order.
    fn load_directory(&self, dir: u64) -> Result<Vec<(Box<[u8]>, Target)>>;

    /// Those of `pages` of file `ino` that are allocated, in ranges by rising index; true where
    /// they were written, false where they are allocated and read as zeros.
    fn load_allocation(&self, ino: u64, pages: Range<u64>) -> Result<Allocation>;

    /// Passes the contents of written pages of file `ino` in `pages` to `take`: index and up to
    /// 4,096 bytes, the rest is zero. Skips holes.
    fn load_pages(
        &self,
        ino: u64,
        pages: Range<u64>,
        take: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<()>;

    /// Stores pages of a file. Returns where they are once they are durable, by rising index. They
    /// belong to the file when a record that names them is committed; places that no commit names
    /// are given back by the backend in time.
    fn write_pages(&self, ino: u64, generation: u32, pages: &dyn PageSource)
    -> Result<Vec<Extent>>;

    /// Applies the records of epoch `epoch`, in any order, all or none of them, and returns when
    /// they are durable and the load functions see them. Epochs rise by at least one from commit to
    /// commit.
    ///
    /// # Errors
    /// `ENOSPC`: there is no room now. The backend keeps the records, and applies them with those
    /// of the next call, which comes with a later epoch and perhaps no record. Any other error: the
    /// backend refuses every commit from now on.
    fn commit(&self, epoch: u64, records: Vec<Record>) -> Result<()>;

    /// Room in bytes: (all, free). `None`: the volume's own size is the limit.
    fn room(&self) -> Option<(u64, u64)>;

    /// Idle work, such as collecting dead space; true if there is more to do.
    fn tidy(&self) -> bool;

    /// Ends everything that is under way. No call follows but drop.
    fn close(&self) -> Result<()>;
}

/// Ranges of allocated pages, by rising index, and whether each was written.
pub type Allocation = Vec<(Range<u64>, bool)>;

/// Key and value of a setting.
pub type Setting = (Box<[u8]>, Box<[u8]>);

/// What an opened volume needs to go on.
#[derive(Clone, Debug, Default)]
pub struct Restart {
    /// No inode up to this number is given to a new inode.
    pub last_inode: u64,
    /// How often the volume was opened for writing: generations of new inodes begin with it, so
    /// that a number that was lost in a crash never comes back with the same generation.
    pub opened: u32,
    /// The number of the last commit.
    pub epoch: u64,
    /// Blocks of 4,096 bytes and inodes charged to each owner: sums over all inodes.
    pub usage: Vec<Usage>,
    /// All settings that were recorded with [`Record::Setting`].
    pub settings: Vec<Setting>,
    /// Inodes without a name that were open when the volume ended: number and generation. They are
    /// to be ended.
    pub orphans: Vec<(u64, u32)>,
}

/// What the inodes of one set of owners take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project.
    pub project: u32,
    /// Blocks of 4,096 bytes.
    pub blocks: u64,
    /// Inodes.
    pub inodes: u64,
}

impl<B: Backend + ?Sized> Backend for std::sync::Arc<B> {
    fn is_durable(&self) -> bool {
        (**self).is_durable()
    }

    fn restart(&self) -> Result<Option<Restart>> {
        (**self).restart()
    }

    fn load_inode(&self, ino: u64) -> Result<Option<Inode>> {
        (**self).load_inode(ino)
    }

    fn load_inodes(&self, range: Range<u64>) -> Result<Vec<(Inode, Allocation)>> {
        (**self).load_inodes(range)
    }

    fn load_entry(&self, dir: u64, name: &[u8]) -> Result<Option<Target>> {
        (**self).load_entry(dir, name)
    }

    fn load_directory(&self, dir: u64) -> Result<Vec<(Box<[u8]>, Target)>> {
        (**self).load_directory(dir)
    }

    fn load_allocation(&self, ino: u64, pages: Range<u64>) -> Result<Allocation> {
        (**self).load_allocation(ino, pages)
    }

    fn load_pages(
        &self,
        ino: u64,
        pages: Range<u64>,
        take: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<()> {
        (**self).load_pages(ino, pages, take)
    }

    fn write_pages(
        &self,
        ino: u64,
        generation: u32,
        pages: &dyn PageSource,
    ) -> Result<Vec<Extent>> {
        (**self).write_pages(ino, generation, pages)
    }

    fn commit(&self, epoch: u64, records: Vec<Record>) -> Result<()> {
        (**self).commit(epoch, records)
    }

    fn room(&self) -> Option<(u64, u64)> {
        (**self).room()
    }

    fn tidy(&self) -> bool {
        (**self).tidy()
    }

    fn close(&self) -> Result<()> {
        (**self).close()
    }
}
