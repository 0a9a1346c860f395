//! Weights and rate limits of tenants. Settings are made under the lock of eviction, so that none
//! is lost.

use super::{Indexes, LimitChange, Limits, NAMED, Record, Tenant, Tenants, check_weight};
use crate::error::SchedError;
use hearth_sync::primitive::atomic::Ordering;
use std::task::Waker;

impl Tenants {
    /// Sets a weight.
    pub fn set_weight(&self, tenant: Tenant, weight: u32) -> Result<(), SchedError> {
        check_weight(weight)?;
        let mut indexes = self.indexes.lock();
        if let Some(record) = self.in_force(&mut indexes, tenant) {
            // Relaxed: takes effect soon.
            record.weight.store(weight, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Changes the given rate limits at `now`, in order, and wakes all waiters, which ask again.
    pub fn change_limits(
        &self,
        tenant: Tenant,
        changes: &[LimitChange],
        now: u64,
    ) -> Result<(), SchedError> {
        for change in changes {
            let (what, limit) = match change {
                LimitChange::Ops(limit) => ("operations", limit),
                LimitChange::Bytes(limit) => ("bandwidth", limit),
            };
            if *limit == Some(0) {
                return Err(SchedError::Limit { what });
            }
        }
        let mut indexes = self.indexes.lock();
        let Some(record) = self.in_force(&mut indexes, tenant) else {
            return Ok(());
        };
        let mut limiter = record.limiter.lock();
        let mut limits = limiter.limits();
        for change in changes {
            match *change {
                LimitChange::Ops(limit) => limits.ops = limit,
                LimitChange::Bytes(limit) => limits.bytes = limit,
            }
        }
        let woken = limiter.set(limits, now);
        let is_limited = limits != Limits::default();
        // Relaxed: see the fields. The lock orders them.
        match (
            record.is_limited.swap(is_limited, Ordering::Relaxed),
            is_limited,
        ) {
            (false, true) => _ = self.limited.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.limited.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
        drop(limiter);
        drop(indexes);
        woken.into_values().for_each(Waker::wake);
        Ok(())
    }

    /// Returns the record that the tenant's number has now: if it was evicted, another or a new
    /// one. It is not evicted before the lock is released, nor after that if a setting was made.
    fn in_force(&self, indexes: &mut Indexes, tenant: Tenant) -> Option<&Record> {
        // Relaxed: a caller that has the tenant sees its number.
        let id = self.record(tenant.index())?.id.load(Ordering::Relaxed);
        let known = self.known(id);
        let tenant = known.unwrap_or_else(|| self.make(indexes, id));
        let record = self.record(tenant.index())?;
        // Partner: `Tenants::end_idle`, under the same lock.
        record.state.store(NAMED, Ordering::Relaxed);
        Some(record)
    }

    /// Sets both rate limits.
    pub fn set_limits(&self, tenant: Tenant, limits: Limits, now: u64) -> Result<(), SchedError> {
        let both = [
            LimitChange::Ops(limits.ops),
            LimitChange::Bytes(limits.bytes),
        ];
        self.change_limits(tenant, &both, now)
    }

    /// Returns the rate limits.
    pub fn limits(&self, tenant: Tenant) -> Limits {
        self.record(tenant.index())
            .map(|record| record.limiter.lock().limits())
            .unwrap_or_default()
    }

    /// Returns whether any tenant has a rate limit.
    #[inline]
    pub fn has_limits(&self) -> bool {
        self.limited.load(Ordering::Relaxed) > 0
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::class::Weights;
    use crate::tenant::DEFAULT_WEIGHT;

    const SOME: Limits = Limits {
        ops: Some(7),
        bytes: None,
    };

    /// Returns a tenant that was evicted without its holder knowing.
    fn ended(tenants: &Tenants, id: u64) -> Tenant {
        let tenant = tenants.find(id);
        while !tenants.end_idle(tenant.index(), Some(0), 0, 0) {}
        assert_eq!(tenants.known(id), None);
        tenant
    }

    fn free(tenants: &Tenants) {
        while let Some(index) = tenants.first_ended(0, 0) {
            tenants.free(index, false, 0);
        }
    }

    #[test]
    fn a_setting_for_a_just_evicted_tenant_applies_to_its_number() {
        let tenants = Tenants::new();
        let [weighted, limited] = [1, 2].map(|id| ended(&tenants, id));
        tenants.set_weight(weighted, 300).unwrap();
        tenants.set_limits(limited, SOME, 0).unwrap();
        free(&tenants);
        let [one, two] = [1, 2].map(|id| tenants.known(id).expect("it was named anew"));
        assert_eq!(tenants.weight(one.index()), 300);
        assert_eq!(tenants.limits(two), SOME);
        // Others begin with the defaults.
        for id in 3..6 {
            let other = tenants.find(id);
            assert_eq!(tenants.weight(other.index()), DEFAULT_WEIGHT);
            assert_eq!(tenants.limits(other), Limits::default());
        }
        tenants.set_limits(two, Limits::default(), 0).unwrap();
        assert!(!tenants.has_limits());
    }

    #[test]
    fn a_setting_goes_to_the_tenant_that_has_the_number_now() {
        let tenants = Tenants::new();
        let old = ended(&tenants, 1);
        let new = tenants.find(1);
        assert_ne!(old, new);
        tenants.set_weight(old, 300).unwrap();
        tenants.set_limits(old, SOME, 0).unwrap();
        assert_eq!(tenants.weight(new.index()), 300);
        assert_eq!(tenants.limits(new), SOME);
        assert_eq!(tenants.weight(old.index()), DEFAULT_WEIGHT);
    }

    #[test]
    fn a_tenant_with_settings_is_not_evicted_until_they_are_reset() {
        let tenants = Tenants::new();
        let one = tenants.find(1);
        let end = || (0..4).any(|_| tenants.end_idle(one.index(), Some(0), 0, 0));
        tenants.set_weight(one, 300).unwrap();
        assert!(!end());
        tenants.set_limits(one, SOME, 0).unwrap();
        tenants.set_weight(one, DEFAULT_WEIGHT).unwrap();
        assert!(!end());
        tenants.set_limits(one, Limits::default(), 0).unwrap();
        assert!(end());
    }
}
