//! Kinds of quota, ids, resources and owners.

use std::fmt;

/// A kind of quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuotaKind {
    /// The whole volume; its only id is 0.
    Volume,
    /// The owner of an inode.
    User,
    /// The group of an inode.
    Group,
    /// The project id of an inode.
    Project,
}

impl QuotaKind {
    /// All kinds, in the order in which limits are checked: the volume refuses before a quota does.
    pub const ALL: [QuotaKind; 4] = [
        QuotaKind::Volume,
        QuotaKind::User,
        QuotaKind::Group,
        QuotaKind::Project,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            QuotaKind::Volume => "volume",
            QuotaKind::User => "user",
            QuotaKind::Group => "group",
            QuotaKind::Project => "project",
        }
    }
}

/// One user, group or project, or the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuotaId {
    /// Kind.
    pub kind: QuotaKind,
    /// Number; 0 for the volume.
    pub id: u32,
}

impl QuotaId {
    /// The volume itself.
    pub const VOLUME: QuotaId = QuotaId {
        kind: QuotaKind::Volume,
        id: 0,
    };

    /// A user that could not be learned, where an event has to name one: the id that nobody has.
    pub const UNKNOWN_USER: QuotaId = QuotaId {
        kind: QuotaKind::User,
        id: u32::MAX,
    };

    /// The number of a user, group or project that is known.
    pub fn known(self) -> Option<u32> {
        (self != QuotaId::UNKNOWN_USER).then_some(self.id)
    }

    /// User `id`.
    pub fn user(id: u32) -> QuotaId {
        QuotaId {
            kind: QuotaKind::User,
            id,
        }
    }

    /// Group `id`.
    pub fn group(id: u32) -> QuotaId {
        QuotaId {
            kind: QuotaKind::Group,
            id,
        }
    }

    /// Project `id`.
    pub fn project(id: u32) -> QuotaId {
        QuotaId {
            kind: QuotaKind::Project,
            id,
        }
    }
}

impl fmt::Display for QuotaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            QuotaKind::Volume => f.write_str("volume"),
            kind => write!(f, "{}:{}", kind.name(), self.id),
        }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Blocks of [`BLOCK`] bytes.
    Blocks,
    /// Inodes.
    Inodes,
}

impl Resource {
    /// Both.
    pub const ALL: [Resource; 2] = [Resource::Blocks, Resource::Inodes];

    /// The unit in which people count it: bytes or inodes.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Blocks => "bytes",
            Resource::Inodes => "inodes",
        }
    }

    /// One unit of the ledger, in the unit in which people count.
    pub(crate) fn unit(self) -> u64 {
        match self {
            Resource::Blocks => BLOCK,
            Resource::Inodes => 1,
        }
    }
}

/// Bytes of a block, the unit in which space is charged.
pub const BLOCK: u64 = 4096;

/// The ids that an inode is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owners {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project; 0 is none.
    pub project: u32,
}

impl Owners {
    /// The owners that a volume without quotas charges.
    pub const NOBODY: Owners = Owners {
        uid: 0,
        gid: 0,
        project: 0,
    };

    /// The four ids that are charged, in the order of [`QuotaKind::ALL`].
    pub fn ids(self) -> [QuotaId; 4] {
        [
            QuotaId::VOLUME,
            QuotaId::user(self.uid),
            QuotaId::group(self.gid),
            QuotaId::project(self.project),
        ]
    }
}
