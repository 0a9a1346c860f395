//! How many byte ranges an owner may hold over all files of a volume, so that locks cannot take all
//! memory: beyond it a request fails with `ENOLCK`.
//!
//! Counted by owner in parts of the owners, so that two owners seldom share a line.

use std::collections::HashMap;

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;

/// What is counted of all owners. Clones are the same account.
#[derive(Clone)]
pub struct LockAllowance {
    account: Arc<Account>,
}

struct Account {
    /// Ranges that one owner may hold. Immutable.
    most: u64,
    parts: [Part; PARTS],
}

/// Ranges held by owner; nobody is here without one.
#[repr(align(64))]
#[derive(Default)]
struct Part(Lock<AllowanceClass, HashMap<u64, u64>>);

lock_class!(
    AllowanceClass = "file-locks.allowance",
    super::ALLOWANCE_RANK
);

const PARTS: usize = 32;

impl Default for LockAllowance {
    fn default() -> LockAllowance {
        LockAllowance::new(u64::MAX)
    }
}

impl LockAllowance {
    /// Allows `most` ranges to each owner.
    pub fn new(most: u64) -> LockAllowance {
        LockAllowance {
            account: Arc::new(Account {
                most,
                parts: std::array::from_fn(|_| Part::default()),
            }),
        }
    }

    /// Accounts for `more` ranges of `owner`, or less if negative; false, and nothing changed, if
    /// that were too many.
    pub(super) fn charge(&self, owner: u64, more: i64) -> bool {
        if more == 0 {
            return true;
        }
        // Owners are addresses: their low bits tell little.
        let part = (owner >> 6 ^ owner >> 12) as usize % PARTS;
        let mut held = self.account.parts[part].0.lock();
        let now = held.get(&owner).copied().unwrap_or(0);
        match now.saturating_add_signed(more) {
            then if more > 0 && then > self.account.most => return false,
            0 => held.remove(&owner),
            then => held.insert(owner, then),
        };
        true
    }
}
