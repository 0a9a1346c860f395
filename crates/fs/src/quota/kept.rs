//! What a durable volume keeps of its quotas besides use, which the inodes tell.

use super::kind::{QuotaId, QuotaKind};
use super::rules::{IdSettings, KindSettings};
use crate::errno::Errno;
use std::path::PathBuf;

/// One thing to keep. The last one about an id or a kind counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptQuota {
    /// Settings of an id; the defaults mean that it has none.
    Id(QuotaId, IdSettings),
    /// Settings of a kind.
    Kind(QuotaKind, KindSettings),
    /// When the grace periods end that run for an id, by resource, in seconds of the wall clock.
    Grace(QuotaId, [Option<i64>; 2]),
}

/// Why something cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepError {
    /// The directory in which it would be.
    pub place: PathBuf,
    /// What the system says of that.
    pub errno: Errno,
}

impl From<KeepError> for Errno {
    fn from(error: KeepError) -> Errno {
        error.errno
    }
}

/// Takes what is to be kept, under the state lock. What cannot be kept is not put into force, if
/// somebody sets it.
pub(crate) type KeepQuota = dyn Fn(KeptQuota) -> Result<(), KeepError> + Send + Sync;
