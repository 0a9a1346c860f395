//! Eviction of idle tenants from all run queues.

use crate::shared::Shared;
use crate::tenant::Seen;
use std::ops::Range;
use std::time::Duration;

/// Visits `most` tenants from the index `from` on: evicts those that were idle for `idle`, and
/// frees indexes that were evicted as long ago. Returns where the next part begins, or `None` at
/// the end. Does nothing while another call runs.
pub fn forget(shared: &Shared, from: usize, most: usize, idle: Duration) -> Option<usize> {
    // Two passes at once would evict a tenant that the other has just seen in use, and clean an
    // index that the other has freed.
    let _turn = shared.forgetting.try_lock()?;
    let tenants = shared.runtime.weights();
    let (now, idle) = (shared.clock.now().ns(), idle.as_nanos() as u64);
    let count = tenants.count();
    let part = from.min(count)..(from + most).min(count);
    let seen = look(shared, part.clone());
    for (index, seen) in part.clone().zip(seen) {
        if tenants.end_idle(index, seen, now, idle) {
            clean(shared, index);
        }
    }
    for _ in 0..most {
        let Some(index) = tenants.first_ended(now, idle) else {
            break;
        };
        tenants.free(index, !clean(shared, index), now);
    }
    (part.end < count).then_some(part.end)
}

/// Returns how often each of them ran at all run queues, and `None` for each that is at one now.
fn look(shared: &Shared, part: Range<usize>) -> Vec<Seen> {
    let mut seen: Vec<Seen> = vec![Some(0); part.len()];
    for run_queue in shared.runtime.run_queues() {
        let queue = run_queue.lock();
        for (index, seen) in part.clone().zip(&mut seen) {
            let runs = queue.idle_runs(index);
            *seen = seen.zip(runs).map(|(sum, runs)| sum + runs);
        }
        run_queue.for_each_pending(|tenant, _, _| {
            if part.contains(&tenant) {
                seen[tenant - part.start] = None;
            }
        });
    }
    seen
}

