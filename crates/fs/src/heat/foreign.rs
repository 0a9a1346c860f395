//! Files whose heat a volume tracks though they are no inodes of it: those of a directory of the
//! host (`docs/design/host.md`).

use super::key::{Key, file_id};
use super::path_info::PathInfo;
use super::record::FileId;
use crate::errno::Result;
use std::collections::{HashMap, HashSet};

/// A file: the number that programs see, and what tells apart files that had that number one after
/// the other. Of the latter 20 bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForeignFile {
    /// Inode number.
    pub number: u64,
    /// Generation, or a hash of what does for one.
    pub generation: u32,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForeignFacts {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project.
    pub project: u32,
    /// Size in bytes.
    pub size: u64,
}

/// Key and value of a group of records: see [`hearth_backend::Setting`].
pub type KeptGroup = (Box<[u8]>, Box<[u8]>);

/// The files of a volume whose files are not its own.
pub trait ForeignFiles: Send + Sync + 'static {
    /// What is known of a file, from memory alone. `None`: it has ended, or nothing is known of it.
    /// Called with locks of heat held.
    fn facts(&self, file: ForeignFile) -> Option<ForeignFacts>;

    /// The file that has this number, from memory alone.
    fn of_number(&self, number: u64) -> Option<ForeignFile>;

    /// Where a file ends now, `None` if it is gone. May block.
    ///
    /// # Errors
    /// It cannot be found out.
    fn end_of(&self, file: ForeignFile) -> Result<Option<u64>>;

    /// The file at a path below the root, as if it had been used. May block.
    fn at_path(&self, path: &[u8]) -> Option<ForeignFile>;

    /// Paths and attributes of files by their numbers. May block.
    ///
    /// # Errors
    /// They cannot be found out.
    fn paths(&self, numbers: &[u64]) -> Result<HashMap<u64, PathInfo>>;

    /// Keeps the heat of the files `kept`, which replaces what was kept before. What is known of a
    /// file that `is_recorded` does not know may be forgotten. May block. Returns whether it is
    /// kept.
    fn keep(
        &self,
        groups: Vec<KeptGroup>,
        kept: &HashSet<ForeignFile>,
        is_recorded: &dyn Fn(ForeignFile) -> bool,
    ) -> bool;

    /// Inodes, and bytes that they take on their filesystem.
    fn used(&self) -> (u64, u64);

    /// Inodes that are known now.
    fn in_memory(&self) -> u64;

    /// What is counted, in one word: `accesses`, or `opens` where nobody sees more.
    fn counts(&self) -> &'static str;
}

/// The file of an id.
pub(super) fn foreign((number, generation): FileId) -> ForeignFile {
    ForeignFile { number, generation }
}

impl ForeignFile {
    /// Its id in records.
    pub(super) fn id(self) -> FileId {
        file_id(self.number, self.generation)
    }

    /// This file with those bits of the generation that count.
    pub fn normal(self) -> ForeignFile {
        foreign(self.id())
    }
}

/// The key of accesses to a whole file.
pub(super) fn whole((number, generation): FileId) -> Key {
    Key::new(number, generation, Key::NO_RANGE)
}
