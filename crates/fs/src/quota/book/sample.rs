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

/// What is known of one id, added up in slices: what is granted, less the credit that was found.
/// `used` of each resource is what was granted until the last slice, and then exact but for what
/// moved since its account was visited. It is never more than was granted at one of both ends, of
/// which the tally keeps the greater.
pub(crate) struct Sample {
    pub who: QuotaId,
    pub own: Own,
    /// Of its kind.
    pub rules: Rules,
    pub usage: [Usage; 2],
    /// The account at which the next slice begins, by resource.
    from: [u32; 2],
    /// Found in the accounts before, by resource.
    credit: [u64; 2],
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
            credit: [0; 2],
        }
    }

    /// The next slice: adds up what is credit of `most` accounts. False at the end.
    pub fn go_on(&self, sample: &mut Sample, most: usize, hand: &Hand<'_>) -> bool {
        let Some(index) = self.records.find(sample.who) else {
            // There was none, or it has ended meanwhile: it has no accounts, which use nothing.
            for usage in &mut sample.usage {
                (usage.used, usage.tally.granted) = (0, 0);
            }
            return false;
        };
        let mut left = most;
        for resource in Resource::ALL {
            let at = resource as usize;
            let active = &self.records[index].active[at];
            for &number in active.range(sample.from[at]..).take(left) {
                let account = hand.slots.get(number, hand.g);
                let credit = account.map_or(0, |account| account.credit.sum(resource));
                sample.credit[at] = sample.credit[at].saturating_add(credit);
                sample.from[at] = number + 1;
                left -= 1;
            }
        }
        if left == 0 {
            return true;
        }
        for resource in Resource::ALL {
            let at = resource as usize;
            let now = self.records[index].tallies[at].granted;
            let Usage { used, tally } = &mut sample.usage[at];
            // Credit given meanwhile is in what is granted now, and what was called back from an
            // account that had been visited in what was granted then. Less that credit, the other
            // would show less than is used.
            tally.granted = tally.granted.max(now);
            *used = tally.granted.saturating_sub(sample.credit[at]);
        }
        false
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
