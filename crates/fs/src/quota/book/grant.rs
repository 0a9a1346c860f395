//! The slow paths of charging, freeing and moving a charge.

use super::{Book, Hand, QuotaEventKind, entry_mut};
use crate::quota::account::Account;
use crate::quota::kind::{QuotaId, QuotaKind, Resource};
use crate::quota::tally::RefusalReason;

/// Why a charge through the book does not succeed.
#[derive(Debug)]
pub(crate) enum Slow {
    /// The account has been ended since it was found; another has its owners.
    Stale,
    Refused(Refusal),
}

/// A limit that says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub who: QuotaId,
    pub reason: RefusalReason,
}

impl Refusal {
    /// Whether Linux calls it a full device and not a passed quota.
    pub fn is_space(&self) -> bool {
        matches!(self.who.kind, QuotaKind::Volume | QuotaKind::Project)
    }
}

impl Book {
    /// Charges `amount` to all four records, or to none, and opens this core's credit where there
    /// is room to spare.
    pub fn charge(
        &mut self,
        account: &Account,
        resource: Resource,
        amount: u64,
        hand: &Hand<'_>,
    ) -> Result<(), Slow> {
        let records = self.records_of(account).ok_or(Slow::Stale)?;
        for record in records {
            self.look(record, resource, amount, hand);
        }
        for record in records {
            self.admit(record, resource, amount, hand)
                .map_err(Slow::Refused)?;
        }
        for record in records {
            let noted = self.records[record].tally(resource).take(amount, hand.now);
            self.note(record, resource, noted, hand);
        }
        entry_mut(&mut self.accounts, account.number).granted[resource as usize] += amount;
        let share = self.share(&records, resource);
        if share > 0 {
            self.extend(account, resource, share);
        }
        Ok(())
    }

    /// Charges blocks and inodes whatever the limits say.
    pub fn force(
        &mut self,
        account: &Account,
        amounts: [u64; 2],
        hand: &Hand<'_>,
    ) -> Result<(), Slow> {
        let records = self.records_of(account).ok_or(Slow::Stale)?;
        for resource in Resource::ALL {
            let amount = amounts[resource as usize];
            entry_mut(&mut self.accounts, account.number).granted[resource as usize] += amount;
            for record in records {
                self.look(record, resource, amount, hand);
                let noted = self.records[record].tally(resource).take(amount, hand.now);
                self.note(record, resource, noted, hand);
            }
        }
        Ok(())
    }

    /// Takes `amount` back, and what this core has too much of.
    pub fn free(&mut self, account: &Account, resource: Resource, amount: u64, hand: &Hand<'_>) {
        let records = self
            .records_of(account)
            .expect("what is charged keeps its account");
        let drained = account.credit.drain(resource, self.tuning.batch);
        entry_mut(&mut self.accounts, account.number).granted[resource as usize] -=
            amount + drained;
        for record in records {
            let tally = self.records[record].tally(resource);
            let noted = tally.put(amount + drained, hand.now);
            self.note(record, resource, noted, hand);
        }
        if self.share(&records, resource) > 0 {
            self.extend(account, resource, 0);
        }
    }

    /// Moves a charge (blocks, inodes) between two accounts; records of both stay as they are.
    /// `force`: whatever the limits say.
    pub fn transfer(
        &mut self,
        (from, to): (&Account, &Account),
        amounts: [u64; 2],
        force: bool,
        hand: &Hand<'_>,
    ) -> Result<(), Slow> {
        let (Some(left), Some(entered)) = (self.records_of(from), self.records_of(to)) else {
            return Err(Slow::Stale);
        };
        let moves = || left.into_iter().zip(entered).filter(|(a, b)| a != b);
        for resource in Resource::ALL {
            let amount = amounts[resource as usize];
            for (_, record) in moves() {
                self.look(record, resource, amount, hand);
                // Asking for nothing is never too much, even above a limit.
                if !force && amount > 0 {
                    self.admit(record, resource, amount, hand)
                        .map_err(Slow::Refused)?;
                }
            }
        }
        for resource in Resource::ALL {
            let amount = amounts[resource as usize];
            entry_mut(&mut self.accounts, from.number).granted[resource as usize] -= amount;
            entry_mut(&mut self.accounts, to.number).granted[resource as usize] += amount;
            for (leaves, enters) in moves().filter(|_| amount > 0) {
                let noted = self.records[leaves].tally(resource).put(amount, hand.now);
                self.note(leaves, resource, noted, hand);
                let noted = self.records[enters].tally(resource).take(amount, hand.now);
                self.note(enters, resource, noted, hand);
            }
        }
        Ok(())
    }

    /// The records of a live account.
    fn records_of(&self, account: &Account) -> Option<[usize; 4]> {
        let entry = self.accounts.get(account.number as usize)?.as_ref()?;
        (entry.serial == account.serial).then_some(entry.records)
    }

    /// Makes `granted` of the record exact if `amount` more could pass a limit.
    fn look(&mut self, record: usize, resource: Resource, amount: u64, hand: &Hand<'_>) {
        if !self.records[record].tally(resource).fits_unseen(amount) {
            self.recall(record, resource, hand);
        }
    }

    fn admit(
        &mut self,
        record: usize,
        resource: Resource,
        amount: u64,
        hand: &Hand<'_>,
    ) -> Result<(), Refusal> {
        let who = self.records[record].who;
        let tally = self.records[record].tally(resource);
        let Err(reason) = tally.admit(amount, hand.now) else {
            return Ok(());
        };
        if tally.told.replace(reason) != Some(reason) {
            let limit = match reason {
                RefusalReason::Hard => tally.bounds.hard,
                RefusalReason::GraceEnded => tally.bounds.soft,
            };
            if reason == RefusalReason::GraceEnded {
                self.unwatch(record, resource);
            }
            self.tell(
                record,
                resource,
                QuotaEventKind::Refused(reason),
                limit,
                hand,
            );
        }
        Err(Refusal { who, reason })
    }

    /// What a core may take beyond what it needs; 0 near a limit.
    fn share(&self, records: &[usize; 4], resource: Resource) -> u64 {
        let room = records
            .iter()
            .map(|&record| self.records[record].tallies[resource as usize].room())
            .min();
        let share = room.unwrap_or(0) / self.tuning.shares;
        if share < self.tuning.least {
            0
        } else {
            share.min(self.tuning.batch)
        }
    }

    /// Grants `credit` to all records and opens this core's word with it.
    fn extend(&mut self, account: &Account, resource: Resource, credit: u64) {
        let entry = entry_mut(&mut self.accounts, account.number);
        entry.granted[resource as usize] += credit;
        let was_active = std::mem::replace(&mut entry.active[resource as usize], true);
        for index in entry.records {
            let record = &mut self.records[index];
            record.tally(resource).granted += credit;
            if !was_active {
                record.active[resource as usize].insert(account.number);
            }
        }
        account.credit.open(resource, credit);
    }
}
