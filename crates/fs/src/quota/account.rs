//! The account that all inodes of the same owners are charged to.

use super::credit::Credit;
use super::kind::Owners;

/// The account of one triple of owners. Immutable except for the credit.
pub(crate) struct Account {
    pub owners: Owners,
    /// The number by which inodes and the quota state know it.
    pub number: u32,
    /// Tells it from earlier accounts with the same number.
    pub serial: u64,
    pub credit: Credit,
}

/// No account.
pub(crate) const NO_ACCOUNT: u32 = u32::MAX;
