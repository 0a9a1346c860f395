//! Settings and grace periods of a volume that is opened again.

use super::{QuotaCx, QuotaState};
use crate::quota::kept::KeptQuota;
use crate::quota::kind::{QuotaId, QuotaKind, Resource};
use std::collections::HashMap;

impl QuotaState {
    /// Puts into force what was kept. What exists is charged already. Returns the grace periods
    /// that are not as they were kept: use may have changed in a crash.
    pub fn restore(&mut self, kept: &[KeptQuota], cx: &QuotaCx<'_>) -> Vec<KeptQuota> {
        let mut ends: HashMap<QuotaId, [Option<i64>; 2]> = HashMap::new();
        for &kept in kept {
            match kept {
                KeptQuota::Kind(kind, rules) => self.rules[kind as usize] = rules,
                KeptQuota::Id(who, own) if self.keeps(&kept) => {
                    let index = self.dquot(who);
                    self.dquots[index].own = own;
                    self.sized |= who == QuotaId::VOLUME;
                }
                // Of a volume whose size is an option.
                KeptQuota::Id(..) => {}
                KeptQuota::Grace(who, of_id) => drop(ends.insert(who, of_id)),
            }
        }
        for index in self.dquots.indices() {
            if self.dquots[index].who.kind == QuotaKind::Volume && !self.elsewhere {
                continue;
            }
            let of_id = ends.get(&self.dquots[index].who).copied();
            for resource in Resource::ALL {
                if let Some(end) = of_id.and_then(|of_id| of_id[resource as usize]) {
                    self.resume(index, resource, end, cx);
                }
            }
            self.apply(index, cx);
        }
        let differs = self.dquots.indices().into_iter().filter_map(|index| {
            let who = self.dquots[index].who;
            let was = ends.remove(&who).unwrap_or_default();
            let is = self.dquots[index].grace_ends();
            (is != was).then_some(KeptQuota::Grace(who, is))
        });
        let mut differs: Vec<_> = differs.collect();
        // Of ids that own nothing any more.
        differs.extend(ends.into_keys().map(|who| KeptQuota::Grace(who, [None; 2])));
        for index in self.dquots.indices() {
            self.dquots.close_if_idle(index);
        }
        differs
    }

    /// Lets a grace period go on that ends at `end`, if use is above the soft limit.
    fn resume(&mut self, index: usize, resource: Resource, end: i64, cx: &QuotaCx<'_>) {
        self.recall(index, resource, cx);
        let bounds = self.bounds(self.dquots[index].who, &self.dquots[index].own, resource);
        self.dquots[index].usage(resource).resume(bounds, end);
    }
}
