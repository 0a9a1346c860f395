//! Quotas: which limits apply to whom, and since when they are exceeded.
//!
//! Amounts are bytes or inodes; times are seconds of a clock that stands still until a rule moves
//! it.

use std::collections::{BTreeMap, BTreeSet};

use crate::payer::{Payer, PayerKind, Place, Resource, Usage};
use crate::rule::{Change, Rule};

/// Seven days.
const GRACE: u64 = 7 * 24 * 60 * 60;

/// Limits of one payer; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// The hard limit.
    pub hard: Option<u64>,
    /// The soft limit, which may be exceeded during the grace period.
    pub soft: Option<u64>,
}

/// One line of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// In use.
    pub used: u64,
    /// The limits as set, whether enforced or not.
    pub limit: Limit,
    /// Seconds that usage may stay above the soft limit.
    pub grace: u64,
    /// When that ends, while usage is above the soft limit.
    pub deadline: Option<i64>,
    /// Whether limit or grace are the payer's own.
    pub own: bool,
    /// Whether limits of the kind are enforced.
    pub enforced: bool,
}

/// A report: every payer with usage or settings of its own.
pub type Ledger = BTreeMap<Place, Standing>;

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The hard limit would be exceeded.
    Hard,
    /// The grace period has ended.
    GraceEnded,
}

/// Events of a script; counted, so that a test can check that its scripts reach them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Met {
    /// A refusal.
    Refusal(PayerKind, Resource, Reason),
    /// A refusal by a default of the kind.
    Default,
    /// A refusal by a limit that had been set below usage.
    BelowUse,
    /// A write or a copy that was done as far as it fits.
    Partly,
    /// Usage rose above a soft limit.
    Crossing(Resource),
    /// Usage fell below it again.
    Return(Resource),
    /// A limit that is not enforced was exceeded.
    NotEnforced,
    /// Id 0 exceeded the limit that others have.
    IdZero,
    /// A directory refused an inode of another project.
    OtherProject,
}

/// All settings, the clock and the deadlines.
#[derive(Debug, Clone)]
pub struct Quota {
    now: i64,
    kinds: BTreeMap<PayerKind, Settings>,
    own: BTreeMap<Payer, Own>,
    deadlines: BTreeMap<Place, i64>,
    met: BTreeMap<Met, u64>,
}

/// Settings of a kind, by resource.
#[derive(Debug, Clone)]
struct Settings {
    defaults: [Limit; 2],
    grace: [u64; 2],
    enforced: bool,
}

/// Settings of one payer, by resource; `None`: those of the kind.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    limits: [Option<Limit>; 2],
    grace: [Option<u64>; 2],
}

impl Quota {
    /// Returns the quota state at time `now` of a volume with these bytes and inodes.
    pub fn new(now: i64, volume: [u64; 2]) -> Quota {
        let settings = Settings {
            defaults: [Limit::default(); 2],
            grace: [GRACE; 2],
            enforced: true,
        };
        let limit = |hard| {
            Some(Limit {
                hard: Some(hard),
                soft: None,
            })
        };
        let own = Own {
            limits: volume.map(limit),
            ..Own::default()
        };
        let kinds = [
            PayerKind::Volume,
            PayerKind::User,
            PayerKind::Group,
            PayerKind::Project,
        ];
        Quota {
            now,
            kinds: kinds.map(|kind| (kind, settings.clone())).into(),
            own: BTreeMap::from([(Payer::Volume, own)]),
            deadlines: BTreeMap::new(),
            met: BTreeMap::new(),
        }
    }

    /// Applies a rule while usage is `usage`. Returns false if it is invalid, and then nothing has
    /// changed.
    pub fn put(&mut self, rule: &Rule, usage: &Usage) -> bool {
        let before = self.clone();
        if self.set(rule).is_none() {
            return false;
        }
        for (place, deadline) in self.deadlines.clone() {
            // A payer above its soft limit gets a new period from now on.
            let restarted = self.grace(place) != before.grace(place);
            let deadline = if restarted { self.end(place) } else { deadline };
            self.deadlines.insert(place, deadline);
        }
        self.settle(usage);
        true
    }

    /// Returns why `place`, with the usage `used`, may not have `more`.
    pub fn refuses(&self, place: Place, used: u64, more: u64) -> Option<Reason> {
        let limit = self.in_force(place);
        let sum = used + more;
        if more > 0 && limit.hard.is_some_and(|hard| sum > hard) {
            return Some(Reason::Hard);
        }
        let above = more > 0 && limit.soft.is_some_and(|soft| sum > soft);
        let ended = self.deadlines.get(&place).is_some_and(|at| self.now >= *at);
        (above && ended).then_some(Reason::GraceEnded)
    }

