//! A bound on the byte ranges that an owner may hold over all files of a volume, so that locks
//! cannot take all memory: beyond it a request fails with `ENOLCK`.
//!
//! The first range of each file is free: an owner has at most one per open file, and open files are
//! bounded elsewhere. An owner that locks and unlocks its own file therefore writes nothing that
//! others write. The other ranges are counted by owner, in shards, so that two owners seldom share
//! a cache line.

use std::collections::HashMap;

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::{Arc, cores};

/// The counts of all owners. Clones share them.
#[derive(Clone)]
pub struct LockAllowance {
    account: Arc<RangeCounts>,
}

struct RangeCounts {
    /// Ranges that one owner may hold beyond the first of each file. Immutable.
    most: u64,
    shards: Box<[RangeShard]>,
}

/// Counted ranges, by owner; an owner without any has no entry.
#[repr(align(64))]
#[derive(Default)]
struct RangeShard(Lock<AllowanceClass, HashMap<u64, u64>>);

lock_class!(
    AllowanceClass = "file-locks.allowance",
    super::ALLOWANCE_RANK
);

/// Number of shards. About as many owners are at work at one time as there are cores, so two of
/// them hardly ever share a shard.
const SHARDS: usize = 64;

impl Default for LockAllowance {
    fn default() -> LockAllowance {
        LockAllowance::new(u64::MAX)
    }
}

impl LockAllowance {
    /// Allows `most` ranges to each owner, beyond the first of each file.
    pub fn new(most: u64) -> LockAllowance {
        LockAllowance {
            account: Arc::new(RangeCounts {
                most,
                shards: (0..SHARDS * cores())
                    .map(|_| RangeShard::default())
                    .collect(),
            }),
        }
    }

    /// Accounts for an owner who has `after` ranges of a file instead of `before`; false, without a
    /// change, if that would be too many.
    pub(super) fn charge(&self, owner: u64, before: i64, after: i64) -> bool {
        let counted = |ranges: i64| (ranges - 1).max(0);
        let more = counted(after) - counted(before);
        if more == 0 {
            return true;
        }
        let mut held = self.shard_of(owner).0.lock();
        let now = held.get(&owner).copied().unwrap_or(0);
        match now.saturating_add_signed(more) {
            then if more > 0 && then > self.account.most => return false,
            0 => held.remove(&owner),
            then => held.insert(owner, then),
        };
        true
    }

    /// Owners are addresses, and objects of one type lie a large power of two apart: only the high
    /// bits of a product depend on all bits of the address.
    fn shard_of(&self, owner: u64) -> &RangeShard {
        let shards = &self.account.shards;
        let mixed = owner.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let part = (u128::from(mixed) * shards.len() as u128) >> u64::BITS;
        &shards[part as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Regression: sixteen processes of a volume shared two of 32 shards.
    #[test]
    fn owners_a_power_of_two_apart_have_different_shards() {
        let allowance = LockAllowance::default();
        for shift in 6..24 {
            let owners = (0..16).map(|n: u64| 0x7f3a_1000_0040 + (n << shift));
            let shards: HashSet<_> = owners
                .map(|owner| std::ptr::from_ref(allowance.shard_of(owner)))
                .collect();
            assert!(shards.len() >= 12, "{} shards at 2^{shift}", shards.len());
        }
    }
}
