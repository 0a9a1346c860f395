//! The ready queue of one core: realtime, then normal by virtual deadline, then idle.
//!
//! It is plain data behind the lock of its run queue. It also keeps the accounts: what runs since
//! when, what it is charged, how long it waited.

mod eevdf;
#[cfg(test)]
mod tests;

use crate::class::{Class, Job, Weights};
use crate::stats::{CoreStats, Histogram, Service};
pub(crate) use eevdf::Eevdf;
use std::collections::VecDeque;

/// Nanoseconds of service of other classes that earn one nanosecond of idle service.
const IDLE_PART: i64 = 50;
/// Credit at which an idle task goes ahead of normal ones.
const IDLE_TURN_NS: i64 = 100_000;
/// The most credit.
const IDLE_CREDIT_NS: i64 = 1_000_000;
/// The most debt.
const IDLE_DEBT_NS: i64 = 100_000_000;
/// Shorter runs are not timed one by one.
const SHORT_NS: u64 = 250;
/// Tasks that one steal takes, at most.
const MOST_STOLEN: usize = 32;

/// Waiting tasks, and what runs.
#[derive(Debug)]
pub struct ReadyQueue<T> {
    realtime: VecDeque<Ready<T>>,
    normal: Eevdf<Ready<T>>,
    idle: VecDeque<Ready<T>>,
    /// Credit of idle service, in [`IDLE_PART`]s of a nanosecond.
    credit: i64,
    running: Option<Running>,
    /// By tenant.
    services: Vec<Option<Box<Service>>>,
    /// Waiting times of evicted tenants.
    past: Histogram,
    stats: CoreStats,
    /// The last run was too short to read the clock each time.
    is_short: bool,
    closed: bool,
}

/// A waiting task.
#[derive(Debug)]
pub struct Ready<T> {
    /// The task.
    pub task: T,
    /// When it became runnable, in nanoseconds.
    pub since: u64,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    class: Class,
    tenant: usize,
    since: u64,
    /// How many tasks of the tenant ran since then.
    runs: u32,
    /// How long the first of them had waited, in nanoseconds.
    waited: u64,
    /// An idle task that went ahead, on credit.
    paid: bool,
}

impl<T: Job> ReadyQueue<T> {
    /// Returns an empty queue; a request of a tenant is `slice_ns` of service.
    pub fn new(slice_ns: u64) -> ReadyQueue<T> {
        ReadyQueue {
            realtime: VecDeque::new(),
            normal: Eevdf::new(slice_ns),
            idle: VecDeque::new(),
            credit: 0,
            running: None,
            services: Vec::new(),
            past: Histogram::new(),
            stats: CoreStats::default(),
            is_short: false,
            closed: false,
        }
    }

    /// Adds a task.
    ///
    /// # Errors
    /// The queue is closed; the task comes back.
    #[inline]
    pub fn push(&mut self, ready: Ready<T>, weights: &impl Weights) -> Result<(), T> {
        if self.closed {
            return Err(ready.task);
        }
        match ready.task.class() {
            Class::Realtime => self.realtime.push_back(ready),
            Class::Normal => {
                let tenant = ready.task.tenant();
                self.normal.push(tenant, || weights.weight(tenant), ready);
            }
            Class::Idle => self.idle.push_back(ready),
        }
        Ok(())
    }

    /// Ends the running task, which has ended or yielded, and charges it what `used` returns for
    /// its time until `now`.
    #[inline]
    pub fn finish(&mut self, now: u64, used: impl FnOnce(u64) -> u64, weights: &impl Weights) {
        let Some(ran) = self.running.take() else {
            return;
        };
        let ns = used(now.saturating_sub(ran.since));
        self.is_short = ns < SHORT_NS * u64::from(ran.runs);
        if ran.class == Class::Normal {
            self.normal.charge(ns, weights.weight(ran.tenant));
        }
        if ran.paid {
            let price = i64::try_from(ns).map_or(i64::MAX, |ns| ns.saturating_mul(IDLE_PART));
            self.credit = (self.credit - price).max(-IDLE_DEBT_NS * IDLE_PART);
        }
        self.account(ran.class, ran.tenant, ns, ran.runs)
            .wait
            .add(ran.waited);
    }

