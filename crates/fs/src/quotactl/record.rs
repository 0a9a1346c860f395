//! What the ledger says of an id.

use super::{Quota, QuotaError, check_id};
use crate::quota::{Limit, QuotaId, QuotaKind, QuotaRecord};

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

impl Quota<'_> {
    /// Use and limits of `who`, who need not own anything.
    ///
    /// # Errors
    /// [`QuotaError::NoSuchId`], [`QuotaError::NotYours`], [`QuotaError::Off`].
    pub fn get(&self, who: QuotaId) -> Result<QuotaRecord, QuotaError> {
        self.is_on(who.kind)?;
        check_id(who)?;
        self.sees(who)?;
        Ok(self.with_book(|book, hand| book.show(who, hand)))
    }

    /// Every id that owns something or has settings of its own, by kind and id, the volume first.
    /// Who is not the keeper of the volume gets what is theirs to see.
    pub fn report(&self) -> Vec<QuotaRecord> {
        let all = self.with_book(|book, hand| book.show_all(hand));
        let by_owner = self.core.ledger.is_by_owner();
        let kept = |r: &QuotaRecord| by_owner || r.who.kind == QuotaKind::Volume;
        all.into_iter()
            .filter(|r| kept(r) && self.sees(r.who).is_ok())
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
