//! Why a request about quotas is refused.

use crate::errno::Errno;
use crate::quota::{QuotaId, QuotaKind, Resource};
use std::fmt;

/// Why a request about quotas is refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaError {
    /// A soft limit above its hard limit.
    SoftAboveHard {
        /// Bytes or inodes.
        resource: Resource,
        /// As asked for.
        soft: u64,
        /// As asked for, or as it is.
        hard: u64,
    },
    /// A limit beyond 2^63 - 1.
    TooLarge {
        /// As asked for.
        amount: u64,
    },
    /// Id 0 is accounted and never limited.
    IdZero {
        /// Kind.
        kind: QuotaKind,
    },
    /// An id above 2^32 - 2, or of the volume other than 0.
    NoSuchId {
        /// As asked for.
        who: QuotaId,
    },
    /// The volume has hard limits, and no others.
    VolumeLimit,
    /// The kind volume has no defaults, no grace and is always enforced.
    VolumeKind,
    /// The volume was built without quotas.
    Off,
    /// Only root and the owner of the volume may do this.
    NotKeeper {
        /// The volume's owner.
        owner: u32,
    },
    /// Somebody else's quota.
    NotYours {
        /// As asked for.
        who: QuotaId,
    },
    /// A project is a directory tree.
    NotADirectory {
        /// As asked for.
        path: Vec<u8>,
    },
    /// Files that are open for writing since before their first limit: a kernel in front
    /// acknowledges writes to them that may not fit any more when it hands them over.
    /// [`super::Quota::forced`].
    Collecting {
        /// Whose limit of bytes it would be.
        who: QuotaId,
        /// So many.
        files: usize,
        /// Inode number of one.
        inode: u64,
    },
    /// The path or an inode below it cannot be used.
    Path {
        /// As asked for.
        path: Vec<u8>,
        /// Why.
        errno: Errno,
    },
    /// The volume could not be read.
    Volume {
        /// Why.
        errno: Errno,
    },
}

impl QuotaError {
    /// The error number for a front end.
    pub fn errno(&self) -> Errno {
        match self {
            QuotaError::NotKeeper { .. } | QuotaError::NotYours { .. } => Errno::EPERM,
            QuotaError::NotADirectory { .. } => Errno::ENOTDIR,
            QuotaError::Path { errno, .. } | QuotaError::Volume { errno } => *errno,
            QuotaError::TooLarge { .. } => Errno::ERANGE,
            QuotaError::Collecting { .. } => Errno::EBUSY,
            QuotaError::Off => Errno::EOPNOTSUPP,
            _ => Errno::EINVAL,
        }
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        match self {
            QuotaError::SoftAboveHard {
                resource,
                soft,
                hard,
            } => write!(
                f,
                "soft limit of {soft} {} is above the hard limit of {hard}; raise that too",
                resource.name()
            ),
            QuotaError::TooLarge { amount } => {
                write!(
                    f,
                    "limit {amount} is above {}; choose a smaller one",
                    i64::MAX
                )
            }
            QuotaError::IdZero { kind } => write!(
                f,
                "{} 0 is never limited; set defaults for the kind instead",
                kind.name()
            ),
            QuotaError::NoSuchId { who } => {
                write!(f, "{who}: ids are 0 to {}, of the volume 0", u32::MAX - 1)
            }
            QuotaError::VolumeLimit => {
                f.write_str("the volume has hard limits of bytes and inodes only; set both as hard")
            }
            QuotaError::VolumeKind => f.write_str(
                "the volume has no defaults, no grace and is always enforced; name a kind of quota",
            ),
            QuotaError::Off => {
                f.write_str("the volume keeps no quotas; build or mount it with quotas")
            }
            QuotaError::NotKeeper { owner } => write!(
                f,
                "only root and user {owner}, the owner of the volume, may do this; ask them"
            ),
            QuotaError::NotYours { who } => {
                write!(
                    f,
                    "{who} is not yours to see; ask for your own user or groups"
                )
            }
            QuotaError::Collecting { who, files, inode } => {
                let (files, are) = match files {
                    1 => ("1 file".to_owned(), "is"),
                    files => (format!("{files} files"), "are"),
                };
                write!(
                    f,
                    "{files} of {who} {are} open for writing since before it had a limit (inode \
                     {inode}), and writes to {it} could get lost when there is no room; close \
                     {it} and try again, force the limit, or mount with -o quota",
                    it = if are == "is" { "it" } else { "them" },
                )
            }
            QuotaError::NotADirectory { path: p } => {
                write!(
                    f,
                    "{}: not a directory; a project is a directory tree",
                    path(p)
                )
            }
            QuotaError::Path { path: p, errno } => write!(f, "{}: {errno}", path(p)),
            QuotaError::Volume { errno } => write!(f, "the volume cannot be read: {errno}"),
        }
    }
}

impl std::error::Error for QuotaError {}
