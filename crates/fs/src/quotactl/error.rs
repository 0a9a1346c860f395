//! Why a request about quotas is refused.

use crate::errno::Errno;
use crate::quota::{KeepError, Limit, QuotaId, QuotaKind, Resource};
use std::fmt;

/// Why a request about quotas is refused. Nothing has changed then, but as
/// [`super::Quota::set_project_tree`] says.
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
    /// A limit or a period beyond 2^63 - 1.
    TooLarge {
        /// Of what.
        resource: Resource,
        /// Which.
        number: QuotaNumber,
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
    VolumeLimit {
        /// Bytes or inodes.
        resource: Resource,
        /// The soft limit that was asked for; else the hard one was to be lifted.
        soft: Option<u64>,
    },
    /// The kind volume has no defaults, no grace and is always enforced.
    VolumeKind,
    /// The volume was built without quotas.
    Off,
    /// A directory of the host is served without quotas.
    OffOfHost,
    /// Only root and the owner of the volume may do this.
    NotKeeper {
        /// The volume's owner.
        owner: u32,
    },
    /// The volume's own limits do not change any more: [`super::Quota::fix_volume`].
    Fixed,
    /// A quota that is not visible to the caller.
    NotYours {
        /// As asked for.
        who: QuotaId,
        /// The volume's owner.
        owner: u32,
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
        /// The id of the limit.
        who: QuotaId,
        /// The limit.
        limit: Limit,
        /// Number of such files.
        files: usize,
        /// Inode number of one.
        inode: u64,
    },
    /// A kernel in front acknowledges writes that may not fit any more when it hands them over, and
    /// cannot be kept from it. [`super::Quota::forced`].
    CollectsAnyway,
    /// The path or an inode below it cannot be used.
    Path {
        /// As asked for.
        path: Vec<u8>,
        /// Why.
        errno: Errno,
    },
    /// It cannot be written down, and would be gone with the mount.
    NotKept {
        /// Where, and why.
        error: KeepError,
    },
    /// The volume could not be read.
    Volume {
        /// Why.
        errno: Errno,
    },
}

/// One of the numbers that are set of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaNumber {
    /// The hard limit.
    Hard,
    /// The soft limit.
    Soft,
    /// The grace period.
    Grace,
}

impl QuotaError {
    /// The error number for a front end.
    pub fn errno(&self) -> Errno {
        match self {
            QuotaError::NotKeeper { .. } | QuotaError::NotYours { .. } | QuotaError::Fixed => {
                Errno::EPERM
            }
            QuotaError::NotADirectory { .. } => Errno::ENOTDIR,
            QuotaError::Path { errno, .. } | QuotaError::Volume { errno } => *errno,
            QuotaError::NotKept { error } => error.errno,
            QuotaError::TooLarge { .. } => Errno::ERANGE,
            QuotaError::Collecting { .. } | QuotaError::CollectsAnyway => Errno::EBUSY,
            QuotaError::Off | QuotaError::OffOfHost => Errno::EOPNOTSUPP,
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
            QuotaError::TooLarge {
                resource,
                number,
                amount,
            } => {
                let (what, most) = (resource.name(), i64::MAX);
                match number {
                    QuotaNumber::Hard => write!(f, "hard limit of {amount} {what}"),
                    QuotaNumber::Soft => write!(f, "soft limit of {amount} {what}"),
                    QuotaNumber::Grace => write!(f, "grace period of {amount} s for {what}"),
                }?;
                write!(f, " is above {most}; choose a smaller one")
            }
            QuotaError::IdZero { kind } => write!(
                f,
                "{} 0 is never limited; set defaults for the kind instead",
                kind.name()
            ),
            QuotaError::NoSuchId { who } => {
                write!(f, "{who}: ids are 0 to {}, of the volume 0", u32::MAX - 1)
            }
            QuotaError::VolumeLimit { resource, soft } => {
                let what = resource.name();
                match soft {
                    Some(soft) => write!(
                        f,
                        "soft limit of {soft} {what}: the volume has hard limits only; set that"
                    ),
                    None => write!(
                        f,
                        "no hard limit of {what}: the volume always has one of bytes and one of \
                         inodes; set another number"
                    ),
                }
            }
            QuotaError::VolumeKind => f.write_str(
                "the volume has no defaults, no grace and is always enforced; name a kind of quota",
            ),
            QuotaError::Off => {
                let what = "the volume keeps no quotas; build it with quotas, or mount it without \
                            noquota";
                f.write_str(what)
            }
            QuotaError::OffOfHost => {
                f.write_str("the volume keeps no quotas; mount the directory with -o quota=wait")
            }
            QuotaError::NotKeeper { owner } => write!(
                f,
                "only root and user {owner}, the owner of the volume, may do this; ask them"
            ),
            QuotaError::Fixed => f.write_str(
                "its limits are fixed for as long as it is mounted; whoever runs this in it gives \
                 others, as 'hearth run' does with --limit and --inodes",
            ),
            QuotaError::NotYours { who, owner } => write!(
                f,
                "{who} is not yours to see; ask for your own user or groups, or ask root or user \
                 {owner}, the owner of the volume"
            ),
            QuotaError::Collecting {
                who,
                limit,
                files,
                inode,
            } => {
                let (which, limit) = match (limit.hard, limit.soft) {
                    (Some(hard), _) => ("hard", hard),
                    (None, soft) => ("soft", soft.unwrap_or(0)),
                };
                let (files, are) = match files {
                    1 => ("1 file".to_owned(), "is"),
                    files => (format!("{files} files"), "are"),
                };
                write!(
                    f,
                    "{files} of {who} {are} open for writing since before it had a limit (inode \
                     {inode}), and writes to {it} that pass the {which} limit of {limit} bytes \
                     could get lost; close {it} and try again, force the limit, or mount with -o \
                     quota",
                    it = if are == "is" { "it" } else { "them" },
                )
            }
            QuotaError::CollectsAnyway => f.write_str(
                "a mount of the volume collects writes of every file (no_open, or a kernel before \
                 Linux 6.6), and those that pass a limit of bytes could get lost; mount it with -o \
                 no_writeback or -o quota, or force the limit",
            ),
            QuotaError::NotADirectory { path: p } => {
                write!(
                    f,
                    "{}: not a directory; a project is a directory tree",
                    path(p)
                )
            }
            QuotaError::Path { path: p, errno } => write!(f, "{}: {errno}", path(p)),
            QuotaError::NotKept { error } => {
                let KeepError { place, errno } = error;
                let place = place.display();
                write!(
                    f,
                    "cannot be kept in {place}: {errno}; see to that and try again"
                )
            }
            QuotaError::Volume {
                errno: Errno::EAGAIN,
            } => f.write_str(
                "what is used is still counted; ask again some seconds after 'hearth info' shows \
                 quotas on",
            ),
            QuotaError::Volume { errno } => write!(f, "the volume cannot be read: {errno}"),
        }
    }
}

impl std::error::Error for QuotaError {}
