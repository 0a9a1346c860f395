//! Settings of ids and kinds. A change has two phases, so that a front end can object between them.

use super::{QuotaCx, QuotaEvent, QuotaState};
use crate::quota::kept::{KeepError, KeptQuota};
use crate::quota::kind::{Owners, QuotaId, QuotaKind, Resource};
use crate::quota::rules::{IdSettings, KindSettings, Limit};

/// A change of settings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SettingsUpdate {
    /// New settings of one id.
    Id(QuotaId, IdSettings),
    /// New settings of a kind.
    Kind(QuotaKind, KindSettings),
}

impl QuotaState {
    /// The exact use of each triple of owners. Recalls all credit.
    pub fn by_owners(&mut self, cx: &QuotaCx<'_>) -> Vec<(Owners, [u64; 2])> {
        for number in 0..self.accounts.len() as u32 {
            if self.accounts[number as usize].is_some() {
                for resource in Resource::ALL {
                    self.recall_account(number, resource, cx);
                }
            }
        }
        let entries = self.accounts.iter().flatten();
        entries
            .map(|entry| (entry.owners, entry.reserved))
            .collect()
    }

    /// First phase of a change. Returns whether it is the first limit of bytes for any id. The
    /// caller calls [`QuotaState::commit`] or [`QuotaState::abort`] next.
    pub fn prepare(&mut self, settings: SettingsUpdate) -> bool {
        self.prepared = Some(settings);
        match settings {
            SettingsUpdate::Id(who, _) => self.newly_limits(who),
            SettingsUpdate::Kind(kind, rules) => {
                let limits_new = rules.bounds_of_any(kind).is_limit()
                    && !self.rules(kind).bounds_of_any(kind).is_limit();
                limits_new || self.ids_of(kind).any(|who| self.newly_limits(who))
            }
        }
    }

    /// The first of `owners` for whom the prepared settings are the first limit of bytes.
    pub fn newly_limited(&self, owners: Owners) -> Option<QuotaId> {
        let mut whose = owners.ids().into_iter();
        whose.find(|&who| self.newly_limits(who))
    }

    fn newly_limits(&self, who: QuotaId) -> bool {
        !self.is_limited(who) && self.will_limit(who)
    }

    fn ids_of(&self, kind: QuotaKind) -> impl Iterator<Item = QuotaId> {
        let indices = self.dquots.indices().into_iter();
        let whose = indices.map(|index| self.dquots[index].who);
        whose.filter(move |who| who.kind == kind)
    }

    /// Drops prepared settings that were not committed.
    pub fn abort(&mut self) {
        self.prepared = None;
    }

    /// Whether a limit of bytes is in force for any id, or prepared. The size of a volume counts
    /// only if it was set as a limit.
    pub fn limits_bytes(&self) -> bool {
        let limits = |(kind, rules): (&QuotaKind, &KindSettings)| {
            *kind != QuotaKind::Volume && rules.bounds_of_any(*kind).is_limit()
        };
        let prepared = match &self.prepared {
            Some(SettingsUpdate::Id(who, _)) => self.will_limit(*who),
            Some(SettingsUpdate::Kind(kind, rules)) => {
                limits((kind, rules)) || self.ids_of(*kind).any(|who| self.will_limit(who))
            }
            None => false,
        };
        prepared
            || self.sized
            || self.dquots.are_limited()
            || QuotaKind::ALL.iter().zip(&self.rules).any(limits)
    }

    /// Whether a limit of bytes is in force or prepared for one of `owners` that is not in `old`.
    pub fn limits_bytes_of(&self, owners: Owners, old: Owners) -> bool {
        let whose = owners.ids().into_iter();
        let mut new = whose.filter(|who| !old.ids().contains(who));
        new.any(|who| self.is_limited(who) || self.will_limit(who))
    }

