//! Files of records, wherever they are: inodes of the volume, or files that are not its own.

use super::foreign::{ForeignFacts, foreign};
use super::key::file_id;
use super::record::FileId;
use super::tenants::FileTenants;
use crate::inode::{Inode, InodeExt};
use crate::superblock::Objects;
use hearth_sync::epoch::Guard;

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
