//! What the ledger says of an id.

use super::{Quota, QuotaError, check_id};
use crate::quota::{Book, Limit, Own, QuotaId, QuotaKind, Resource, Usage};

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

/// Settings of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaDefaults {
    /// Limits in bytes of ids without their own.
    pub bytes: Limit,
    /// Limits in inodes of ids without their own.
    pub inodes: Limit,
    /// Grace period for bytes in seconds.
    pub bytes_grace: u64,
    /// Grace period for inodes in seconds.
    pub inodes_grace: u64,
    /// Whether limits are enforced.
    pub enforced: bool,
}

impl Quota {
    /// Use and limits of `who`, who need not own anything.
    ///
    /// # Errors
    /// [`QuotaError::NoSuchId`], [`QuotaError::NotYours`], [`QuotaError::Off`].
    pub fn get(&self, who: QuotaId) -> Result<QuotaRecord, QuotaError> {
        self.is_on(who.kind)?;
        check_id(who)?;
        self.sees(who)?;
        Ok(self.with_book(|book, hand| {
            let (own, usage) = book.get(who, hand);
            record(book, who, &own, &usage)
        }))
    }

    /// Every id that owns something or has settings of its own, by kind and id, the volume first.
    /// Who is not the keeper of the volume gets what is theirs to see.
    pub fn report(&self) -> Vec<QuotaRecord> {
        let all = self.with_book(|book, hand| {
            let all = book.report(hand).into_iter();
            all.map(|(who, own, usage)| record(book, who, &own, &usage))
                .collect::<Vec<_>>()
        });
        let counts = |r: &QuotaRecord| {
            let used = r.bytes.used + r.inodes.used > 0;
            used || r.bytes.own || r.inodes.own || r.who.kind == QuotaKind::Volume
        };
        let by_owner = self.volume.core.ledger.is_by_owner();
        let kept = |r: &QuotaRecord| by_owner || r.who.kind == QuotaKind::Volume;
        all.into_iter()
            .filter(|r| counts(r) && kept(r) && self.sees(r.who).is_ok())
            .collect()
    }

    /// Settings of a kind.
    pub fn defaults(&self, kind: QuotaKind) -> QuotaDefaults {
        let rules = self.with_book(|book, _| book.rules(kind));
        QuotaDefaults {
            bytes: rules.defaults[0],
            inodes: rules.defaults[1],
            bytes_grace: rules.grace[0],
            inodes_grace: rules.grace[1],
            enforced: rules.enforced,
        }
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
