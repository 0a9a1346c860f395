//! Looking at records and changing their settings.

use super::{Book, Hand, QuotaEvent};
use crate::quota::kind::{Owners, QuotaId, QuotaKind, Resource};
use crate::quota::rules::{Limit, Own, Rules};
use crate::quota::tally::Tally;
use hearth_sync::primitive::atomic::Ordering::Relaxed;

/// One resource of a record as of now, in units of the ledger.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// What is spent or reserved.
    pub used: u64,
    pub tally: Tally,
}

/// Settings that are to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settings {
    /// Of one id.
    Own(QuotaId, Own),
    /// Of a kind.
    Rules(QuotaKind, Rules),
}

impl Book {
    /// Every record's usage, in order.
    pub fn report(&self, hand: &Hand<'_>) -> Vec<(QuotaId, Own, [Usage; 2])> {
        let indices = self.records.indices().into_iter();
        indices
            .map(|index| {
                let record = &self.records[index];
                let usage = Resource::ALL.map(|resource| self.usage(index, resource, hand));
                (record.who, record.own, usage)
            })
            .collect()
    }

    /// One record's usage; what a record would begin with if there is none.
    pub fn get(&self, who: QuotaId, hand: &Hand<'_>) -> (Own, [Usage; 2]) {
        match self.records.find(who) {
            Some(index) => (
                self.records[index].own,
                Resource::ALL.map(|resource| self.usage(index, resource, hand)),
            ),
            None => {
                let own = Own::default();
                let begin = |resource| Usage {
                    used: 0,
                    tally: Tally::new(self.bounds(who, &own, resource)),
                };
                (own, Resource::ALL.map(begin))
            }
        }
    }

    /// Used by the accounts of each triple of owners, exact: all credit is called back for it.
    pub fn by_owners(&mut self, hand: &Hand<'_>) -> Vec<(Owners, [u64; 2])> {
        for number in 0..self.accounts.len() as u32 {
            if self.accounts[number as usize].is_some() {
                for resource in Resource::ALL {
                    self.call_back(number, resource, hand);
                }
            }
        }
        let entries = self.accounts.iter().flatten();
        entries.map(|entry| (entry.owners, entry.granted)).collect()
    }

    /// Settings with limits of bytes are about to hold: from now on files are opened as under a
    /// limit. Answers for whom that is new. [`Book::put`] or [`Book::withdraw`] is next.
    pub fn announce(&mut self, settings: &Settings) -> Vec<QuotaId> {
        let concerned = self.concerned(settings);
        self.announced = Some(*settings);
        let mut whose = Vec::new();
        for index in concerned {
            let record = &self.records[index];
            // Relaxed: see `apply`; the caller has a fence before it looks for files.
            let is_known = record.limited.load(Relaxed);
            if !is_known && self.will_limit(record.who, &record.own) {
                record.limited.store(true, Relaxed);
                whose.push(record.who);
            }
        }
        whose
    }

    /// What was announced does not come, if it was not put into force.
    pub fn withdraw(&mut self) {
        let Some(settings) = self.announced.take() else {
            return;
        };
        for index in self.concerned(&settings) {
            let record = &self.records[index];
            let bounds = self.bounds(record.who, &record.own, Resource::Blocks);
            record.limited.store(bounds.is_limit(), Relaxed);
            self.records.close_if_idle(index);
        }
    }

    /// The records that settings are for, but for the volume's: nobody opens a file by that. That
    /// of one id is made now if there is none, so that whoever comes meanwhile has it.
    fn concerned(&mut self, settings: &Settings) -> Vec<usize> {
        match *settings {
            Settings::Own(QuotaId::VOLUME, _) => Vec::new(),
            Settings::Own(who, _) => vec![self.record(who)],
            Settings::Rules(kind, _) => {
                let mut indices = self.records.indices();
                indices.retain(|&index| self.records[index].who.kind == kind);
                indices
            }
        }
    }

    /// Puts settings into force.
    pub fn put(&mut self, settings: Settings, hand: &Hand<'_>) {
        self.announced = None;
        match settings {
            Settings::Own(who, own) => self.set_own(who, own, hand),
            Settings::Rules(kind, rules) => self.set_rules(kind, rules, hand),
        }
    }

    /// Whether what was announced limits the bytes of `who`, who has these settings now.
    pub(super) fn will_limit(&self, who: QuotaId, own: &Own) -> bool {
        let bounds = match &self.announced {
            Some(Settings::Own(whose, own)) if *whose == who => {
                self.bounds(who, own, Resource::Blocks)
            }
            Some(Settings::Rules(kind, rules)) if *kind == who.kind => {
                rules.bounds(who, own, Resource::Blocks)
            }
            _ => return false,
        };
        bounds.is_limit()
    }

    /// The limit of bytes that `who`, whom settings are for, has by them.
    pub fn limit_by(&self, settings: &Settings, who: QuotaId) -> Limit {
        let found = self.records.find(who);
        let now = found.map_or(Own::default(), |index| self.records[index].own);
        let (own, rules) = match *settings {
            Settings::Own(_, own) => (own, self.rules(who.kind)),
            Settings::Rules(_, rules) => (now, rules),
        };
        let at = Resource::Blocks as usize;
        own.limits[at].unwrap_or(rules.defaults[at])
    }

    /// Replaces the settings of one id.
    pub fn set_own(&mut self, who: QuotaId, own: Own, hand: &Hand<'_>) {
        let index = self.record(who);
        self.records[index].own = own;
        self.apply(index, hand);
        self.records.close_if_idle(index);
    }

    pub fn rules(&self, kind: QuotaKind) -> Rules {
        self.rules[kind as usize]
    }

    /// Replaces the settings of a kind.
    pub fn set_rules(&mut self, kind: QuotaKind, rules: Rules, hand: &Hand<'_>) {
        self.rules[kind as usize] = rules;
        for index in self.records.indices() {
            if self.records[index].who.kind == kind {
                self.apply(index, hand);
            }
        }
    }

    pub fn events_after(&self, sequence: u64) -> Vec<QuotaEvent> {
        self.events.after(sequence)
    }

    pub fn latest_event(&self) -> u64 {
        self.events.latest()
    }

    /// Puts the limits that hold for a record into force: no credit of before is left.
    fn apply(&mut self, index: usize, hand: &Hand<'_>) {
        for resource in Resource::ALL {
            let record = &self.records[index];
            let bounds = self.bounds(record.who, &record.own, resource);
            self.recall(index, resource, hand);
            if resource == Resource::Blocks {
                // Relaxed: a setting; an open that overlaps the change may see either.
                self.records[index]
                    .limited
                    .store(bounds.is_limit(), Relaxed);
            }
            let tally = self.records[index].tally(resource);
            let noted = tally.set_bounds(bounds, hand.now);
            self.note(index, resource, noted, hand);
        }
    }

    fn usage(&self, index: usize, resource: Resource, hand: &Hand<'_>) -> Usage {
        let record = &self.records[index];
        let tally = record.tallies[resource as usize].clone();
        let credit: u64 = record.active[resource as usize]
            .iter()
            .filter_map(|&number| hand.slots.get(number, hand.g))
            .map(|account| account.credit.sum(resource))
            .sum();
        Usage {
            used: tally.granted.saturating_sub(credit),
            tally,
        }
    }
}
