//! What name lookups and renames share: the keys of the name hash and the rename lock.

use super::Superblock;
use crate::cache_padded::CachePadded;
use crate::hashed::{Hashed, NameKeys};
use ahash::RandomState;
use hearth_sync::lock::{Class, Lock};

/// The keys of the name hash, and the lock of renames across directories.
pub(crate) struct Namespace {
    /// Keys of the name hash. Immutable.
    pub keys: NameKeys,
    /// Held by renames of directories across directories, on a cache line of its own.
    /// Boxed, so that its alignment does not push the keys from what lookups read beside them.
    pub rename: Box<CachePadded<Lock<RenameLock, ()>>>,
}

pub(crate) struct RenameLock;
impl Class for RenameLock {
    const NAME: &'static str = "volume.rename";
    const RANK: u32 = 10;
}

impl Namespace {
    pub fn new() -> Namespace {
        Namespace {
            keys: keys(),
            rename: Box::new(CachePadded(Lock::new(()))),
        }
    }
}

impl Superblock {
    /// The name of a directory entry with its hash in this volume.
    #[inline(always)]
    pub fn hashed<'n>(&self, name: &'n [u8]) -> Hashed<'n> {
        self.names.keys.hashed(name)
    }
}

/// Random keys: a user cannot choose names whose hashes collide.
fn keys() -> NameKeys {
    NameKeys::from(&match cfg!(feature = "shuttle") {
        // A failing schedule must fail again when it is replayed.
        true => RandomState::with_seeds(1, 2, 3, 4),
        false => RandomState::new(),
    })
}