    /// Returns whether the next switch may skip the clock: tasks are shorter than a clock reading,
    /// and all belong to one tenant, so that it does not matter which of them used the time.
    #[inline]
    pub fn may_fast_switch(&self) -> bool {
        self.is_short
            && self.realtime.is_empty()
            && self.idle.is_empty()
            && self.normal.is_single()
            && self
                .running
                .is_some_and(|running| running.class == Class::Normal)
    }

    /// Requeues the running task and returns the next one; both run in one span, which is charged
    /// at its end. `now` is an earlier clock reading.
    #[inline]
    pub fn fast_switch(&mut self, task: T, now: u64) -> T {
        let Ready { task, since } = self.normal.rotate(Ready { task, since: now });
        if let Some(running) = &mut self.running {
            running.runs += 1;
            let service = service(&mut self.services, running.tenant);
            service.wait.add(now.saturating_sub(since));
        }
        task
    }

    /// Takes the next task, which runs from `now` on. An idle task runs without credit only if
    /// `spare` returns that no user work waits elsewhere.
    #[inline]
    pub fn pick(&mut self, now: u64, spare: impl FnOnce() -> bool) -> Option<T> {
        let (mut next, mut paid) = (self.realtime.pop_front(), false);
        if next.is_none() && self.credit >= IDLE_TURN_NS * IDLE_PART {
            next = self.idle.pop_front();
            paid = next.is_some();
        }
        if next.is_none() {
            next = self.normal.pick().map(|(_, ready)| ready);
        }
        if next.is_none() && !self.idle.is_empty() && spare() {
            next = self.idle.pop_front();
        }
        self.begin(next?, now, paid)
    }

    /// Takes the next idle task, which runs from `now` on.
    pub fn pick_idle(&mut self, now: u64) -> Option<T> {
        let next = self.idle.pop_front()?;
        self.begin(next, now, false)
    }

    #[inline]
    fn begin(&mut self, Ready { task, since }: Ready<T>, now: u64, paid: bool) -> Option<T> {
        let (class, tenant) = (task.class(), task.tenant());
        self.running = Some(Running {
            class,
            tenant,
            since: now,
            runs: 1,
            waited: now.saturating_sub(since),
            paid,
        });
        Some(task)
    }

    /// Counts `runs` pieces of work that were never queued, `ns` together, as service of a tenant.
    pub fn serve(&mut self, tenant: usize, ns: u64, runs: u32, weights: &impl Weights) {
        self.normal
            .charge_unqueued(tenant, || weights.weight(tenant), ns);
        self.account(Class::Normal, tenant, ns, runs).served += u64::from(runs);
        self.stats.served += u64::from(runs);
    }

    /// Steals at most half of the queue: user work if there is any, else idle work. Of tasks with
    /// affinity it takes one, the next to run, and only if the core is `behind`. Returns true if
    /// affinity kept all tasks here.
    pub fn steal(&mut self, behind: bool, out: &mut Vec<Ready<T>>) -> bool {
        let may_go = |ready: &Ready<T>| !ready.task.is_affine();
        let user = self.user_len();
        let half = |len: usize| len.div_ceil(2).min(MOST_STOLEN);
        if user > 0 {
            let most = half(user);
            let mut taken = 0;
            while taken < most && self.realtime.front().is_some_and(&may_go) {
                out.extend(self.realtime.pop_front());
                taken += 1;
            }
            taken += self
                .normal
                .take(most - taken, |ready| ready.since, may_go, out);
            if taken == 0 && behind {
                taken += self.give_turn(out);
            }
            if taken > 0 {
                self.stats.given += taken as u64;
                return false;
            }
        }
        let may_go = |ready: &Ready<T>| behind || !ready.task.is_affine();
        let most = half(self.idle.len());
        let mut taken = 0;
        while taken < most && self.idle.front().is_some_and(&may_go) {
            out.extend(self.idle.pop_front());
            taken += 1;
        }
        self.stats.given += taken as u64;
        taken == 0 && !self.is_empty()
    }

