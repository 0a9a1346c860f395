//! Settings of a volume that is opened, and who keeps them from then on.

use super::quota;
use super::tenants::{self, TenantSettings};
use super::tunables::{self, HeatTunable};
use super::words::Undecodable;
use crate::heat::{KeptHeat, Tracker};
use crate::quota::KeptQuota;
use crate::stats::Event;
use crate::superblock::Superblock;
use crate::tenant::TenantId;
use hearth_sched::check_weight;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::Ordering::Relaxed;

/// A setting as a backend keeps it.
type Setting = (Box<[u8]>, Box<[u8]>);

/// What the settings of a volume say.
#[derive(Default)]
struct KeptSettings {
    quotas: Vec<KeptQuota>,
    tenants: Vec<(TenantId, TenantSettings)>,
    tunables: Vec<HeatTunable>,
    heat: Vec<KeptHeat>,
    /// Values that could not be read.
    ignored: usize,
}

impl Superblock {
    /// Puts kept settings into force, before the first operation and once everything that exists
    /// is charged. From now on changes are kept.
    pub(crate) fn open_settings(&self, kept: &[Setting]) {
        let Some(log) = &self.objects.log else { return };
        log.keep_settings(!self.is_read_only());
        let mut found = KeptSettings::default();
        for (key, value) in kept {
            found.add(key, value);
        }
        // The half-lives before the heat, which is true under them.
        for tunable in &found.tunables {
            let set = match *tunable {
                HeatTunable::Interval(seconds) => self.heat.settings.set_interval(seconds),
                HeatTunable::Memory(mib) => self.heat.settings.set_memory(mib),
                HeatTunable::HalfLives([short, long]) => {
                    self.heat.set_half_lives(&self.objects, short, long)
                }
            };
            found.ignored += usize::from(set.is_err());
        }
        for (who, settings) in &found.tenants {
            let is_set = self.restore_tenant(*who, settings);
            found.ignored += usize::from(!is_set);
        }
        // The first pass that keeps heat comes a while after this.
        let now = self.objects.clock.monotonic();
        self.maintenance.kept.store(now, Relaxed);
        self.heat.restore_kept(&self.objects, &found.heat);
        (0..found.ignored).for_each(|_| self.stats.event(Event::SettingIgnored));
        // Without accounting by owner no limit may hold; what was kept stays.
        if !self.quotas.ledger.is_by_owner() {
            return;
        }
        let keeper = Arc::clone(log);
        let keep = move |kept: KeptQuota| {
            let (key, value) = quota::encode(&kept);
            keeper.set(key, value);
            Ok(())
        };
        let ledger = &self.quotas.ledger;
        let differs = ledger.restore(&found.quotas, &pin());
        differs.into_iter().for_each(|kept| drop(keep(kept)));
        ledger.keep_with(Box::new(keep));
    }

    /// Takes up kept heat alone; returns how many values could not be read.
    pub(crate) fn take_up_heat(&self, kept: &[Setting]) -> usize {
        let mut found = KeptSettings::default();
        for (key, value) in kept {
            found.add(key, value);
        }
        let now = self.objects.clock.monotonic();
        self.maintenance.kept.store(now, Relaxed);
        self.heat.restore_kept(&self.objects, &found.heat);
        found.ignored
    }

    fn restore_tenant(&self, who: TenantId, settings: &TenantSettings) -> bool {
        let limits = settings.limits;
        if check_weight(settings.weight).is_err() || [limits.ops, limits.bytes].contains(&Some(0)) {
            return false;
        }
        let sched = self.sched.handle();
        let tenant = sched.tenant(who.number());
        let weighted = sched.set_weight(tenant, settings.weight);
        weighted.and(sched.set_limits(tenant, limits)).is_ok()
    }
}

impl KeptSettings {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let is_read = if let Some(kept) = quota::decode(key, value) {
            kept.map(|kept| self.quotas.push(kept))
        } else if let Some(kept) = tenants::decode(key, value) {
            kept.map(|kept| self.tenants.push(kept))
        } else if let Some(kept) = tunables::decode(key, value) {
            kept.map(|kept| self.tunables.push(kept))
        } else if let Some(kept) = Tracker::decode(key, value) {
            kept.map(|kept| self.heat.push(kept))
        } else {
            // Of a newer program.
            Ok(())
        };
        self.ignored += usize::from(is_read == Err(Undecodable));
    }
}
