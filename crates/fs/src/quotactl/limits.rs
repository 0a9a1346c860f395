//! Setting limits, grace periods and enforcement.

use super::{Quota, QuotaError, QuotaNumber, check_id};
use crate::quota::{IdSettings, KindSettings, Limit, QuotaId, QuotaKind, Resource, SettingsUpdate};

/// The update of one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitUpdate {
    /// The limit stays.
    #[default]
    Keep,
    /// The limit is removed.
    Lift,
    /// The limit becomes this, in bytes or inodes.
    To(u64),
}

/// The update of the four limits of an id or a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitChange {
    /// Bytes that are never passed.
    pub bytes_hard: LimitUpdate,
    /// Bytes that may be passed for the grace period.
    pub bytes_soft: LimitUpdate,
    /// Inodes that are never passed.
    pub inodes_hard: LimitUpdate,
    /// Inodes that may be passed for the grace period.
    pub inodes_soft: LimitUpdate,
}

impl Quota<'_> {
    /// Changes the limits of `who`, all or nothing. Defaults of its kind that applied to a changed
    /// resource become its own. A limit below use is allowed: it refuses growth.
    ///
    /// # Errors
    /// The reason, and nothing has changed.
    pub fn set(&self, who: QuotaId, change: &LimitChange) -> Result<(), QuotaError> {
        self.may_set(who)?;
        self.put(|state| {
            let mut own = state.own(who);
            let rules = state.rules(who.kind);
            for resource in Resource::ALL {
                let at = resource as usize;
                let limit = own.limits[at].unwrap_or(rules.defaults[at]);
                let changed = changed(limit, change, resource)?;
                let is_open = changed.hard.is_none() && !self.may_be_open();
                if who.kind == QuotaKind::Volume && (is_open || changed.soft.is_some()) {
                    let soft = changed.soft;
                    return Err(QuotaError::VolumeLimit { resource, soft });
                }
                // A limit that was named becomes the id's own, even if it equals the default.
                if names(change, resource) {
                    own.limits[at] = Some(changed);
                }
            }
            Ok(SettingsUpdate::Id(who, own))
        })
    }

    /// The volume's own limits stay as they are, whoever asks for others
    /// ([`Quota::on_behalf_of`]), its owner and root among them: for who has a program bounded that
    /// runs as the owner.
    ///
    /// # Errors
    /// [`QuotaError::NotKeeper`].
    pub fn fix_volume(&self) -> Result<(), QuotaError> {
        self.check_keeper()?;
        self.sb.quotas.fixed.get_or_init(|| ());
        Ok(())
    }

    /// Gives `who` the defaults of its kind again, limits and grace.
    ///
    /// # Errors
    /// The reason, and nothing has changed.
    pub fn clear(&self, who: QuotaId) -> Result<(), QuotaError> {
        self.may_set(who)?;
        if who.kind == QuotaKind::Volume {
            return Err(QuotaError::VolumeKind);
        }
        self.put(|_| Ok(SettingsUpdate::Id(who, IdSettings::default())))
    }

    /// Changes the limits of ids of `kind` without their own.
    ///
    /// # Errors
    /// The reason, and nothing has changed.
    pub fn set_default(&self, kind: QuotaKind, change: &LimitChange) -> Result<(), QuotaError> {
        self.change_rules(kind, |rules| {
            for resource in Resource::ALL {
                let limit = &mut rules.defaults[resource as usize];
                *limit = changed(*limit, change, resource)?;
            }
            Ok(())
        })
    }

    /// Changes the grace period of a kind. It starts now for ids above a soft limit.
    ///
    /// # Errors
    /// The reason, and nothing has changed.
    pub fn set_grace(
        &self,
        kind: QuotaKind,
        resource: Resource,
        seconds: u64,
    ) -> Result<(), QuotaError> {
        check_amount(resource, QuotaNumber::Grace, seconds)?;
        self.change_rules(kind, |rules| {
            rules.grace[resource as usize] = seconds;
            Ok(())
        })
    }

    /// Changes the grace period of one id; `None` means that of its kind. The period starts now if
    /// the id is above its soft limit.
    ///
    /// # Errors
    /// The reason, and nothing has changed.
    pub fn set_grace_of(
        &self,
        who: QuotaId,
        resource: Resource,
        seconds: Option<u64>,
    ) -> Result<(), QuotaError> {
        self.may_set(who)?;
        if who.kind == QuotaKind::Volume {
            return Err(QuotaError::VolumeKind);
        }
        check_amount(resource, QuotaNumber::Grace, seconds.unwrap_or(0))?;
        self.put(|state| {
            let mut own = state.own(who);
            own.grace[resource as usize] = seconds;
            Ok(SettingsUpdate::Id(who, own))
        })
    }

    /// Turns enforcement of a kind on or off; accounting goes on either way.
    ///
    /// # Errors
    /// The reason, and nothing has changed.
    pub fn enforce(&self, kind: QuotaKind, on: bool) -> Result<(), QuotaError> {
        self.change_rules(kind, |rules| {
            rules.enforced = on;
            Ok(())
        })
    }

    /// Whether use is counted at all.
    ///
    /// # Errors
    /// [`QuotaError::OffOfHost`].
    pub fn is_kept(&self) -> Result<(), QuotaError> {
        self.is_on(QuotaKind::Volume)
    }

    fn change_rules(
        &self,
        kind: QuotaKind,
        change: impl FnOnce(&mut KindSettings) -> Result<(), QuotaError>,
    ) -> Result<(), QuotaError> {
        self.check_keeper()?;
        self.is_on(kind)?;
        if kind == QuotaKind::Volume {
            return Err(QuotaError::VolumeKind);
        }
        self.put(|state| {
            let mut rules = state.rules(kind);
            change(&mut rules)?;
            Ok(SettingsUpdate::Kind(kind, rules))
        })
    }

    fn may_set(&self, who: QuotaId) -> Result<(), QuotaError> {
        self.check_keeper()?;
        self.is_on(who.kind)?;
        check_id(who)?;
        match who {
            QuotaId {
                kind: QuotaKind::Volume,
                ..
            } => match self.caller.is_some() && self.sb.quotas.fixed.get().is_some() {
                true => Err(QuotaError::Fixed),
                false => Ok(()),
            },
            QuotaId { kind, id: 0 } => Err(QuotaError::IdZero { kind }),
            _ => Ok(()),
        }
    }

    /// Whether the volume can be without a hard limit: the host has its own end, everything else is
    /// held in memory or in a store of some size.
    fn may_be_open(&self) -> bool {
        self.sb.options.serves_elsewhere
    }

    pub(super) fn is_on(&self, kind: QuotaKind) -> Result<(), QuotaError> {
        if self.sb.quotas.ledger.is_by_owner() {
            return Ok(());
        }
        match self.sb.options.serves_elsewhere {
            // What the volume beside uses is nobody's answer.
            true => Err(QuotaError::OffOfHost),
            false if kind == QuotaKind::Volume => Ok(()),
            false => Err(QuotaError::Off),
        }
    }
}