    /// Starts the grace period of payers that rose above a soft limit, and ends that of payers that
    /// fell below it.
    pub fn settle(&mut self, usage: &Usage) {
        let payers = usage.keys().copied();
        let mut places: BTreeSet<Place> = payers.flat_map(places_of).collect();
        places.extend(self.deadlines.keys());
        for place in places {
            let used = used(usage, place);
            let above = self.in_force(place).soft.is_some_and(|soft| used > soft);
            let since = self.deadlines.contains_key(&place);
            if above && !since {
                self.deadlines.insert(place, self.end(place));
                self.meet(Met::Crossing(place.1));
            } else if !above && since {
                self.deadlines.remove(&place);
                self.meet(Met::Return(place.1));
            }
        }
    }

    /// Returns the report.
    pub fn ledger(&self, usage: &Usage) -> Ledger {
        let own = self.own.iter().filter(|(_, own)| own.is_any());
        let own = own.map(|(payer, _)| *payer);
        let payers: BTreeSet<Payer> = usage.keys().copied().chain(own).collect();
        let places = payers.into_iter().flat_map(places_of);
        places
            .map(|place| (place, self.standing(place, used(usage, place))))
            .collect()
    }

    /// Counts an event.
    pub fn meet(&mut self, met: Met) {
        *self.met.entry(met).or_default() += 1;
    }

    /// Counts a refusal of a payer with the usage `used`.
    pub fn meet_refusal(&mut self, place: Place, used: u64, reason: Reason) {
        let (payer, resource) = place;
        self.meet(Met::Refusal(payer.kind(), resource, reason));
        if self.own(payer).limits[resource as usize].is_none() {
            self.meet(Met::Default);
        }
        if self.limit(place).hard.is_some_and(|hard| used > hard) {
            self.meet(Met::BelowUse);
        }
    }

    /// Counts that a payer with the usage `used` got `more`.
    pub fn meet_growth(&mut self, place: Place, used: u64, more: u64) {
        let (payer, resource) = place;
        let settings = &self.kinds[&payer.kind()];
        let passes = |limit: Limit| more > 0 && limit.hard.is_some_and(|hard| used + more > hard);
        if payer.is_id_zero() && passes(settings.defaults[resource as usize]) {
            self.meet(Met::IdZero);
        } else if !settings.enforced && passes(self.limit(place)) {
            self.meet(Met::NotEnforced);
        }
    }

    /// Returns the events, and how often each was met.
    pub fn met(&self) -> &BTreeMap<Met, u64> {
        &self.met
    }

    /// Returns `None` if the rule is invalid.
    fn set(&mut self, rule: &Rule) -> Option<()> {
        match *rule {
            Rule::Wait { seconds } => self.now += seconds,
            Rule::Limit {
                payer,
                resource,
                hard,
                soft,
            } => {
                let limit = changed(self.limit((payer, resource)), hard, soft)?;
                let is_volume = payer == Payer::Volume;
                if payer.is_id_zero() || is_volume && (limit.hard.is_none() || limit.soft.is_some())
                {
                    return None;
                }
                if (hard, soft) != (Change::Keep, Change::Keep) {
                    let own = self.own.entry(payer).or_default();
                    own.limits[resource as usize] = Some(limit);
                }
            }
            Rule::Default {
                kind,
                resource,
                hard,
                soft,
            } => {
                let limit = &mut self.settings(kind)?.defaults[resource as usize];
                *limit = changed(*limit, hard, soft)?;
            }
            Rule::Grace {
                kind,
                resource,
                seconds,
            } => self.settings(kind)?.grace[resource as usize] = seconds,
            Rule::GraceOf {
                payer,
                resource,
                seconds,
            } => self.own_settings(payer)?.grace[resource as usize] = seconds,
            Rule::Clear { payer } => *self.own_settings(payer)? = Own::default(),
            Rule::Enforce { kind, on } => self.settings(kind)?.enforced = on,
        }
        Some(())
    }

    /// Returns the settings of a kind that can be changed.
    fn settings(&mut self, kind: PayerKind) -> Option<&mut Settings> {
        let settings = self.kinds.get_mut(&kind);
        settings.filter(|_| kind != PayerKind::Volume)
    }

    /// Returns the settings of a payer that may have some.
    fn own_settings(&mut self, payer: Payer) -> Option<&mut Own> {
        match payer == Payer::Volume || payer.is_id_zero() {
            true => None,
            false => Some(self.own.entry(payer).or_default()),
        }
    }

