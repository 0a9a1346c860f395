//! Charges for what exists elsewhere: see `crate::quotactl::Charges`.

use super::{QuotaCx, QuotaState, Slow, entry_mut};
use crate::quota::account::Account;
use crate::quota::kind::{QuotaId, Resource};
use crate::quota::rules::Limit;

impl QuotaState {
    /// From now on what is charged exists elsewhere, and the volume limits nothing by itself.
    pub fn count_elsewhere(&mut self, cx: &QuotaCx<'_>) {
        self.elsewhere = true;
        let volume = self.dquot(QuotaId::VOLUME);
        self.dquots[volume].own.limits = [Some(Limit::default()); 2];
        self.apply(volume, cx);
    }

    /// [`QuotaState::free`] for an account that may have ended.
    pub fn free_elsewhere(
        &mut self,
        account: &Account,
        resource: Resource,
        amount: u64,
        cx: &QuotaCx<'_>,
    ) -> Result<(), Slow> {
        self.dquots_of(account).ok_or(Slow::Stale)?;
        self.free(account, resource, amount, cx);
        Ok(())
    }

    /// [`QuotaState::transfer`] of as much as `from` has.
    pub fn transfer_elsewhere(
        &mut self,
        (from, to): (&Account, &Account),
        mut amounts: [u64; 2],
        force: bool,
        cx: &QuotaCx<'_>,
    ) -> Result<(), Slow> {
        self.dquots_of(from).ok_or(Slow::Stale)?;
        for resource in Resource::ALL {
            self.recall_account(from.number, resource, cx);
            let has = entry_mut(&mut self.accounts, from.number).reserved[resource as usize];
            amounts[resource as usize] = amounts[resource as usize].min(has);
        }
        self.transfer((from, to), amounts, force, cx)
    }
}