    /// The own settings of `who`.
    pub fn own(&self, who: QuotaId) -> IdSettings {
        let found = self.dquots.find(who);
        found.map_or(IdSettings::default(), |index| self.dquots[index].own)
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

    /// Second phase of a change: puts the settings into force.
    ///
    /// # Errors
    /// They cannot be kept; nothing has changed.
    pub fn commit(&mut self, settings: SettingsUpdate, cx: &QuotaCx<'_>) -> Result<(), KeepError> {
        let kept = match settings {
            SettingsUpdate::Id(who, own) => KeptQuota::Id(who, own),
            SettingsUpdate::Kind(kind, rules) => KeptQuota::Kind(kind, rules),
        };
        if let Some(keep) = cx.keep
            && self.keeps(&kept)
        {
            keep(kept)?;
        }
        self.prepared = None;
        match settings {
            SettingsUpdate::Id(who, own) => self.set_own(who, own, cx),
            SettingsUpdate::Kind(kind, rules) => self.set_rules(kind, rules, cx),
        }
        Ok(())
    }

    /// Whether a setting outlives the mount. The size of a volume is an option of each mount; a
    /// directory of the host has no such option, so its limits are kept.
    pub(super) fn keeps(&self, kept: &KeptQuota) -> bool {
        self.elsewhere || !matches!(kept, KeptQuota::Id(QuotaId::VOLUME, _))
    }

    /// Whether the prepared settings limit the bytes of `who`.
    fn will_limit(&self, who: QuotaId) -> bool {
        let own = self.own(who);
        let bounds = match &self.prepared {
            Some(SettingsUpdate::Id(QuotaId::VOLUME, new)) if who == QuotaId::VOLUME => {
                return new.limits[Resource::Blocks as usize]
                    != own.limits[Resource::Blocks as usize];
            }
            Some(SettingsUpdate::Id(whose, new)) if *whose == who => {
                self.bounds(who, new, Resource::Blocks)
            }
            Some(SettingsUpdate::Kind(kind, rules)) if *kind == who.kind => {
                rules.bounds(who, &own, Resource::Blocks)
            }
            _ => return false,
        };
        bounds.is_limit()
    }

    /// The limit of bytes that `who` gets from the settings.
    pub fn limit_by(&self, settings: &SettingsUpdate, who: QuotaId) -> Limit {
        let now = self.own(who);
        let (own, rules) = match *settings {
            SettingsUpdate::Id(_, own) => (own, self.rules(who.kind)),
            SettingsUpdate::Kind(_, rules) => (now, rules),
        };
        let at = Resource::Blocks as usize;
        own.limits[at].unwrap_or(rules.defaults[at])
    }

    /// Replaces the settings of one id.
    pub fn set_own(&mut self, who: QuotaId, own: IdSettings, cx: &QuotaCx<'_>) {
        let index = self.dquot(who);
        let at = Resource::Blocks as usize;
        let old = std::mem::replace(&mut self.dquots[index].own, own);
        self.sized |= who == QuotaId::VOLUME && old.limits[at] != own.limits[at];
        self.apply(index, cx);
        self.dquots.close_if_idle(index);
    }

    pub fn rules(&self, kind: QuotaKind) -> KindSettings {
        self.rules[kind as usize]
    }

    /// Replaces the settings of a kind.
    pub fn set_rules(&mut self, kind: QuotaKind, rules: KindSettings, cx: &QuotaCx<'_>) {
        self.rules[kind as usize] = rules;
        for index in self.dquots.indices() {
            if self.dquots[index].who.kind == kind {
                self.apply(index, cx);
            }
        }
    }

    pub fn events_after(&self, sequence: u64) -> Vec<QuotaEvent> {
        self.events.after(sequence)
    }

    pub fn latest_event(&self) -> u64 {
        self.events.latest()
    }

    /// Applies the settings of a record to its limits in force. Recalls all credit of before.
    pub(super) fn apply(&mut self, index: usize, cx: &QuotaCx<'_>) {
        for resource in Resource::ALL {
            let dquot = &self.dquots[index];
            let bounds = self.bounds(dquot.who, &dquot.own, resource);
            self.recall(index, resource, cx);
            if resource == Resource::Blocks {
                self.dquots.set_limited(index, bounds);
            }
            let usage = self.dquots[index].usage(resource);
            let noted = usage.set_bounds(bounds, cx.now);
            self.report_crossings(index, resource, noted, cx);
        }
    }
}
