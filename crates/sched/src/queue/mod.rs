//! The tasks of one run queue: realtime, then normal by virtual deadline, then idle.
//!
//! A queue is plain data behind its run queue's lock. It also keeps the accounts: who runs since
//! when, what it is charged, how long it waited.

mod eevdf;
#[cfg(test)]
mod tests;

use crate::class::{Class, Job, Weights};
use crate::stats::{CoreStats, Histogram, Service};
pub(crate) use eevdf::Eevdf;
use std::collections::VecDeque;

/// Service of other classes that earns one part of idle service.
const IDLE_PART: i64 = 50;
/// Credit at which idle work goes ahead of normal work.
const IDLE_TURN_NS: i64 = 100_000;
/// No more credit than this.
const IDLE_CREDIT_NS: i64 = 1_000_000;
/// No more debt than this.
const IDLE_DEBT_NS: i64 = 100_000_000;
/// Runs shorter than this are not timed one by one.
const SHORT_NS: u64 = 250;
/// A thief takes no more tasks than this.
const MOST_STOLEN: usize = 32;

/// Tasks that wait, and the one that runs.
#[derive(Debug)]
pub struct ReadyQueue<T> {
    realtime: VecDeque<Ready<T>>,
    normal: Eevdf<Ready<T>>,
    idle: VecDeque<Ready<T>>,
    /// Idle service that is owed, in [`IDLE_PART`]s of a nanosecond.
    credit: i64,
    running: Option<Running>,
    /// By tenant.
    services: Vec<Option<Box<Service>>>,
    /// Waits of tenants that were forgotten.
    past: Histogram,
    stats: CoreStats,
    /// What ran last was too short to read the clock each time.
    is_short: bool,
    closed: bool,
}

/// A task that waits since `since`.
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
    /// How many tasks of the tenant ran since.
    runs: u32,
    /// How long the first of them had waited, in nanoseconds.
    waited: u64,
    /// Idle work that went ahead, on credit.
    paid: bool,
}

impl<T: Job> ReadyQueue<T> {
    /// Nothing waits; a request of a tenant is `slice_ns` of service.
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

    /// Puts a task in.
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

    /// What ran has ended or stepped back: it is charged for what it `used` of its time until
    /// `now`.
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

    /// Whether the clock need not be read for the next switch: tasks run shorter than a
    /// reading is worth, and all are of one tenant, so that it does not matter whose time it was.
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

    /// The task that ran steps back and the next runs, both in one time that is charged at the
    /// end. `now` was read before.
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

    /// The task that runs next, from `now` on. Idle work is given without credit only when
    /// `spare` says that nobody else's user work waits.
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

    /// The idle task that runs next, from `now` on.
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

    /// Counts `runs` pieces of work, of `ns` together, that were never queued as service of a
    /// tenant.
    pub fn serve(&mut self, tenant: usize, ns: u64, runs: u32, weights: &impl Weights) {
        self.normal
            .charge_unqueued(tenant, || weights.weight(tenant), ns);
        self.account(Class::Normal, tenant, ns, runs).served += u64::from(runs);
        self.stats.served += u64::from(runs);
    }

    /// Takes at most half for a thief: user work if there is any, else idle work. Of tasks that
    /// stay only one is taken, the one whose turn it is, and only when `behind`. The flag says that
    /// something was left for that reason.
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

    /// Gives a thief the task whose turn it is. Its tenant is charged here what its tasks take as a
    /// rule, so that who is served elsewhere does not go first here as well.
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

    /// Tasks that wait.
    pub fn len(&self) -> usize {
        self.user_len() + self.idle.len()
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tasks that wait and are not idle work.
    pub fn user_len(&self) -> usize {
        self.realtime.len() + self.normal.len()
    }

    /// Takes no task any more, and gives those that waited.
    pub fn close(&mut self) -> Vec<T> {
        self.closed = true;
        let mut all: Vec<_> = self.realtime.drain(..).chain(self.idle.drain(..)).collect();
        all.extend(self.normal.clear());
        all.into_iter().map(|ready| ready.task).collect()
    }

    /// The run queue's own counters.
    pub fn stats_mut(&mut self) -> &mut CoreStats {
        &mut self.stats
    }

    /// What was counted, with the queue's present lengths. Waits are those of tenants that were
    /// forgotten; who wants all adds those of [`ReadyQueue::services`].
    pub fn stats(&self) -> CoreStats {
        CoreStats {
            realtime: self.realtime.len(),
            normal: self.normal.len(),
            idle: self.idle.len(),
            wait: self.past.clone(),
            ..self.stats.clone()
        }
    }

    /// What `most` tenants from the index `from` on got here, and where the next part begins.
    pub fn services(&self, from: usize, most: usize) -> (Vec<(usize, Service)>, Option<usize>) {
        let end = (from + most).min(self.services.len());
        let part = self.services.get(from..end).unwrap_or_default();
        let some = part.iter().zip(from..).filter_map(|(service, tenant)| {
            let service = service.as_deref()?;
            Some((tenant, service.clone()))
        });
        (some.collect(), (end < self.services.len()).then_some(end))
    }

    /// How often the tenant ran here; `None` while it has tasks here, or runs.
    pub fn idle_runs(&self, tenant: usize) -> Option<u64> {
        let runs = self.running.is_some_and(|running| running.tenant == tenant);
        if runs || self.normal.has(tenant) {
            return None;
        }
        let service = self.services.get(tenant).and_then(Option::as_deref);
        Some(service.map_or(0, |service| service.runs))
    }

    /// Forgets a tenant that is not here, but for how long its tasks waited.
    pub fn forget(&mut self, tenant: usize) -> Option<Box<Service>> {
        self.idle_runs(tenant)?;
        self.normal.forget(tenant);
        let service = self.services.get_mut(tenant)?.take()?;
        self.past.merge(&service.wait);
        Some(service)
    }

    #[inline]
    fn account(&mut self, class: Class, tenant: usize, ns: u64, runs: u32) -> &mut Service {
        // Short ones, but for one that has the rest.
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
