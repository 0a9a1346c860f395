//! What records use: granted, less the credit of their accounts.

use super::{Book, Hand};
use crate::quota::kind::{QuotaId, Resource};
use crate::quota::rules::{Own, Rules};
use crate::quota::tally::Tally;

/// One resource of a record as of now, in units of the ledger.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// What is spent or reserved.
    pub used: u64,
    pub tally: Tally,
}

/// What is known of one id, added up in slices. `used` of each resource is at most what was granted
/// when it began, and exact when it ends if nothing moves meanwhile.
pub(crate) struct Sample {
    pub who: QuotaId,
    pub own: Own,
    /// Of its kind.
    pub rules: Rules,
    pub usage: [Usage; 2],
    /// The account at which the next slice begins, by resource.
    from: [u32; 2],
}

impl Book {
    /// Begins a sample of a record; of what a record would begin with if there is none.
    pub fn sample(&self, who: QuotaId) -> Sample {
        let own = self.own(who);
        let found = self.records.find(who);
        let usage = Resource::ALL.map(|resource| {
            let tally = match found {
                Some(index) => self.records[index].tallies[resource as usize].clone(),
                None => Tally::new(self.bounds(who, &own, resource)),
            };
            Usage {
                used: tally.granted,
                tally,
            }
        });
        Sample {
            who,
            own,
            rules: self.rules(who.kind),
            usage,
            from: [0; 2],
        }
    }

    /// The next slice: subtracts what is credit of `most` accounts. False at the end.
    pub fn go_on(&self, sample: &mut Sample, most: usize, hand: &Hand<'_>) -> bool {
        // Without a record there are no accounts, and so no credit.
        let Some(index) = self.records.find(sample.who) else {
            return false;
        };
        let mut left = most;
        for resource in Resource::ALL {
            let at = resource as usize;
            let active = &self.records[index].active[at];
            for &number in active.range(sample.from[at]..).take(left) {
                let account = hand.slots.get(number, hand.g);
                let credit = account.map_or(0, |account| account.credit.sum(resource));
                let used = &mut sample.usage[at].used;
                *used = used.saturating_sub(credit);
                sample.from[at] = number + 1;
                left -= 1;
            }
        }
        left == 0
    }

    /// Every record's sample, in order.
    pub fn report(&self, hand: &Hand<'_>) -> Vec<Sample> {
        let all = self.ids_after(None, usize::MAX).into_iter();
        all.map(|who| {
            let mut sample = self.sample(who);
            while self.go_on(&mut sample, usize::MAX, hand) {}
            sample
        })
        .collect()
    }

    /// So many ids that have a record, in order, after the one that is named.
    pub fn ids_after(&self, after: Option<QuotaId>, most: usize) -> Vec<QuotaId> {
        self.records.ids_after(after).take(most).collect()
    }
}
