//! Files whose heat a volume tracks though they are no inodes of it: those of a directory of the
//! host (`docs/design/host.md`).

use super::PathInfo;
use super::key::{Access, Key};
use super::record::FileId;
use super::state::file_id;
use super::tenants::FileTenants;
use crate::errno::Result;
use crate::inode::{Inode, InodeExt};
use crate::superblock::Objects;
use hearth_sync::epoch::Guard;
use hearth_sync::primitive::Arc;
use std::collections::HashMap;

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

/// Key and value of a group of records: see [`crate::backend::Setting`].
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

    /// Keeps the heat of the files that `is_recorded` knows, which replaces what was kept before.
    /// May block.
    fn keep(&self, groups: Vec<KeptGroup>, is_recorded: &dyn Fn(ForeignFile) -> bool);

    /// Inodes, and bytes that they take on their filesystem.
    fn used(&self) -> (u64, u64);

    /// Inodes that are known now.
    fn in_memory(&self) -> u64;

    /// What is counted, in one word: `accesses`, or `opens` where nobody sees more.
    fn counts(&self) -> &'static str;
}

/// A file that has counts, wherever it is.
pub(super) enum Tracked<'g> {
    Inode(&'g Inode),
    Foreign(ForeignFacts),
    /// An inode that is not in memory.
    Evicted,
}

impl<'g> Tracked<'g> {
    /// The file of a record; `None` if it has ended.
    pub fn of(objects: &'g Objects, file: FileId, g: &'g Guard) -> Option<Tracked<'g>> {
        if let Some(files) = objects.foreign() {
            return files.facts(foreign(file)).map(Tracked::Foreign);
        }
        match objects.inodes.get(file.0, g) {
            Some(inode) if file_id(file.0, inode.generation()) == file && !inode.is_dead() => {
                Some(Tracked::Inode(inode))
            }
            _ if objects.log.is_some() => Some(Tracked::Evicted),
            _ => None,
        }
    }

    /// Its owners, as far as they are known.
    pub fn tenants(&self) -> Option<FileTenants> {
        match self {
            Tracked::Inode(inode) => Some(FileTenants::of(&inode.fields())),
            Tracked::Foreign(facts) => Some(FileTenants::of_facts(facts)),
            Tracked::Evicted => None,
        }
    }

    /// Its size, as far as that is known.
    pub fn size(&self) -> Option<u64> {
        match self {
            Tracked::Inode(inode) => inode.data().map(|_| inode.meta.size()),
            Tracked::Foreign(facts) => Some(facts.size),
            Tracked::Evicted => None,
        }
    }

    /// The inode, if it is one of the volume in memory.
    pub fn inode(&self) -> Option<&'g Inode> {
        match self {
            Tracked::Inode(inode) => Some(inode),
            Tracked::Foreign(_) | Tracked::Evicted => None,
        }
    }
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

    /// The same file with those bits of the generation that count.
    pub fn normal(self) -> ForeignFile {
        foreign(self.id())
    }
}

impl super::Heat<'_> {
    /// Tracks these files from now on, and no inode of the volume. The first ones stay. `kept` is
    /// what [`ForeignFiles::keep`] got; returns how many of its values could not be read.
    pub fn track_foreign(&self, files: Arc<dyn ForeignFiles>, kept: &[KeptGroup]) -> usize {
        self.sb.objects.set_foreign(files);
        self.sb.take_up_heat(kept)
    }

    /// Counts a read of `len` bytes at `off`.
    pub fn note_read(&self, file: ForeignFile, off: u64, len: u64) {
        self.sb.heat.note_file(file.id(), Access::Read, off, len);
    }

    /// Counts a write of `len` bytes at `off`.
    pub fn note_write(&self, file: ForeignFile, off: u64, len: u64) {
        self.sb.heat.note_file(file.id(), Access::Write, off, len);
    }

    /// Counts a use of a whole file of `len` bytes of which no more is known: it has no ranges.
    pub fn note_whole(&self, file: ForeignFile, writes: bool, len: u64) {
        let access = if writes { Access::Write } else { Access::Read };
        self.sb.heat.note_whole(file.id(), access, len);
    }

    /// A file has a new end.
    pub fn truncated(&self, file: ForeignFile, size: u64) {
        self.sb.heat.cut_file(file.id(), size);
    }

    /// A file has ended: its records go.
    pub fn ended(&self, file: ForeignFile) {
        self.sb.heat.forget_file(file.id());
    }

    /// What is counted: see [`ForeignFiles::counts`].
    pub fn counts(&self) -> &'static str {
        let files = self.sb.objects.foreign();
        files.map_or("accesses", |files| files.counts())
    }

    /// Bytes of all files, with records or without.
    pub fn used_bytes(&self) -> Option<u64> {
        self.sb.objects.foreign().map(|files| files.used().1)
    }
}

/// The key of accesses to a whole file.
pub(super) fn whole((number, generation): FileId) -> Key {
    Key::new(number, generation, Key::NO_RANGE)
}
