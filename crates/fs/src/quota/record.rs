//! Use and limits of an id in bytes and inodes, as people count them.

use super::kind::{QuotaId, QuotaKind, Resource};
use super::rules::Limit;
use super::state::Sample;

/// Use and limits of one resource of one id, in bytes or inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaUsage {
    /// In use, or charged by an operation in progress.
    pub used: u64,
    /// In use, or held by some CPU as credit; never above the hard limit.
    pub reserved: u64,
    /// The hard limit as it was set.
    pub hard: Option<u64>,
    /// The soft limit as it was set.
    pub soft: Option<u64>,
    /// Seconds for which use may stay above the soft limit.
    pub grace: u64,
    /// While use is above the soft limit: when the grace period ends (seconds of the wall clock).
    pub deadline: Option<i64>,
    /// Charges admitted above the soft limit since it was crossed.
    pub warnings: u32,
    /// Whether the settings are the id's own rather than the defaults of its kind.
    pub own: bool,
}

/// Use and limits of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaRecord {
    /// The id.
    pub who: QuotaId,
    /// Whether limits of the kind are enforced.
    pub enforced: bool,
    /// Allocated bytes.
    pub bytes: QuotaUsage,
    /// Inodes.
    pub inodes: QuotaUsage,
}

impl QuotaRecord {
    /// Whether it counts something or has settings of its own.
    pub(crate) fn says_something(&self) -> bool {
        let used = self.bytes.used + self.inodes.used > 0;
        used || self.bytes.own || self.inodes.own || self.who.kind == QuotaKind::Volume
    }
}

impl From<&Sample> for QuotaRecord {
    fn from(sample: &Sample) -> QuotaRecord {
        QuotaRecord {
            who: sample.who,
            enforced: sample.rules.enforced,
            bytes: usage(sample, Resource::Blocks),
            inodes: usage(sample, Resource::Inodes),
        }
    }
}

fn usage(sample: &Sample, resource: Resource) -> QuotaUsage {
    let Sample {
        who, own, rules, ..
    } = sample;
    let at = resource as usize;
    let of = &sample.usage[at];
    let unit = resource.unit();
    let free = who.id == 0 && who.kind != QuotaKind::Volume;
    let limit = match own.limits[at] {
        _ if free => Limit::default(),
        own => own.unwrap_or(rules.defaults[at]),
    };
    QuotaUsage {
        used: of.used.saturating_mul(unit),
        reserved: of.usage.reserved.saturating_mul(unit),
        hard: limit.hard,
        soft: limit.soft,
        grace: own.grace[at].unwrap_or(rules.grace[at]),
        deadline: of.usage.deadline,
        warnings: of.usage.warnings,
        own: own.limits[at].is_some() || own.grace[at].is_some(),
    }
}