/// Removes one tenant from all run queues. Returns false if it still has work at one of them.
fn clean(shared: &Shared, index: usize) -> bool {
    let mut clean = true;
    for run_queue in shared.runtime.run_queues() {
        let mut queue = run_queue.lock();
        clean &= queue.idle_runs(index).is_some();
        run_queue.for_each_pending(|tenant, _, _| clean &= tenant != index);
        let service = queue.forget(index);
        drop(queue);
        // Freed outside the lock.
        drop(service);
    }
    clean
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::{Clock, Limits, Scheduler, Spec, yield_now};
    use std::sync::mpsc;

    const IDLE: Duration = Duration::from_secs(300);

    fn pass(scheduler: &Scheduler, clock: &Clock) {
        clock.advance(IDLE);
        let mut next = Some(0);
        while let Some(from) = next {
            next = scheduler.forget_idle(from, 64, IDLE);
        }
    }

    fn scheduler() -> (Scheduler, Clock) {
        let clock = Clock::manual();
        let builder = Scheduler::builder()
            .clock(clock.clone())
            .external_workers(2);
        (builder.start().expect("no thread to start"), clock)
    }

    /// Regression: a user with 65,536 ids made as many tenants, which stayed for ever.
    #[test]
    fn ten_thousand_idle_tenants_are_evicted_and_settings_survive() {
        let (scheduler, clock) = scheduler();
        let [weighted, held] = [1, 2].map(|id| scheduler.tenant(id));
        scheduler.set_weight(weighted, 300).unwrap();
        let limits = Limits {
            ops: Some(7),
            bytes: None,
        };
        scheduler.set_limits(held, limits).unwrap();
        for round in 0..10 {
            for id in 0..1_000 {
                let tenant = scheduler.tenant(1_000 + round * 1_000 + id);
                // Indexes of evicted tenants are used again.
                assert!(tenant.index() < 1_010, "{tenant:?}");
                drop(scheduler.spawn_fn(Spec::of(tenant), || ()));
                scheduler.external_task(tenant).finish(1);
            }
            while scheduler.run_once() > 0 {}
            // One pass sees the use, the next evicts, the last frees.
            (0..3).for_each(|_| pass(&scheduler, &clock));
            assert_eq!(scheduler.tenants_named(), 3, "the daemon's own and two");
        }
        let stats = scheduler.stats();
        let ids: Vec<_> = stats.tenants.iter().map(|tenant| tenant.id).collect();
        assert_eq!(ids, [1, 2]);
        let switches: u64 = stats.cores.iter().map(|core| core.switches).sum();
        assert_eq!(switches, 10_000, "waits of who was forgotten stay");
        assert_eq!(scheduler.tenant(1), weighted);
        assert_eq!(scheduler.weight(weighted), 300);
        assert_eq!(scheduler.tenant(2), held);
        assert_eq!(scheduler.limits(held), limits);
        let fresh = scheduler.tenant(77);
        assert_eq!(scheduler.charge(fresh, 1, 0), None);
        let stats = scheduler.stats();
        let fresh = stats.tenants.iter().find(|tenant| tenant.id == 77);
        let seen = fresh.map(|tenant| (tenant.ops, tenant.tasks, tenant.service.runs));
        assert_eq!(seen, Some((1, 0, 0)), "nothing of who was there before");
    }

    #[test]
    fn a_running_task_and_a_recent_lookup_keep_a_tenant() {
        let (scheduler, clock) = scheduler();
        let (open, gate) = mpsc::channel::<()>();
        let waits = scheduler.tenant(3);
        let task = scheduler.spawn(Spec::of(waits), async move {
            while gate.try_recv() == Err(mpsc::TryRecvError::Empty) {
                yield_now().await;
            }
        });
        let external_task = scheduler.external_task(scheduler.tenant(4));
        (0..5).for_each(|_| pass(&scheduler, &clock));
        assert_eq!(scheduler.known_tenant(3), Some(waits));
        assert_eq!(scheduler.known_tenant(4), Some(external_task.tenant()));
        open.send(()).expect("it waits");
        while scheduler.run_once() > 0 {}
        task.join().expect("it ends");
        drop(external_task);
        pass(&scheduler, &clock);
        // Naming it before it is evicted starts its idle time again.
        let before = scheduler.endings();
        assert_eq!(scheduler.tenant(3), waits);
        pass(&scheduler, &clock);
        assert_eq!(scheduler.known_tenant(3), Some(waits));
        assert_eq!(
            (scheduler.known_tenant(4), scheduler.endings()),
            (None, before + 1)
        );
        pass(&scheduler, &clock);
        assert_eq!(
            (scheduler.known_tenant(3), scheduler.endings()),
            (None, before + 2)
        );
    }

    /// Regression: one of two passes freed an index that the other had not cleaned.
    #[test]
    fn only_one_pass_evicts_tenants_at_a_time() {
        let (scheduler, clock) = scheduler();
        scheduler.tenant(5);
        pass(&scheduler, &clock);
        let held = scheduler.shared().forgetting.try_lock();
        (0..5).for_each(|_| pass(&scheduler, &clock));
        assert_eq!(scheduler.tenants_named(), 2, "another is at it");
        drop(held);
        pass(&scheduler, &clock);
        assert_eq!(scheduler.tenants_named(), 1);
    }

    #[test]
    fn an_evicted_tenant_that_returns_is_one_row_of_statistics() {
        let (scheduler, clock) = scheduler();
        let rows = || {
            let tenants = scheduler.stats().tenants.into_iter();
            let rows = tenants.map(|row| (row.id, row.ops, row.share));
            rows.collect::<Vec<_>>()
        };
        let old = scheduler.tenant(5);
        assert_eq!(scheduler.charge(old, 3, 0), None);
        scheduler.external_task(old).finish(10);
        assert_eq!(rows(), [(5, 3, 1.0)]);
        (0..2).for_each(|_| pass(&scheduler, &clock));
        assert_eq!(rows(), []);
        let new = scheduler.tenant(5);
        assert_ne!(new, old, "its place is not free yet");
        assert_eq!(scheduler.charge(new, 1, 0), None);
        scheduler.external_task(new).finish(10);
        assert_eq!(rows(), [(5, 1, 1.0)]);
    }

    /// A task of a tenant that has just been evicted charges no other tenant.
    #[test]
    fn the_index_of_a_tenant_is_not_reused_while_a_task_carries_it() {
        let (scheduler, clock) = scheduler();
        let old = scheduler.tenant(5);
        (0..2).for_each(|_| pass(&scheduler, &clock));
        assert_eq!(scheduler.known_tenant(5), None);
        // The caller kept the tenant for too long.
        let late = scheduler.spawn(Spec::of(old), std::future::pending::<()>());
        (0..5).for_each(|_| pass(&scheduler, &clock));
        assert!((100..200).all(|id| scheduler.tenant(id) != old));
        drop(late);
        drop(scheduler);
    }
}
