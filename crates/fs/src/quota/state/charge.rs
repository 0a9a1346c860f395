//! The slow paths of charging, freeing and moving a charge.

use super::{QuotaCx, QuotaEventKind, QuotaState, entry_mut};
use crate::quota::account::Account;
use crate::quota::kind::{QuotaId, QuotaKind, Resource};
use crate::quota::usage::RefusalReason;

/// Why a charge on the slow path fails.
#[derive(Debug)]
pub(crate) enum Slow {
    /// The account has ended since it was found; its owners have another one.
    Stale,
    Refused(Refusal),
}

/// A limit that refused a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub who: QuotaId,
    pub reason: RefusalReason,
}

impl Refusal {
    /// Whether Linux reports it as a full device instead of a quota.
    pub fn is_space(&self) -> bool {
        matches!(self.who.kind, QuotaKind::Volume | QuotaKind::Project)
    }
}

impl QuotaState {
    /// Charges `amount` to all four records or to none, and opens this CPU's credit if the limits
    /// are far.
    pub fn charge(
        &mut self,
        account: &Account,
        resource: Resource,
        amount: u64,
        cx: &QuotaCx<'_>,
    ) -> Result<(), Slow> {
        let dquots = self.dquots_of(account).ok_or(Slow::Stale)?;
        for dquot in dquots {
            self.make_exact(dquot, resource, amount, cx);
        }
        for dquot in dquots {
            self.admit(dquot, resource, amount, cx)
                .map_err(Slow::Refused)?;
        }
        for dquot in dquots {
            let crossings = self.dquots[dquot].usage(resource).take(amount, cx.now);
            self.report_crossings(dquot, resource, crossings, cx);
        }
        entry_mut(&mut self.accounts, account.number).reserved[resource as usize] += amount;
        let credit = self.credit_for(&dquots, resource);
        if credit > 0 {
            self.add_credit(account, resource, credit);
        }
        Ok(())
    }

    /// Charges blocks and inodes, ignoring the limits.
    pub fn force(
        &mut self,
        account: &Account,
        amounts: [u64; 2],
        cx: &QuotaCx<'_>,
    ) -> Result<(), Slow> {
        let dquots = self.dquots_of(account).ok_or(Slow::Stale)?;
        for resource in Resource::ALL {
            let amount = amounts[resource as usize];
            entry_mut(&mut self.accounts, account.number).reserved[resource as usize] += amount;
            for dquot in dquots {
                self.make_exact(dquot, resource, amount, cx);
                let crossings = self.dquots[dquot].usage(resource).take(amount, cx.now);
                self.report_crossings(dquot, resource, crossings, cx);
            }
        }
        Ok(())
    }

    /// Releases `amount`, and surplus credit of this CPU.
    pub fn free(&mut self, account: &Account, resource: Resource, amount: u64, cx: &QuotaCx<'_>) {
        let dquots = self
            .dquots_of(account)
            .expect("what is charged keeps its account");
        let drained = account.credit.drain(resource, self.tuning.batch);
        let entry = entry_mut(&mut self.accounts, account.number);
        let mut back = amount + drained;
        if self.elsewhere {
            back = back.min(entry.reserved[resource as usize]);
        }
        entry.reserved[resource as usize] -= back;
        for dquot in dquots {
            let usage = self.dquots[dquot].usage(resource);
            let crossings = usage.put(back, cx.now);
            self.report_crossings(dquot, resource, crossings, cx);
        }
        if self.credit_for(&dquots, resource) > 0 {
            self.add_credit(account, resource, 0);
        }
    }

    /// Moves a charge (blocks, inodes) between two accounts. Records that both accounts have do not
    /// change. With `force` the limits are ignored.
    pub fn transfer(
        &mut self,
        (from, to): (&Account, &Account),
        amounts: [u64; 2],
        force: bool,
        cx: &QuotaCx<'_>,
    ) -> Result<(), Slow> {
        let (Some(left), Some(entered)) = (self.dquots_of(from), self.dquots_of(to)) else {
            return Err(Slow::Stale);
        };
        let moves = || left.into_iter().zip(entered).filter(|(a, b)| a != b);
        for resource in Resource::ALL {
            let amount = amounts[resource as usize];
            for (_, dquot) in moves() {
                self.make_exact(dquot, resource, amount, cx);
                // A charge of 0 is admitted even above a limit.
                if !force && amount > 0 {
                    self.admit(dquot, resource, amount, cx)
                        .map_err(Slow::Refused)?;
                }
            }
        }
        for resource in Resource::ALL {
            let amount = amounts[resource as usize];
            entry_mut(&mut self.accounts, from.number).reserved[resource as usize] -= amount;
            entry_mut(&mut self.accounts, to.number).reserved[resource as usize] += amount;
            for (leaves, enters) in moves().filter(|_| amount > 0) {
                let crossings = self.dquots[leaves].usage(resource).put(amount, cx.now);
                self.report_crossings(leaves, resource, crossings, cx);
                let crossings = self.dquots[enters].usage(resource).take(amount, cx.now);
                self.report_crossings(enters, resource, crossings, cx);
            }
        }
        Ok(())
    }

    /// The records of a live account.
    pub(super) fn dquots_of(&self, account: &Account) -> Option<[usize; 4]> {
        let entry = self.accounts.get(account.number as usize)?.as_ref()?;
        (entry.serial == account.serial).then_some(entry.dquots)
    }

    /// Recalls the credit of a record, so that `reserved` is exact, if `amount` more could pass a
    /// limit.
    fn make_exact(&mut self, dquot: usize, resource: Resource, amount: u64, cx: &QuotaCx<'_>) {
        if !self.dquots[dquot].usage(resource).fits_unseen(amount) {
            self.recall(dquot, resource, cx);
        }
    }

    fn admit(
        &mut self,
        dquot: usize,
        resource: Resource,
        amount: u64,
        cx: &QuotaCx<'_>,
    ) -> Result<(), Refusal> {
        let who = self.dquots[dquot].who;
        let usage = self.dquots[dquot].usage(resource);
        let Err(reason) = usage.admit(amount, cx.now) else {
            return Ok(());
        };
        if usage.reported.replace(reason) != Some(reason) {
            let limit = match reason {
                RefusalReason::Hard => usage.bounds.hard,
                RefusalReason::GraceEnded => usage.bounds.soft,
            };
            if reason == RefusalReason::GraceEnded {
                self.unwatch(dquot, resource);
            }
            self.report_event(dquot, resource, QuotaEventKind::Refused(reason), limit, cx);
        }
        Err(Refusal { who, reason })
    }

    /// The credit that a CPU gets beyond its charge; 0 near a limit.
    fn credit_for(&self, dquots: &[usize; 4], resource: Resource) -> u64 {
        let room = dquots
            .iter()
            .map(|&dquot| self.dquots[dquot].usages[resource as usize].room())
            .min();
        let share = room.unwrap_or(0) / self.tuning.shares;
        if share < self.tuning.least {
            0
        } else {
            share.min(self.tuning.batch)
        }
    }

    /// Reserves `credit` in all four records and adds it to this CPU's word.
    fn add_credit(&mut self, account: &Account, resource: Resource, credit: u64) {
        let entry = entry_mut(&mut self.accounts, account.number);
        entry.reserved[resource as usize] += credit;
        let was_active = std::mem::replace(&mut entry.active[resource as usize], true);
        for index in entry.dquots {
            let dquot = &mut self.dquots[index];
            dquot.usage(resource).reserved += credit;
            if !was_active {
                dquot.active[resource as usize].insert(account.number);
            }
        }
        account.credit.open(resource, credit);
    }
}