/// Hard and soft.
fn of_resource(change: &LimitChange, resource: Resource) -> (LimitUpdate, LimitUpdate) {
    match resource {
        Resource::Blocks => (change.bytes_hard, change.bytes_soft),
        Resource::Inodes => (change.inodes_hard, change.inodes_soft),
    }
}

fn names(change: &LimitChange, resource: Resource) -> bool {
    of_resource(change, resource) != (LimitUpdate::Keep, LimitUpdate::Keep)
}

fn changed(limit: Limit, change: &LimitChange, resource: Resource) -> Result<Limit, QuotaError> {
    let (hard, soft) = of_resource(change, resource);
    let apply = |now: Option<u64>, number, change: LimitUpdate| match change {
        LimitUpdate::Keep => Ok(now),
        LimitUpdate::Lift => Ok(None),
        LimitUpdate::To(amount) => check_amount(resource, number, amount).map(Some),
    };
    let limit = Limit {
        hard: apply(limit.hard, QuotaNumber::Hard, hard)?,
        soft: apply(limit.soft, QuotaNumber::Soft, soft)?,
    };
    match (limit.soft, limit.hard) {
        (Some(soft), Some(hard)) if soft > hard => Err(QuotaError::SoftAboveHard {
            resource,
            soft,
            hard,
        }),
        _ => Ok(limit),
    }
}

/// Amounts fit a signed word, as file sizes and times do.
fn check_amount(resource: Resource, number: QuotaNumber, amount: u64) -> Result<u64, QuotaError> {
    match i64::try_from(amount) {
        Ok(_) => Ok(amount),
        Err(_) => Err(QuotaError::TooLarge {
            resource,
            number,
            amount,
        }),
    }
}
