//! What a count of inodes says of the ledger, whoever counts.

use super::{KeepError, Owners, QuotaId, Resource};
use crate::errno::{Errno, Result};
use std::collections::{BTreeMap, BTreeSet};

/// One id for which the ledger and the volume disagree, in bytes or inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaDifference {
    /// The id.
    pub who: QuotaId,
    /// Bytes or inodes.
    pub resource: Resource,
    /// The value of the ledger.
    pub ledger: u64,
    /// The sum of the walk.
    pub found: u64,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaCheck {
    /// Inodes that were walked.
    pub inodes: u64,
    /// Unlinked inodes among these.
    pub nameless: u64,
    /// Inodes with a wrong `st_blocks`: (number, value of `st_blocks`, blocks held).
    pub wrong_blocks: Vec<(u64, u64, u64)>,
    /// Where the ledger differs.
    pub differences: Vec<QuotaDifference>,
}

impl QuotaCheck {
    /// The result of a walk over inodes that the volume does not have: what their owners are
    /// charged and what was found of them.
    pub fn compared(
        inodes: u64,
        nameless: u64,
        ledger: &[(Owners, [u64; 2])],
        found: impl IntoIterator<Item = (Owners, [u64; 2])>,
    ) -> QuotaCheck {
        let mut result = QuotaCheck {
            inodes,
            nameless,
            ..QuotaCheck::default()
        };
        let ledger = sum_by_id(ledger.iter().copied());
        compare(&ledger, &sum_by_id(found), &mut result);
        result
    }

    /// Whether everything agrees.
    pub fn is_clean(&self) -> bool {
        self.wrong_blocks.is_empty() && self.differences.is_empty()
    }
}

/// The result of [`crate::Quota::set_project_tree`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeChange {
    /// Inodes whose project changed.
    pub changed: u64,
    /// Inodes that had it already.
    pub kept: u64,
}

/// Why a counter does not make a tree a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetProjectError {
    /// What the host says.
    Host(Errno),
    /// It cannot be written down.
    Keep(KeepError),
}

impl From<Errno> for SetProjectError {
    fn from(errno: Errno) -> SetProjectError {
        SetProjectError::Host(errno)
    }
}

impl From<KeepError> for SetProjectError {
    fn from(error: KeepError) -> SetProjectError {
        SetProjectError::Keep(error)
    }
}

/// The counter of inodes that a volume charges for and does not have.
pub trait CountedElsewhere: Send + Sync {
    /// Walks all inodes and compares with the ledger; with `repair` the ledger then says what the
    /// walk found.
    ///
    /// # Errors
    /// What kept the walk from its end.
    fn check(&self, repair: bool) -> Result<QuotaCheck>;

    /// Makes the directory that programs know by inode number `ino`, and all below, a project.
    ///
    /// # Errors
    /// `ENOENT` if nobody uses that inode, `ENOTDIR`, and what the host refuses. What cannot be
    /// written down was not changed, or is until the unmount.
    fn set_project(
        &self,
        ino: u64,
        project: u32,
    ) -> std::result::Result<TreeChange, SetProjectError>;

    /// The project of what programs know by inode number `ino`; 0 for none, or if nobody uses it.
    fn project_of(&self, ino: u64) -> u32;
}

/// What all ids have of what owners have.
pub(crate) fn sum_by_id(
    owners: impl IntoIterator<Item = (Owners, [u64; 2])>,
) -> BTreeMap<QuotaId, [u64; 2]> {
    let mut sums: BTreeMap<QuotaId, [u64; 2]> = BTreeMap::new();
    for (owners, amounts) in owners {
        for who in owners.ids() {
            let sum = sums.entry(who).or_default();
            sum[0] += amounts[0];
            sum[1] += amounts[1];
        }
    }
    sums
}

/// Adds where two sides differ.
pub(crate) fn compare(
    ledger: &BTreeMap<QuotaId, [u64; 2]>,
    found: &BTreeMap<QuotaId, [u64; 2]>,
    result: &mut QuotaCheck,
) {
    let ids: BTreeSet<QuotaId> = ledger.keys().chain(found.keys()).copied().collect();
    for who in ids {
        for resource in Resource::ALL {
            let of = |side: &BTreeMap<QuotaId, [u64; 2]>| {
                side.get(&who).map_or(0, |sum| sum[resource as usize]) * resource.unit()
            };
            if of(ledger) != of(found) {
                result.differences.push(QuotaDifference {
                    who,
                    resource,
                    ledger: of(ledger),
                    found: of(found),
                });
            }
        }
    }
}
