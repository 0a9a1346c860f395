//! A weighted fair queue for threads outside the scheduler: tenants are served by weight, as at a
//! run queue.
//!
//! Such threads do work that may block. A piece of work is charged a fixed minimum when it begins,
//! so that tenants whose work only waits alternate as well. Processor time beyond that is charged
//! when it ends.

use crate::queue::Eevdf;
use crate::scheduler::Handle;
use crate::tenant::Tenant;

/// The charge for beginning a piece of work.
const MIN_CHARGE_NS: u64 = 100_000;

/// A weighted fair queue of tenants' work. It has no lock of its own; the owner of the threads
/// locks it.
#[derive(Debug)]
pub struct FairQueue<T> {
    waiting: Eevdf<(Tenant, T)>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> FairQueue<T> {
        FairQueue {
            waiting: Eevdf::new(MIN_CHARGE_NS),
        }
    }
}

impl<T> FairQueue<T> {
    /// Appends `value` to the work of its tenant.
    pub fn push(&mut self, sched: &Handle, tenant: Tenant, value: T) {
        let weight = || sched.weight(tenant);
        self.waiting.push(tenant.index(), weight, (tenant, value));
    }

    /// Takes the oldest work of the tenant that is next by weight.
    pub fn pop(&mut self, sched: &Handle) -> Option<(Tenant, T)> {
        let (_, (tenant, value)) = self.waiting.pick()?;
        self.waiting.charge(MIN_CHARGE_NS, sched.weight(tenant));
        Some((tenant, value))
    }

    /// Takes the oldest work of some tenant that `may` begin. It looks at all tenants.
    pub fn pop_if(&mut self, sched: &Handle, may: impl Fn(Tenant) -> bool) -> Option<(Tenant, T)> {
        let mut taken = Vec::new();
        self.waiting
            .take(1, |_| (), |(tenant, _)| may(*tenant), &mut taken);
        let (tenant, value) = taken.pop()?;
        let weight = || sched.weight(tenant);
        self.waiting
            .charge_unqueued(tenant.index(), weight, MIN_CHARGE_NS);
        Some((tenant, value))
    }

    /// Returns whether work of some tenant that `may` begin waits. It looks at all tenants.
    pub fn has_one(&self, may: impl Fn(Tenant) -> bool) -> bool {
        self.waiting.has_one(|(tenant, _)| may(*tenant))
    }

    /// Charges a tenant for a piece of work that has ended and used `ns` of processor time.
    pub fn finish(&mut self, sched: &Handle, tenant: Tenant, ns: u64) {
        let more = ns.saturating_sub(MIN_CHARGE_NS);
        if more > 0 {
            let weight = || sched.weight(tenant);
            self.waiting.charge_unqueued(tenant.index(), weight, more);
        }
    }

    /// Returns how many pieces wait, of all tenants.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::Scheduler;

    /// Returns how many pieces each of two tenants of weights 300 and 100 gets when both have
    /// plenty.
    fn divided(used: [u64; 2]) -> [u64; 2] {
        let sched = Scheduler::builder().start().expect("it needs no thread");
        let tenants = [1, 2].map(|id| sched.tenant(id));
        sched.set_weight(tenants[0], 300).expect("a weight");
        let mut queue = FairQueue::default();
        for which in [0, 1] {
            for _ in 0..2000 {
                queue.push(&sched, tenants[which], which);
            }
        }
        let mut got = [0; 2];
        for _ in 0..1000 {
            // Eight threads: eight pieces begin before the first ends.
            let begun: Vec<_> = (0..8).filter_map(|_| queue.pop(&sched)).collect();
            for (_, which) in begun {
                queue.finish(&sched, tenants[which], used[which]);
                got[which] += 1;
                if got[0] + got[1] == 2000 {
                    return got;
                }
            }
        }
        got
    }

    #[test]
    fn pieces_divide_by_weight_whether_they_block_or_compute() {
        for used in [0, 2_000_000] {
            let [one, two] = divided([used; 2]);
            let ratio = one as f64 / two as f64;
            assert!((2.9..=3.1).contains(&ratio), "{used}: {one} to {two}");
        }
    }

    #[test]
    fn a_tenant_with_longer_work_gets_fewer_pieces() {
        let [one, two] = divided([3_000_000, 500_000]);
        let ratio = (one * 3_000_000) as f64 / (two * 500_000) as f64;
        assert!((2.8..=3.2).contains(&ratio), "{one} to {two}");
    }

    #[test]
    fn tenants_alternate_and_each_is_served_first_in_first_out() {
        let sched = Scheduler::builder().start().unwrap();
        let (much, little) = (sched.tenant(1), sched.tenant(2));
        let mut queue = FairQueue::default();
        for value in 10..14 {
            queue.push(&sched, much, value);
        }
        for value in 20..22 {
            queue.push(&sched, little, value);
        }
        assert_eq!(queue.len(), 6);
        let popped = std::iter::from_fn(|| queue.pop(&sched));
        let order: Vec<i32> = popped.map(|(_, value)| value).collect();
        assert_eq!(order, [10, 20, 11, 21, 12, 13]);
        assert!(queue.is_empty());
    }

    #[test]
    fn work_of_tenants_that_may_not_begin_is_passed_over_and_stays_in_order() {
        let sched = Scheduler::builder().start().unwrap();
        let [one, two, three] = [1, 2, 3].map(|id| sched.tenant(id));
        let mut queue = FairQueue::default();
        for (tenant, value) in [(one, 10), (one, 11), (two, 20), (two, 21)] {
            queue.push(&sched, tenant, value);
        }
        assert_eq!(queue.pop_if(&sched, |tenant| tenant == three), None);
        assert_eq!(
            queue.pop_if(&sched, |tenant| tenant == two),
            Some((two, 20))
        );
        assert_eq!(
            queue.pop_if(&sched, |tenant| tenant == two),
            Some((two, 21))
        );
        assert_eq!(queue.pop_if(&sched, |tenant| tenant == two), None);
        assert_eq!(
            [(); 2].map(|()| queue.pop(&sched)),
            [Some((one, 10)), Some((one, 11))]
        );
        assert!(queue.pop(&sched).is_none() && queue.is_empty());
    }
}
