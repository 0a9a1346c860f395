//! Keys and values of the store: the exact bytes that `docs/design/format.md` describes.
//!
//! What different locks of a volume order lies under different keys, so no change of one reads and
//! rewrites what another one orders. Decoding takes any bytes: it never panics, and bytes that are
//! not exactly a value are [`Error::Corrupt`](crate::Error::Corrupt).

mod bytes;
mod extent;
mod inode;
pub mod key;
mod name;
mod owner;
mod volume;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::Random;

pub use bytes::corrupt;
pub use extent::{Block, Extent, Inline, PAGES_MAX, Place, part};
pub use inode::{Contents, Directory, Inode, Xattrs};
pub use name::{decode_target, encode_target};
pub use owner::Owner;
pub use volume::{Counters, Segment, Used, decode_unwritten, encode_unwritten, unwritten_pages};
