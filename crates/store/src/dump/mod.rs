//! Dumps: all that a volume holds as one stream, and the way back. The stream is a tar archive with
//! pax records; `docs/design/dump.md` says what stands in it.

mod beneath;
mod block;
mod dress;
mod entry;
mod error;
mod into_directory;
mod into_volume;
mod open_directory;
mod order;
mod pax;
mod record_batch;
mod save;
mod seen;
mod stream;

pub use error::{DumpError, StreamFault};
pub use into_directory::{TOO_LARGE, into_directory};
pub use into_volume::into_volume;
pub use save::{FirstRoot, save};
pub use stream::{DumpReader, Head, VERSION};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Inode number of the root.
const ROOT: u64 = 1;

/// Bytes of the largest file.
const SIZE_MAX: u64 = i64::MAX as u64;

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Names that are done.
    pub members: u64,
    /// Bytes of files that are done.
    pub bytes: u64,
}

/// Is told how far it is, often.
pub type DumpWatch<'a> = &'a mut dyn FnMut(&Progress);

#[cfg(test)]
mod tests;
