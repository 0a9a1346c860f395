//! Payers: who is charged for an inode, and for which resource.

use std::collections::BTreeMap;

/// The payers of an inode, in the order in which they are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Payer {
    /// The volume.
    Volume,
    /// The owner; 0 has no limit.
    User(u32),
    /// The group; 0 has no limit.
    Group(u32),
    /// The project; 0 has no limit.
    Project(u32),
}

/// The kind of a payer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum PayerKind {
    Volume,
    User,
    Group,
    Project,
}

/// A resource that is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Bytes of pages of files, and of extended attributes that do not fit into the inode.
    Bytes,
    /// Inodes of any kind.
    Inodes,
}

/// One resource of one payer.
pub type Place = (Payer, Resource);

/// Usage of payers, by [`Resource`].
pub type Usage = BTreeMap<Payer, [u64; 2]>;

impl Payer {
    /// Returns its kind.
    pub fn kind(self) -> PayerKind {
        match self {
            Payer::Volume => PayerKind::Volume,
            Payer::User(_) => PayerKind::User,
            Payer::Group(_) => PayerKind::Group,
            Payer::Project(_) => PayerKind::Project,
        }
    }

    /// Returns whether no limit can be set.
    pub fn is_id_zero(self) -> bool {
        matches!(self, Payer::User(0) | Payer::Group(0) | Payer::Project(0))
    }
}

impl Resource {
    /// Both.
    pub const ALL: [Resource; 2] = [Resource::Bytes, Resource::Inodes];
}
