//! What a check asks of segments.

use crate::error::Result;
use crate::schema::Block;

/// Segments as files.
pub trait Data {
    /// Everything among the segments.
    fn list(&self) -> Result<Listed>;

    /// What is wrong with the beginning or the end of a segment.
    fn ends(&self, segment: u64) -> Result<Option<String>>;

    /// The headers of a segment that can be read.
    fn headers(&self, segment: u64) -> Result<Vec<StoredHeader>>;

    /// What is wrong with the bytes of a block.
    fn block(&self, block: &Block) -> Result<Option<String>>;
}

/// What a header says of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredHeader {
    /// Inode that it was written for.
    pub ino: u64,
    /// Its generation.
    pub generation: u32,
    /// The page that it began at then.
    pub page: u64,
    /// The epoch in which it was written.
    pub epoch: u64,
    /// Block.
    pub block: Block,
}

/// What lies among the segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Numbers and lengths of segments, rising.
    pub segments: Vec<(u64, u64)>,
    /// Other files, relative to the volume's directory.
    pub strange: Vec<String>,
}