    /// Gives a thief the next task. Its tenant is charged the mean run of its tasks here, so that a
    /// tenant served elsewhere does not also go first here.
    fn give_turn(&mut self, out: &mut Vec<Ready<T>>) -> usize {
        let services = &self.services;
        let usual = |tenant: usize| match services.get(tenant) {
            Some(Some(service)) => service.run_ns / service.runs.max(1),
            _ => 0,
        };
        let next = self.realtime.pop_front();
        let next = next.or_else(|| self.normal.take_next(usual));
        let given = usize::from(next.is_some());
        out.extend(next);
        given
    }

    /// Returns how many tasks wait.
    pub fn len(&self) -> usize {
        self.user_len() + self.idle.len()
    }

    /// Returns whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many realtime and normal tasks wait.
    pub fn user_len(&self) -> usize {
        self.realtime.len() + self.normal.len()
    }

    /// Closes the queue and returns the tasks that waited.
    pub fn close(&mut self) -> Vec<T> {
        self.closed = true;
        let mut all: Vec<_> = self.realtime.drain(..).chain(self.idle.drain(..)).collect();
        all.extend(self.normal.clear());
        all.into_iter().map(|ready| ready.task).collect()
    }

    /// Returns the counters of the run queue.
    pub fn stats_mut(&mut self) -> &mut CoreStats {
        &mut self.stats
    }

    /// Returns the counters and the current lengths. The waits are those of evicted tenants; add
    /// those of [`ReadyQueue::services`] for all.
    pub fn stats(&self) -> CoreStats {
        CoreStats {
            realtime: self.realtime.len(),
            normal: self.normal.len(),
            idle: self.idle.len(),
            wait: self.past.clone(),
            ..self.stats.clone()
        }
    }

    /// Returns the service that `most` tenants from the index `from` on got here, and where the
    /// next part begins.
    pub fn services(&self, from: usize, most: usize) -> (Vec<(usize, Service)>, Option<usize>) {
        let end = (from + most).min(self.services.len());
        let part = self.services.get(from..end).unwrap_or_default();
        let some = part.iter().zip(from..).filter_map(|(service, tenant)| {
            let service = service.as_deref()?;
            Some((tenant, service.clone()))
        });
        (some.collect(), (end < self.services.len()).then_some(end))
    }

    /// Returns how often the tenant ran here, or `None` while it has tasks here or runs.
    pub fn idle_runs(&self, tenant: usize) -> Option<u64> {
        let runs = self.running.is_some_and(|running| running.tenant == tenant);
        if runs || self.normal.has(tenant) {
            return None;
        }
        let service = self.services.get(tenant).and_then(Option::as_deref);
        Some(service.map_or(0, |service| service.runs))
    }

    /// Forgets a tenant that is not active here, except for the waits of its tasks.
    pub fn forget(&mut self, tenant: usize) -> Option<Box<Service>> {
        self.idle_runs(tenant)?;
        self.normal.forget(tenant);
        let service = self.services.get_mut(tenant)?.take()?;
        self.past.merge(&service.wait);
        Some(service)
    }

    #[inline]
    fn account(&mut self, class: Class, tenant: usize, ns: u64, runs: u32) -> &mut Service {
        // All runs are counted as short, except one that gets the rest.
        let short = (ns / u64::from(runs)).min(SHORT_NS);
        let others = u64::from(runs - 1);
        self.stats.run.add(ns - others * short);
        self.stats.run.add_many(short, others);
        if class.is_user() && !self.idle.is_empty() {
            let earned = i64::try_from(ns).unwrap_or(i64::MAX / 2);
            self.credit = self.credit.saturating_add(earned);
            self.credit = self.credit.min(IDLE_CREDIT_NS * IDLE_PART);
        }
        let service = service(&mut self.services, tenant);
        service.runs += u64::from(runs);
        service.run_ns += ns;
        service
    }
}

#[inline]
fn service(services: &mut Vec<Option<Box<Service>>>, tenant: usize) -> &mut Service {
    if services.len() <= tenant {
        make_room(services, tenant);
    }
    services[tenant].get_or_insert_default()
}

#[cold]
fn make_room(services: &mut Vec<Option<Box<Service>>>, tenant: usize) {
    services.resize_with(tenant + 1, || None);
}
