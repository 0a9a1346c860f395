//! The parts below a store's backend.

use crate::engine::Compacted;
use crate::error::{Error, Result};
use crate::kv::{KvOp, Read};
use crate::schema::Block;
use bytes::Bytes;
use hearth_backend::{Page, PageSource};
use std::ops::Range;

/// Keys and values. A commit is atomic: each read, and each scan as a whole, sees all of it or
/// nothing.
pub trait KeyValues: Read + Send + Sync + 'static {
    /// The epoch of the last commit.
    fn epoch(&self) -> u64;

    /// How often it was opened for writing.
    fn opened(&self) -> u32;

    /// Applies `ops` as epoch `epoch`, one more than the last; returns when they are durable.
    fn commit(&self, epoch: u64, ops: &[KvOp]) -> Result<()>;

    /// Returns when what was committed before needs no replay any more.
    fn checkpoint(&self) -> Result<()>;

    /// Gives back the room of keys that were deleted before the last checkpoint, where that may be
    /// much and so many free bytes are enough for it. `None`: there was nothing to do.
    fn compact(&self, _free: u64) -> Result<Option<Compacted>> {
        Ok(None)
    }

    /// Ends everything that is under way.
    fn close(&self) -> Result<()>;

    /// Room in bytes: (all, free). `None` where nothing limits it.
    fn room(&self) -> Option<(u64, u64)>;

    /// Whether somebody reads it beside this writer, and may need segments that have died since.
    fn is_looked_at(&self) -> bool {
        false
    }

    /// What is wrong with it, although it was opened: for reading or to be repaired.
    fn damage(&self) -> Option<Error> {
        None
    }
}

/// Pages of one file.
#[derive(Clone, Debug)]
pub struct FilePages {
    /// Inode.
    pub ino: u64,
    /// Its generation.
    pub generation: u32,
    /// By rising index.
    pub pages: Vec<Page>,
}

/// Pages and the block that holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagesInBlock {
    /// Pages of 4,096 bytes; the first one is the block's first.
    pub pages: Range<u64>,
    /// Block.
    pub block: Block,
}

/// What the header of a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOrigin {
    /// Inode that the block was written for.
    pub ino: u64,
    /// Its generation.
    pub generation: u32,
    /// The page of the file that it began at then.
    pub page: u64,
    /// Block.
    pub block: Block,
}

/// Blocks of data in immutable segments.
pub trait Blocks: Send + Sync + 'static {
    /// Stores pages, durably when it returns. The places come by rising page.
    fn write(&self, ino: u64, generation: u32, pages: &dyn PageSource)
    -> Result<Vec<PagesInBlock>>;

    /// Stores pages of several files close together, for the places of each.
    fn write_files(&self, files: &[FilePages]) -> Result<Vec<Vec<PagesInBlock>>>;

    /// Passes the unpacked bytes of blocks that were written for this inode, verified, to `take`,
    /// in this order. After an error none is passed any more.
    fn read(
        &self,
        ino: u64,
        generation: u32,
        blocks: &[Block],
        take: &mut dyn FnMut(Bytes),
    ) -> Result<()>;

    /// Stores blocks once more, in as few segments as they fit in, and returns where each is now,
    /// in this order, once that is durable. One that cannot be read is an error of its own.
    fn rewrite(&self, blocks: &[Block]) -> Result<Vec<Result<Block>>>;

    /// The headers of all blocks of a segment.
    fn headers(&self, segment: u64) -> Result<Vec<BlockOrigin>>;

    /// Removes a segment; none that is there is no error.
    fn delete(&self, segment: u64) -> Result<()>;

    /// Commits have got to this epoch: what is stored from now on is newer.
    fn set_epoch(&self, epoch: u64);

    /// The first number that a segment may get that is written from this opening on.
    fn first(&self) -> u64;

    /// Numbers of all segments.
    fn list(&self) -> Result<Vec<u64>>;
}
