//! Samples: what an id uses is what is reserved for it, less the credit of its accounts.

use super::{QuotaCx, QuotaState};
use crate::quota::kind::{QuotaId, Resource};
use crate::quota::rules::{IdSettings, KindSettings};
use crate::quota::usage::Usage;

/// One resource of an id in a sample, in units of the ledger.
#[derive(Clone, Debug)]
pub(crate) struct SampledUsage {
    /// Units that are spent or charged.
    pub used: u64,
    pub usage: Usage,
}

/// The use of one id, added up in slices so that the lock is never held for long.
///
/// Until the last slice `used` is what is reserved; then it is exact except for units that moved
/// since their account was visited. It is at most what was reserved when the sample began or when
/// it ended, whichever is greater; `usage` keeps that.
pub(crate) struct Sample {
    pub who: QuotaId,
    pub own: IdSettings,
    /// The settings of its kind.
    pub rules: KindSettings,
    pub usage: [SampledUsage; 2],
    /// The account at which the next slice begins, by resource.
    from: [u32; 2],
    /// Found in the accounts before, by resource.
    credit: [u64; 2],
}

impl QuotaState {
    /// Begins a sample of `who`. An id without a record is sampled as a new record.
    pub fn sample(&self, who: QuotaId) -> Sample {
        let own = self.own(who);
        let found = self.dquots.find(who);
        let usage = Resource::ALL.map(|resource| {
            let usage = match found {
                Some(index) => self.dquots[index].usages[resource as usize].clone(),
                None => Usage::new(self.bounds(who, &own, resource)),
            };
            SampledUsage {
                used: usage.reserved,
                usage,
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

    /// The next slice: adds the credit of up to `most` accounts. False at the end.
    pub fn go_on(&self, sample: &mut Sample, most: usize, cx: &QuotaCx<'_>) -> bool {
        let Some(index) = self.dquots.find(sample.who) else {
            // There was no record, or it has ended meanwhile: it has no accounts and no use.
            for usage in &mut sample.usage {
                (usage.used, usage.usage.reserved) = (0, 0);
            }
            return false;
        };
        let mut left = most;
        for resource in Resource::ALL {
            let at = resource as usize;
            let active = &self.dquots[index].active[at];
            for &number in active.range(sample.from[at]..).take(left) {
                let account = cx.accounts.get(number, cx.g);
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
            let now = self.dquots[index].usages[at].reserved;
            let SampledUsage { used, usage } = &mut sample.usage[at];
            // Credit handed out since the begin is in `now`; credit recalled from a visited
            // account was in the old value. Subtracting from the smaller one would show less than
            // is used.
            usage.reserved = usage.reserved.max(now);
            *used = usage.reserved.saturating_sub(sample.credit[at]);
        }
        false
    }

    /// The samples of all records, in order.
    pub fn report(&self, cx: &QuotaCx<'_>) -> Vec<Sample> {
        let all = self.ids_after(None, usize::MAX).into_iter();
        all.map(|who| {
            let mut sample = self.sample(who);
            while self.go_on(&mut sample, usize::MAX, cx) {}
            sample
        })
        .collect()
    }

    /// Up to `most` ids that have a record, in order, after `after`.
    pub fn ids_after(&self, after: Option<QuotaId>, most: usize) -> Vec<QuotaId> {
        self.dquots.ids_after(after).take(most).collect()
    }
}
