//! Settings: of one id, and of a kind for ids without their own.

use super::kind::{QuotaId, QuotaKind, Resource};
use super::usage::Bounds;

/// Seven days, as `edquota -t` of Linux begins with.
pub const DEFAULT_GRACE: u64 = 7 * 24 * 60 * 60;

/// A hard and a soft limit in bytes or inodes; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Use never goes above this.
    pub hard: Option<u64>,
    /// Use may stay above this for the grace period.
    pub soft: Option<u64>,
}

/// Settings of one id, by resource; `None` means the setting of its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdSettings {
    pub limits: [Option<Limit>; 2],
    /// Seconds.
    pub grace: [Option<u64>; 2],
}

impl IdSettings {
    /// The settings of a volume of this size, in units of the ledger.
    pub fn volume(blocks: u64, inodes: u64) -> IdSettings {
        let hard = |units: u64, resource: Resource| {
            Some(Limit {
                hard: Some(units.saturating_mul(resource.unit())),
                soft: None,
            })
        };
        IdSettings {
            limits: [
                hard(blocks, Resource::Blocks),
                hard(inodes, Resource::Inodes),
            ],
            grace: [None; 2],
        }
    }
}

/// Settings of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindSettings {
    /// Limits of ids without their own, by resource.
    pub defaults: [Limit; 2],
    /// Seconds; by resource.
    pub grace: [u64; 2],
    pub enforced: bool,
}

impl Default for KindSettings {
    fn default() -> KindSettings {
        KindSettings {
            defaults: [Limit::default(); 2],
            grace: [DEFAULT_GRACE; 2],
            enforced: true,
        }
    }
}

impl KindSettings {
    /// The limits of bytes of ids of `kind` without settings of their own.
    pub fn bounds_of_any(&self, kind: QuotaKind) -> Bounds {
        let anybody = QuotaId { kind, id: 1 };
        self.bounds(anybody, &IdSettings::default(), Resource::Blocks)
    }

    /// The limits in force for `who`, an id of this kind with the settings `own`.
    pub fn bounds(&self, who: QuotaId, own: &IdSettings, resource: Resource) -> Bounds {
        let free = who.id == 0 && who.kind != QuotaKind::Volume;
        if free || !self.enforced {
            return Bounds::NONE;
        }
        let at = resource as usize;
        let limit = own.limits[at].unwrap_or(self.defaults[at]);
        // Use is in whole units, so the part of a limit beyond its last whole unit is unusable.
        let units = |amount: Option<u64>| amount.map(|amount| amount / resource.unit());
        Bounds {
            hard: units(limit.hard),
            soft: units(limit.soft),
            grace: own.grace[at].unwrap_or(self.grace[at]),
        }
    }
}
