//! What the ledger says of an id, as people count it.

use super::book::{Book, Hand, Usage};
use super::kind::{QuotaId, QuotaKind, Resource};
use super::rules::{Limit, Own};

/// Use and limits of one resource of one id, in bytes or inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaUsage {
    /// In use, or reserved by an operation on its way.
    pub used: u64,
    /// In use, or set aside for some core to use; never above the hard limit.
    pub reserved: u64,
    /// The hard limit as it was set.
    pub hard: Option<u64>,
    /// The soft limit as it was set.
    pub soft: Option<u64>,
    /// Seconds that use may stay above the soft limit.
    pub grace: u64,
    /// While use is above the soft limit: when the grace period ends (seconds of the wall clock).
    pub deadline: Option<i64>,
    /// Charges let through above the soft limit since it was crossed.
    pub warnings: u32,
    /// Whether the limits are the id's own, not the defaults of its kind.
    pub own: bool,
}

/// What is known of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaRecord {
    /// Whose.
    pub who: QuotaId,
    /// Whether limits of the kind are enforced.
    pub enforced: bool,
    /// Allocated bytes.
    pub bytes: QuotaUsage,
    /// Inodes.
    pub inodes: QuotaUsage,
}

impl Book {
    /// The record of `who`, who need not own anything.
    pub fn show(&self, who: QuotaId, hand: &Hand<'_>) -> QuotaRecord {
        let (own, usage) = self.get(who, hand);
        record(self, who, &own, &usage)
    }

    /// Every record that counts something or has settings of its own, the volume's first.
    pub fn show_all(&self, hand: &Hand<'_>) -> Vec<QuotaRecord> {
        let all = self.report(hand).into_iter();
        let all = all.map(|(who, own, usage)| record(self, who, &own, &usage));
        let counts = |r: &QuotaRecord| {
            let used = r.bytes.used + r.inodes.used > 0;
            used || r.bytes.own || r.inodes.own || r.who.kind == QuotaKind::Volume
        };
        all.filter(counts).collect()
    }
}

fn record(book: &Book, who: QuotaId, own: &Own, usage: &[Usage; 2]) -> QuotaRecord {
    let rules = book.rules(who.kind);
    let of = |resource: Resource| {
        let at = resource as usize;
        let unit = resource.unit();
        let free = who.id == 0 && who.kind != QuotaKind::Volume;
        let limit = match own.limits[at] {
            _ if free => Limit::default(),
            own => own.unwrap_or(rules.defaults[at]),
        };
        QuotaUsage {
            used: usage[at].used.saturating_mul(unit),
            reserved: usage[at].tally.granted.saturating_mul(unit),
            hard: limit.hard,
            soft: limit.soft,
            grace: own.grace[at].unwrap_or(rules.grace[at]),
            deadline: usage[at].tally.deadline,
            warnings: usage[at].tally.warnings,
            own: own.limits[at].is_some() || own.grace[at].is_some(),
        }
    };
    QuotaRecord {
        who,
        enforced: rules.enforced,
        bytes: of(Resource::Blocks),
        inodes: of(Resource::Inodes),
    }
}
