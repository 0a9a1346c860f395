//! Setting what outlives the volume and is no quota.

use super::tenants::{self, TenantSettings};
use super::tunables::{self, HeatTunable};
use crate::errno::Result;
use crate::heat::Heat;
use crate::superblock::Superblock;
use crate::tenant::TenantId;
use crate::volume::Volume;
use hearth_sched::{LimitChange, SchedError, check_weight};
use std::time::Duration;

impl Volume {
    /// Sets the weight of a tenant, 1 to 10,000, as [`hearth_sched::Handle::set_weight`] does, and
    /// keeps it: it holds again when the volume is opened the next time, if its backend is durable.
    ///
    /// # Errors
    /// The weight is out of range; nothing has changed.
    pub fn set_weight(&self, who: TenantId, weight: u32) -> std::result::Result<(), SchedError> {
        check_weight(weight)?;
        self.sb
            .change_tenant(who, |sched, tenant| sched.set_weight(tenant, weight))
    }

    /// Sets rate limits of a tenant, as [`hearth_sched::Handle::change_limits`] does, and keeps
    /// them as [`Volume::set_weight`].
    ///
    /// # Errors
    /// A rate limit is zero; nothing has changed.
    pub fn change_limits(
        &self,
        who: TenantId,
        changes: &[LimitChange],
    ) -> std::result::Result<(), SchedError> {
        self.sb
            .change_tenant(who, |sched, tenant| sched.change_limits(tenant, changes))
    }
}

impl Heat<'_> {
    /// Sets [`Heat::interval`], and keeps it if the volume is durable.
    ///
    /// # Errors
    /// `EINVAL` for 0 and for more than [`crate::heat::HEAT_INTERVAL_MAX`].
    pub fn set_interval(&self, seconds: u64) -> Result<()> {
        let set = || self.sb.heat.settings.set_interval(seconds);
        self.sb.tune(HeatTunable::Interval(seconds), set)
    }

    /// Sets [`Heat::memory`], and keeps it if the volume is durable; the coldest go at once.
    ///
    /// # Errors
    /// `EINVAL` for more than [`crate::heat::HEAT_MEMORY_MAX`].
    pub fn set_memory(&self, mib: u64) -> Result<()> {
        let set = || self.sb.heat.settings.set_memory(mib);
        self.sb.tune(HeatTunable::Memory(mib), set)?;
        self.sb.heat.limit();
        Ok(())
    }

    /// Sets the half-life of rates and temperature (1 h by default), and the long one of slow
    /// rates (24 h), and keeps them if the volume is durable. Rates and temperatures stay what they
    /// are at that moment.
    ///
    /// # Errors
    /// `EINVAL` unless both lie between a second and a year, the first below the second.
    pub fn set_half_lives(&self, short: Duration, long: Duration) -> Result<()> {
        let (heat, objects) = (&self.sb.heat, &self.sb.objects);
        let set = || heat.set_half_lives(objects, short, long);
        self.sb.tune(HeatTunable::HalfLives([short, long]), set)
    }
}

impl Superblock {
    fn change_tenant(
        &self,
        who: TenantId,
        change: impl FnOnce(
            &hearth_sched::Handle,
            hearth_sched::Tenant,
        ) -> std::result::Result<(), SchedError>,
    ) -> std::result::Result<(), SchedError> {
        let _ordered = self.settings_order.lock_guard();
        let sched = self.sched.handle();
        change(&sched, sched.tenant(who.number()))?;
        // Asked anew: the tenant may have been evicted and made again.
        let tenant = sched.tenant(who.number());
        let settings = TenantSettings {
            weight: sched.weight(tenant),
            limits: sched.limits(tenant),
        };
        if let Some(log) = self.log() {
            let (key, value) = tenants::encode(who, &settings);
            log.set(key, value);
        }
        Ok(())
    }

    fn tune(&self, tunable: HeatTunable, set: impl FnOnce() -> Result<()>) -> Result<()> {
        let _ordered = self.settings_order.lock_guard();
        set()?;
        if let Some(log) = self.log() {
            let (key, value) = tunables::encode(tunable);
            log.set(key, value);
        }
        Ok(())
    }
}