    fn own(&self, payer: Payer) -> Own {
        self.own.get(&payer).copied().unwrap_or_default()
    }

    fn in_force(&self, place: Place) -> Limit {
        match self.kinds[&place.0.kind()].enforced {
            true => self.limit(place),
            false => Limit::default(),
        }
    }

    /// Returns the payer's own limits, else those of its kind; id 0 has none.
    fn limit(&self, (payer, resource): Place) -> Limit {
        let at = resource as usize;
        match self.own(payer).limits[at] {
            _ if payer.is_id_zero() => Limit::default(),
            Some(own) => own,
            None => self.kinds[&payer.kind()].defaults[at],
        }
    }

    fn grace(&self, (payer, resource): Place) -> u64 {
        let at = resource as usize;
        let of_kind = self.kinds[&payer.kind()].grace[at];
        self.own(payer).grace[at].unwrap_or(of_kind)
    }

    /// Returns when a period ends that begins now.
    fn end(&self, place: Place) -> i64 {
        self.now.saturating_add_unsigned(self.grace(place))
    }

    fn standing(&self, place: Place, used: u64) -> Standing {
        let (payer, resource) = place;
        let own = self.own(payer);
        let at = resource as usize;
        Standing {
            used,
            limit: self.limit(place),
            grace: self.grace(place),
            deadline: self.deadlines.get(&place).copied(),
            own: own.limits[at].is_some() || own.grace[at].is_some(),
            enforced: self.kinds[&payer.kind()].enforced,
        }
    }
}

impl Own {
    fn is_any(&self) -> bool {
        self.limits.iter().any(Option::is_some) || self.grace.iter().any(Option::is_some)
    }
}

fn places_of(payer: Payer) -> [Place; 2] {
    Resource::ALL.map(|resource| (payer, resource))
}

fn used(usage: &Usage, (payer, resource): Place) -> u64 {
    usage.get(&payer).map_or(0, |used| used[resource as usize])
}

/// Returns `None` if the soft limit would be above the hard one.
fn changed(limit: Limit, hard: Change, soft: Change) -> Option<Limit> {
    let (hard, soft) = (hard.of(limit.hard), soft.of(limit.soft));
    match (soft, hard) {
        (Some(soft), Some(hard)) if soft > hard => None,
        _ => Some(Limit { hard, soft }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Payer = Payer::User(1000);
    const PLACE: Place = (ME, Resource::Inodes);

    fn soft(most: u64) -> Rule {
        Rule::Limit {
            payer: ME,
            resource: Resource::Inodes,
            hard: Change::Keep,
            soft: Change::To(most),
        }
    }

    fn uses(inodes: u64) -> Usage {
        Usage::from([(ME, [0, inodes])])
    }

    #[test]
    fn usage_above_a_soft_limit_may_grow_until_the_grace_period_ends() {
        let mut quota = Quota::new(100, [1 << 30; 2]);
        assert!(quota.put(&soft(2), &uses(2)));
        assert_eq!(quota.refuses(PLACE, 2, 1), None, "the crossing");
        quota.settle(&uses(3));
        let wait = |seconds| Rule::Wait { seconds };
        quota.put(&wait(GRACE as i64 - 1), &uses(3));
        assert_eq!(quota.refuses(PLACE, 3, 1), None);
        quota.put(&wait(1), &uses(3));
        assert_eq!(quota.refuses(PLACE, 3, 1), Some(Reason::GraceEnded));
        assert_eq!(quota.refuses(PLACE, 3, 0), None, "nothing is asked for");
        quota.settle(&uses(2));
        assert_eq!(quota.refuses(PLACE, 2, 1), None, "a new period");
    }

    #[test]
    fn invalid_rules_change_nothing() {
        let mut quota = Quota::new(0, [5, 5]);
        let usage = uses(1);
        assert!(quota.put(&soft(2), &usage));
        let before = quota.ledger(&usage);
        let limit = |payer, hard, soft| Rule::Limit {
            payer,
            resource: Resource::Inodes,
            hard,
            soft,
        };
        let refused = [
            limit(ME, Change::To(1), Change::Keep),
            limit(Payer::Group(0), Change::To(1), Change::Keep),
            limit(Payer::Volume, Change::Lift, Change::Keep),
            limit(Payer::Volume, Change::Keep, Change::To(1)),
            Rule::Clear {
                payer: Payer::Volume,
            },
            Rule::Enforce {
                kind: PayerKind::Volume,
                on: false,
            },
        ];
        for rule in refused {
            assert!(!quota.put(&rule, &usage), "{rule:?}");
        }
        assert_eq!(quota.ledger(&usage), before);
    }
}
