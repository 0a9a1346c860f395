//! The settings of records and kinds, and what they mean.

use super::{Book, Hand, QuotaEvent};
use crate::quota::kind::{Owners, QuotaId, QuotaKind, Resource};
use crate::quota::rules::{Limit, Own, Rules};

/// Settings that are to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settings {
    /// Of one id.
    Own(QuotaId, Own),
    /// Of a kind.
    Rules(QuotaKind, Rules),
}

impl Book {
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

    /// Settings are about to hold. Answers whether they are the first limit of bytes for anybody.
    /// [`Book::put`] or [`Book::withdraw`] is next.
    pub fn announce(&mut self, settings: Settings) -> bool {
        self.announced = Some(settings);
        match settings {
            Settings::Own(who, _) => self.newly_limits(who),
            Settings::Rules(kind, rules) => {
                let limits_new = rules.bounds_of_any(kind).is_limit()
                    && !self.rules(kind).bounds_of_any(kind).is_limit();
                limits_new || self.ids_of(kind).any(|who| self.newly_limits(who))
            }
        }
    }

    /// Of these owners, the one for whom what is announced is the first limit of bytes.
    pub fn newly_limited(&self, owners: Owners) -> Option<QuotaId> {
        let mut whose = owners.ids().into_iter();
        whose.find(|&who| self.newly_limits(who))
    }

    fn newly_limits(&self, who: QuotaId) -> bool {
        !self.is_limited(who) && self.will_limit(who)
    }

    fn ids_of(&self, kind: QuotaKind) -> impl Iterator<Item = QuotaId> {
        let indices = self.records.indices().into_iter();
        let whose = indices.map(|index| self.records[index].who);
        whose.filter(move |who| who.kind == kind)
    }

    /// What was announced does not come, if it was not put into force.
    pub fn withdraw(&mut self) {
        self.announced = None;
    }

    /// Whether a limit of bytes is in force for anybody, now or as announced. The size of a volume
    /// is none unless it was set like one.
    pub fn limits_bytes(&self) -> bool {
        let limits = |(kind, rules): (&QuotaKind, &Rules)| {
            *kind != QuotaKind::Volume && rules.bounds_of_any(*kind).is_limit()
        };
        let announced = match &self.announced {
            Some(Settings::Own(who, _)) => self.will_limit(*who),
            Some(Settings::Rules(kind, rules)) => {
                limits((kind, rules)) || self.ids_of(*kind).any(|who| self.will_limit(who))
            }
            None => false,
        };
        announced
            || self.sized
            || self.records.are_limited()
            || QuotaKind::ALL.iter().zip(&self.rules).any(limits)
    }

    /// The same for one of these owners, other than the `old` ones.
    pub fn limits_bytes_of(&self, owners: Owners, old: Owners) -> bool {
        let whose = owners.ids().into_iter();
        let mut new = whose.filter(|who| !old.ids().contains(who));
        new.any(|who| self.is_limited(who) || self.will_limit(who))
    }

    /// The settings of its own that somebody has.
    pub fn own(&self, who: QuotaId) -> Own {
        let found = self.records.find(who);
        found.map_or(Own::default(), |index| self.records[index].own)
    }

    fn is_limited(&self, who: QuotaId) -> bool {
        match who {
            QuotaId::VOLUME => self.sized,
            who => {
                let bounds = self.bounds(who, &self.own(who), Resource::Blocks);
                bounds.is_limit()
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

    /// Whether what was announced limits the bytes of `who`.
    fn will_limit(&self, who: QuotaId) -> bool {
        let own = self.own(who);
        let bounds = match &self.announced {
            Some(Settings::Own(QuotaId::VOLUME, new)) if who == QuotaId::VOLUME => {
                return new.limits[Resource::Blocks as usize]
                    != own.limits[Resource::Blocks as usize];
            }
            Some(Settings::Own(whose, new)) if *whose == who => {
                self.bounds(who, new, Resource::Blocks)
            }
            Some(Settings::Rules(kind, rules)) if *kind == who.kind => {
                rules.bounds(who, &own, Resource::Blocks)
            }
            _ => return false,
        };
        bounds.is_limit()
    }

    /// The limit of bytes that `who`, whom settings are for, has by them.
    pub fn limit_by(&self, settings: &Settings, who: QuotaId) -> Limit {
        let now = self.own(who);
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
        let at = Resource::Blocks as usize;
        let old = std::mem::replace(&mut self.records[index].own, own);
        self.sized |= who == QuotaId::VOLUME && old.limits[at] != own.limits[at];
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
                self.records.set_limited(index, bounds);
            }
            let tally = self.records[index].tally(resource);
            let noted = tally.set_bounds(bounds, hand.now);
            self.note(index, resource, noted, hand);
        }
    }
}
