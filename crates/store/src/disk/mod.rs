//! Files of a volume below the engine: superblock, log, witness, lock and ballast.
//!
//! Names are relative to the volume's directory, with `/` between folders; "" is the directory
//! itself. `real` is the operating system, [`simulated`] forgets what was not synced.

pub(crate) mod lock;
pub(crate) mod modes;
pub(crate) mod real;
pub mod simulated;
#[allow(unsafe_code)]
mod sys;

use crate::error::Result;
use hearth_sync::primitive::Arc;
use std::ops::Range;
use std::path::Path;

/// Where the files of one volume are.
pub trait Disk: Send + Sync {
    /// The volume's directory, for messages.
    fn place(&self) -> &Path;

    /// Opens a file that is there.
    ///
    /// # Errors
    /// [`crate::Error::Linked`] for writing where it has another name.
    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn File>>;

    /// Makes a file that is not there, which its owner alone may open.
    fn create(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Makes a folder that its owner alone may enter.
    fn make_dir(&self, name: &str) -> Result<()>;

    /// Names in a folder, in any order.
    fn list(&self, name: &str) -> Result<Vec<String>>;

    /// Moves a file over another.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file, or a folder with all that is in it. No error if it is not there.
    fn remove(&self, name: &str) -> Result<()>;

    /// Takes from everybody but its owner what an older version let them do with a file or folder.
    /// No error if it is not there.
    fn make_private(&self, name: &str) -> Result<()>;

    /// Makes the names in a folder durable.
    fn sync_dir(&self, name: &str) -> Result<()>;

    /// Takes the lock that is the file `name`, alone if `owner` is there, and writes `owner` into
    /// it. It is held until the returned value is dropped or the process ends.
    ///
    /// # Errors
    /// [`crate::Error::InUse`] with what the holder wrote.
    fn lock(&self, name: &str, owner: Option<&str>) -> Result<Box<dyn Send + Sync>>;

    /// Tells the writer that files of the folder `name` are read that it no longer needs, until the
    /// returned value is dropped or the process ends. `None` where that cannot be told.
    fn share(&self, name: &str) -> Option<Box<dyn Send + Sync>>;

    /// Whether anybody has told that of the folder.
    fn is_shared(&self, name: &str) -> bool;

    /// Bytes of the filesystem that holds the volume: all, and free for this process.
    fn room(&self) -> Result<(u64, u64)>;
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading alone.
    Read,
    /// Reading and writing.
    Write,
}

/// A file. Offsets and lengths are in bytes.
pub trait File: Send + Sync {
    /// Its length.
    fn size(&self) -> Result<u64>;

    /// Reads from `at` on until `into` is full or the file ends; returns how much.
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize>;

    /// Writes all of `bytes`, or fails having written any part of them.
    fn write_at(&self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Has the disk begin to write `range`, before the sync that makes it durable. Does not wait.
    fn start_writeback(&self, range: Range<u64>);

    /// Makes what was written durable: one flush.
    fn sync(&self) -> Result<()>;

    /// Gives the file `len` bytes of room that no other file gets.
    fn allocate(&self, len: u64) -> Result<()>;

    /// Cuts the file off at `len`.
    fn truncate(&self, len: u64) -> Result<()>;
}
