//! What inodes of the same owners are charged to.

use super::credit::Credit;
use super::kind::Owners;

/// The account of one triple of owners. Immutable but for the credit.
pub(crate) struct Account {
    pub owners: Owners,
    /// Its number, by which inodes and the book know it.
    pub number: u32,
    /// Tells it from others that had the number before.
    pub serial: u64,
    pub credit: Credit,
}

/// The number that stands for no account.
pub(crate) const NO_ACCOUNT: u32 = u32::MAX;
