//! Use, limits and settings of ids and kinds.

use super::{Quota, QuotaError, check_id};
use crate::quota::{Limit, QuotaId, QuotaKind, QuotaRecord};
use hearth_sync::epoch::pin;

/// Ids that are read without releasing the state lock.
const IDS: usize = 256;

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
    /// Use and limits of `who`, which need not own anything.
    ///
    /// # Errors
    /// [`QuotaError::NoSuchId`], [`QuotaError::NotYours`], [`QuotaError::Off`].
    pub fn get(&self, who: QuotaId) -> Result<QuotaRecord, QuotaError> {
        self.is_on(who.kind)?;
        check_id(who)?;
        self.check_visible(who)?;
        Ok(QuotaRecord::from(
            &self.sb.quotas.ledger.sample(who, &pin()),
        ))
    }

    /// Every id that owns something or has settings of its own, by kind and id, the volume first.
    /// A caller other than root and the owner of the volume gets the records visible to it. Each
    /// record is as of its own moment; other threads go on meanwhile.
    /// Without [`Quota::is_kept`] there are none.
    pub fn report(&self) -> Vec<QuotaRecord> {
        let (mut records, mut after) = (Vec::new(), None);
        loop {
            let ids = self.with_state(|state, _| state.ids_after(after, IDS));
            let Some(&last) = ids.last() else {
                return records;
            };
            after = Some(last);
            let seen = ids.into_iter().filter(|&who| self.shows(who));
            let all = seen.map(|who| QuotaRecord::from(&self.sb.quotas.ledger.sample(who, &pin())));
            records.extend(all.filter(QuotaRecord::says_something));
        }
    }

    fn shows(&self, who: QuotaId) -> bool {
        self.is_on(who.kind).is_ok() && self.check_visible(who).is_ok()
    }

    /// Settings of a kind.
    pub fn defaults(&self, kind: QuotaKind) -> QuotaDefaults {
        let rules = self.with_state(|state, _| state.rules(kind));
        QuotaDefaults {
            bytes: rules.defaults[0],
            inodes: rules.defaults[1],
            bytes_grace: rules.grace[0],
            inodes_grace: rules.grace[1],
            enforced: rules.enforced && self.is_on(kind).is_ok(),
        }
    }
}
