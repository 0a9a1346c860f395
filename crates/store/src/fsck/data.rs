//! What a check asks of segments.

use crate::error::Result;
use crate::schema::Block;

/// Segments as files.
pub trait Data {
    /// Everything among the segments.
    fn list(&self) -> Result<Listed>;

    /// What is wrong with the beginning or the end of a segment.
    fn ends(&self, segment: u64) -> Result<Option<String>>;

    /// What is wrong with the bytes of a block.
    fn block(&self, block: &Block) -> Result<Option<String>>;
}

/// What lies among the segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Numbers and lengths of segments, rising.
    pub segments: Vec<(u64, u64)>,
    /// Other files, relative to the volume's directory.
    pub strange: Vec<String>,
}
