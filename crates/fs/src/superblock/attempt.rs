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
    /// Something is not in memory. It is fetched, and the operation runs again. In a box, so that
    /// the result of every step of an operation fits into two registers.
    Miss(Box<Fetch>),
    /// The attempt lost a race. The operation runs again.
    Restart,
}

const _: () = assert!(size_of::<Attempt<&u8>>() == 16);

impl Stop {
    /// A stop for what is to be fetched.
    #[cold]
    pub fn miss(fetch: Fetch) -> Stop {
        Stop::Miss(Box::new(fetch))
    }
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

/// What an attempt lacked, to be fetched before the next one.
#[derive(Debug)]
pub(crate) enum Fetch {
    /// The inode with this number.
    Inode(u64),
    /// The inode that an entry refers to. If the inode is gone, so is the entry.
    Named {
        dir: u64,
        name: Box<[u8]>,
        ino: u64,
        generation: u32,
    },
    /// Inodes of a listing, as far as they can be had.
    Listed(Box<[u64]>),
    /// The parent of this directory. The parent may be gone too, if this directory has been removed
    /// or moved since.
    Above(u64),
    /// An entry of a directory.
    Entry { dir: u64, name: Box<[u8]> },
    /// All entries of this directory.
    Directory(u64),
    /// The extended attributes of this inode.
    Attributes(u64),
    /// A page of a file; the operation wants this many from there on.
    Page { ino: u64, index: u64, pages: u64 },
    /// Room in the log: what was changed goes to the backend first.
    Sync,
    /// The end of a cut, or of another operation that was in the way.
    Turn,
    /// Room at the backend: everything is written back, and dead space is given back.
    Space,
    /// Memory: this many bytes are to be reclaimed.
    Room(u64),
    /// The result of work that may take long.
    Deferred(Arc<dyn Deferred>),
}

/// Work that must not run inside an attempt, under its epoch guard. Examples are the answer to a
/// command, and the text of a control file, that need a walk over the volume. The code that asks
/// for it knows where the result goes.
pub(crate) trait Deferred: Debug + Send + Sync {
    /// Does the work, with nothing pinned and no lock held.
    fn run(&self, sb: &Superblock) -> Result<()>;
}
