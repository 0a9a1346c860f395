//! Hard limits of users, groups, projects and the volume.

use std::collections::BTreeMap;

/// Who pays for an inode, in the order in which they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Payer {
    /// Everything.
    Volume,
    /// The owner; 0 has no limit.
    User(u32),
    /// The group; 0 has no limit.
    Group(u32),
    /// The project; 0 has no limit.
    Project(u32),
}

/// The most inodes and pages that a payer may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// Inodes of any kind.
    pub inodes: u64,
    /// Pages of files, and of extended attributes that the inode has no room for.
    pub pages: u64,
}

/// The limits of a volume. Whoever is not named has none.
pub type Limits = BTreeMap<Payer, Most>;
