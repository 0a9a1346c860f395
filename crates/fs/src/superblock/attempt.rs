//! One attempt of an operation, and why it may stop before the end.

use super::Superblock;
use crate::errno::{Errno, Result};
use crate::quota::Refusal;
use hearth_sync::primitive::Arc;
use std::fmt::Debug;

/// Result of an attempt: the operation's value, or why it stopped.
pub(crate) type Attempt<T> = std::result::Result<T, Stop>;

/// Why an attempt stopped. Until then it has changed nothing.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The operation fails.
    Errno(Errno),
    /// Something is not in memory: it is fetched, and the operation runs again.
    Miss(Fetch),
    /// Lost a race; the operation runs again.
    Restart,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Errno(errno)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Errno(refusal.into())
    }
}

/// What an attempt lacked.
#[derive(Debug)]
pub(crate) enum Fetch {
    /// The inode with this number.
    Inode(u64),
    /// The inode that an entry means. If the inode is gone, so is the entry.
    Named {
        dir: u64,
        name: Box<[u8]>,
        ino: u64,
        generation: u32,
    },
    /// The parent of this directory. It may be gone as well, if this directory was removed or has
    /// another parent since.
    Above(u64),
    /// An entry of a directory.
    Entry { dir: u64, name: Box<[u8]> },
    /// All entries of this directory.
    Directory(u64),
    /// A page of a file.
    Page { ino: u64, index: u64 },
    /// Memory: this many bytes are to be reclaimed.
    Room(u64),
    /// The result of work that may take long.
    Deferred(Arc<dyn Deferred>),
}

/// Work that must not run inside an attempt, under its epoch guard: the answer to a command or the
/// text of a control file that walks the volume. Whoever asks for it knows where its result goes.
pub(crate) trait Deferred: Debug + Send + Sync {
    /// Does the work, with nothing pinned and no lock held.
    fn run(&self, sb: &Superblock) -> Result<()>;
}
