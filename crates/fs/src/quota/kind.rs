//! What is counted, and for whom.

use std::fmt;

/// For whom a record counts.
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
    /// The volume first: its refusal goes before a quota's.
    pub const ALL: [QuotaKind; 4] = [
        QuotaKind::Volume,
        QuotaKind::User,
        QuotaKind::Group,
        QuotaKind::Project,
    ];

    /// The word of the command line.
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

    /// What people count it in: bytes or inodes.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Blocks => "bytes",
            Resource::Inodes => "inodes",
        }
    }

    /// What one unit of the ledger is worth in what people count.
    pub(crate) fn unit(self) -> u64 {
        match self {
            Resource::Blocks => BLOCK,
            Resource::Inodes => 1,
        }
    }
}

/// Bytes of a block, the unit in which space is charged.
pub const BLOCK: u64 = 4096;

/// Whom an inode is charged to.
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
    /// Whom a volume charges that keeps no quotas.
    pub const NOBODY: Owners = Owners {
        uid: 0,
        gid: 0,
        project: 0,
    };

    /// The ids of the four records, in the order in which they are asked.
    pub fn ids(self) -> [QuotaId; 4] {
        [
            QuotaId::VOLUME,
            QuotaId::user(self.uid),
            QuotaId::group(self.gid),
            QuotaId::project(self.project),
        ]
    }
}
