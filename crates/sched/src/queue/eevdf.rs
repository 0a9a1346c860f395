//! Tenants of one core by earliest eligible virtual deadline (EEVDF).
//!
//! Invariants, asserted in debug builds:
//!
//! 1. `sum` is the sum of weight times virtual time, `load` the sum of the weights, over the
//!    active tenants.
//! 2. A tenant is active while it has tasks or runs, and `active` lists those. Each of them, except
//!    `current`, has exactly one fresh entry in one of the two heaps.
//! 3. Lags add up to zero, so at least one active tenant is eligible.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Virtual time per nanosecond of service, times weight: the highest weight.
const SCALE: i128 = 10_000;

/// The tasks of one core's tenants, ordered by EEVDF.
#[derive(Debug)]
pub struct Eevdf<T> {
    tenants: Vec<Entity<T>>,
    /// The tenant that was picked last; it is in neither heap.
    current: Option<usize>,
    /// By deadline: entities that were eligible when last checked.
    eligible: BinaryHeap<Reverse<Entry>>,
    /// By virtual time: the others.
    waiting: BinaryHeap<Reverse<Entry>>,
    sum: i128,
    load: i128,
    /// The active entities, in any order. Thieves look at these only, however many tenants there
    /// were.
    active: Vec<usize>,
    /// The virtual time when the last entity left.
    idle_vtime: i128,
    /// The length of a request, scaled.
    slice: i128,
    stamp: u64,
    len: usize,
}

/// Key (deadline or virtual time), age, index of the tenant.
type Entry = (i128, u64, usize);

#[derive(Debug)]
struct Entity<T> {
    tasks: VecDeque<T>,
    weight: i128,
    /// Virtual time per nanosecond of service, in 2^-32: it replaces a division by the weight.
    vtime_rate: u64,
    vruntime: i128,
    deadline: i128,
    /// While away: the lag when it left.
    lag: i128,
    /// While away: the average virtual time when it left.
    left: i128,
    /// The stamp of its fresh heap entry; entries with another stamp are stale.
    stamp: u64,
    /// Its position in `active`.
    position: Option<usize>,
}

impl<T> Eevdf<T> {
    /// Returns an empty queue whose requests are `slice_ns` of service.
    pub fn new(slice_ns: u64) -> Eevdf<T> {
        Eevdf {
            tenants: Vec::new(),
            current: None,
            eligible: BinaryHeap::new(),
            waiting: BinaryHeap::new(),
            sum: 0,
            load: 0,
            active: Vec::new(),
            idle_vtime: 0,
            slice: i128::from(slice_ns) * SCALE,
            stamp: 0,
            len: 0,
        }
    }

    /// Returns how many tasks wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends a task to those of its tenant; `weight` is called if the tenant was not active.
    #[inline]
    pub fn push(&mut self, tenant: usize, weight: impl FnOnce() -> u32, task: T) {
        self.ensure(tenant);
        self.tenants[tenant].tasks.push_back(task);
        self.len += 1;
        if !self.is_here(tenant) {
            self.join(tenant, i128::from(weight().max(1)));
        }
    }

    /// Takes the oldest task of the tenant that is next. That tenant is current until
    /// [`Eevdf::charge`].
    #[inline]
    pub fn pick(&mut self) -> Option<(usize, T)> {
        self.retire_current();
        let next = match self.current {
            Some(alone) if self.active.len() == 1 => alone,
            _ => {
                if let Some(last) = self.current.take() {
                    self.enter(last);
                }
                self.earliest()?
            }
        };
        self.current = Some(next);
        let task = self.tenants[next].tasks.pop_front()?;
        self.len -= 1;
        Some((next, task))
    }

    /// Charges the current tenant `ns` of service; `weight` is its weight from now on.
    #[inline]
    pub fn charge(&mut self, ns: u64, weight: u32) {
        let Some(current) = self.current else { return };
        let tenant = &mut self.tenants[current];
        let ran = i128::from(tenant.virtual_ns(ns));
        tenant.vruntime += ran;
        self.sum += ran * tenant.weight;
        let weight = i128::from(weight.max(1));
        if weight != tenant.weight {
            self.sum += (weight - tenant.weight) * tenant.vruntime;
            self.load += weight - tenant.weight;
            tenant.deadline =
                tenant.vruntime + (tenant.deadline - tenant.vruntime) * tenant.weight / weight;
            tenant.set_weight(weight);
        }
        if tenant.vruntime >= tenant.deadline {
            tenant.deadline = tenant.vruntime + self.slice / tenant.weight;
        }
    }

    /// Charges a tenant `ns` of work that was never queued here.
    pub fn charge_unqueued(&mut self, tenant: usize, weight: impl FnOnce() -> u32, ns: u64) {
        self.retire_current();
        self.ensure(tenant);
        if !self.is_here(tenant) {
            self.join(tenant, i128::from(weight().max(1)));
        }
        if let Some(other) = self.current.replace(tenant)
            && other != tenant
        {
            self.enter(other);
        }
        let weight = u32::try_from(self.tenants[tenant].weight).unwrap_or(1);
        self.charge(ns, weight);
        self.tenants[tenant].stamp = 0;
        self.retire_current();
    }

    /// Takes up to `most` tasks that `may_go` allows, the oldest of each tenant in turn. `age`
    /// orders the tenants by their oldest task.
    pub fn take<K: Ord>(
        &mut self,
        most: usize,
        age: impl Fn(&T) -> K,
        may_go: impl Fn(&T) -> bool,
        out: &mut Vec<T>,
    ) -> usize {
        let active = self.active.iter().copied();
        let mut order: Vec<usize> = active
            .filter(|&at| !self.tenants[at].tasks.is_empty())
            .collect();
        order.sort_by_key(|&at| self.tenants[at].tasks.front().map(&age));
        let mut taken = 0;
        while taken < most && !order.is_empty() {
            order.retain(|&at| {
                let tasks = &mut self.tenants[at].tasks;
                if taken == most || !tasks.front().is_some_and(&may_go) {
                    return false;
                }
                out.extend(tasks.pop_front());
                taken += 1;
                !tasks.is_empty()
            });
        }
        self.len -= taken;
        self.remove_empty();
        taken
    }

    /// Returns whether [`Eevdf::take`] would find a task that `may_go` allows.
    pub fn has_one(&self, may_go: impl Fn(&T) -> bool) -> bool {
        let oldest = |&at: &usize| self.tenants[at].tasks.front();
        self.active.iter().filter_map(oldest).any(may_go)
    }

    /// Takes the task that would run next beside the current one, to run elsewhere. `cost` returns
    /// what its tenant is charged for it here.
    pub fn take_next(&mut self, cost: impl FnOnce(usize) -> u64) -> Option<T> {
        // The current tenant competes like the others, if it has another task.
        let running = self.current.take();
        let competes = running.filter(|&at| !self.tenants[at].tasks.is_empty());
        if let Some(at) = competes {
            self.enter(at);
        }
        let next = self.earliest_waiting();
        let task = next.and_then(|at| self.tenants[at].tasks.pop_front());
        if let Some(at) = next {
            self.len -= 1;
            self.advance(at, cost(at));
            self.tenants[at].stamp = 0;
            if running != Some(at) {
                match self.tenants[at].tasks.is_empty() {
                    true => self.leave(at),
                    false => self.enter(at),
                }
            }
        }
        if let Some(at) = competes {
            self.tenants[at].stamp = 0;
        }
        self.current = running;
        task
    }

    /// Takes all tasks; no tenant is active afterwards.
    pub fn clear(&mut self) -> Vec<T> {
        let mut all = Vec::with_capacity(self.len);
        for &at in &self.active {
            all.extend(self.tenants[at].tasks.drain(..));
        }
        self.len = 0;
        self.current = None;
        self.remove_empty();
        all
    }

    /// Returns whether the tenant has tasks here, or is current.
    pub fn has(&self, tenant: usize) -> bool {
        let known = self.tenants.get(tenant);
        known.is_some_and(|tenant| tenant.position.is_some()) || self.current == Some(tenant)
    }

    /// Forgets the lag of a tenant, unless it is active.
    pub fn forget(&mut self, tenant: usize) {
        if !self.has(tenant)
            && let Some(known) = self.tenants.get_mut(tenant)
        {
            // Its old entries in the heaps have another stamp.
            *known = Entity::away();
        }
    }

    /// Returns whether the current tenant is the only active one.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.active.len() == 1 && self.current.is_some()
    }

    /// Appends a task to those of the only active tenant, and takes the oldest.
    #[inline]
    pub fn rotate(&mut self, task: T) -> T {
        let Some(current) = self.current else {
            return task;
        };
        let tasks = &mut self.tenants[current].tasks;
        match tasks.pop_front() {
            Some(oldest) => {
                tasks.push_back(task);
                oldest
            }
            None => task,
        }
    }

    /// Ends the turn of the current tenant; without tasks it leaves.
    #[inline]
    pub fn retire_current(&mut self) {
        if let Some(current) = self.current
            && self.tenants[current].tasks.is_empty()
        {
            self.current = None;
            self.leave(current);
        }
    }

    /// Charges an active tenant `ns` of service that it got elsewhere.
    fn advance(&mut self, at: usize, ns: u64) {
        let tenant = &mut self.tenants[at];
        let ran = i128::from(tenant.virtual_ns(ns));
        tenant.vruntime += ran;
        self.sum += ran * tenant.weight;
        if tenant.vruntime >= tenant.deadline {
            tenant.deadline = tenant.vruntime + self.slice / tenant.weight;
        }
    }

    /// Removes tenants that have no task left.
    fn remove_empty(&mut self) {
        // From the end: the last position moves into a removed one.
        for position in (0..self.active.len()).rev() {
            let at = self.active[position];
            if self.tenants[at].tasks.is_empty() && self.current != Some(at) {
                self.leave(at);
            }
        }
    }

    fn is_here(&self, tenant: usize) -> bool {
        self.tenants[tenant].position.is_some()
    }

    fn ensure(&mut self, tenant: usize) {
        while self.tenants.len() <= tenant {
            self.tenants.push(Entity::away());
        }
    }

    fn join(&mut self, at: usize, weight: i128) {
        let average = self.average();
        let limit = 2 * self.slice / weight;
        let tenant = &mut self.tenants[at];
        let lag = match tenant.lag {
            debt if debt < 0 => (debt + (average - tenant.left).max(0)).min(0),
            credit => credit,
        };
        let lag = lag.clamp(-limit, limit);
        let spread = match self.load {
            0 => 0,
            load => lag * (load + weight) / load,
        };
        tenant.set_weight(weight);
        tenant.vruntime = average - spread;
        tenant.deadline = tenant.vruntime + self.slice / weight;
        tenant.position = Some(self.active.len());
        self.active.push(at);
        self.sum += weight * tenant.vruntime;
        self.load += weight;
        self.enter(at);
    }

    fn leave(&mut self, at: usize) {
        let average = self.average();
        let tenant = &mut self.tenants[at];
        let position = tenant.position.take();
        tenant.stamp = 0;
        tenant.left = average;
        tenant.lag = average - tenant.vruntime;
        self.sum -= tenant.weight * tenant.vruntime;
        self.load -= tenant.weight;
        if let Some(position) = position {
            self.active.swap_remove(position);
            if let Some(&moved) = self.active.get(position) {
                self.tenants[moved].position = Some(position);
            }
        }
        if self.active.is_empty() {
            self.idle_vtime = average;
            self.eligible.clear();
            self.waiting.clear();
            debug_assert_eq!((self.sum, self.load), (0, 0));
        }
    }

    fn average(&self) -> i128 {
        match self.load {
            0 => self.idle_vtime,
            load => self.sum.div_euclid(load),
        }
    }

    /// Puts an active tenant into the heap where it belongs now.
    fn enter(&mut self, at: usize) {
        if self.eligible.len() + self.waiting.len() > 2 * self.active.len() + 64 {
            let tenants = &self.tenants;
            self.eligible.retain(|Reverse(entry)| fresh(tenants, entry));
            self.waiting.retain(|Reverse(entry)| fresh(tenants, entry));
        }
        self.stamp += 1;
        self.tenants[at].stamp = self.stamp;
        let tenant = &self.tenants[at];
        if tenant.vruntime * self.load <= self.sum {
            let entry = (tenant.deadline, self.stamp, at);
            self.eligible.push(Reverse(entry));
        } else {
            let entry = (tenant.vruntime, self.stamp, at);
            self.waiting.push(Reverse(entry));
        }
    }

    /// Takes the eligible tenant with the earliest deadline out of the heaps.
    fn earliest(&mut self) -> Option<usize> {
        let first = self.earliest_eligible();
        debug_assert!(
            first.is_some() || self.active.is_empty(),
            "an active tenant is eligible"
        );
        first
    }

    /// Takes the eligible tenant with the earliest deadline, or else the one that becomes eligible
    /// soonest. To be used while the current tenant is in no heap: it may be the only eligible one.
    fn earliest_waiting(&mut self) -> Option<usize> {
        if let Some(first) = self.earliest_eligible() {
            return Some(first);
        }
        while let Some(Reverse(entry @ (_, _, at))) = self.waiting.pop() {
            if fresh(&self.tenants, &entry) {
                return Some(at);
            }
        }
        None
    }

    fn earliest_eligible(&mut self) -> Option<usize> {
        while let Some(&Reverse(entry @ (vruntime, stamp, at))) = self.waiting.peek() {
            let fresh = fresh(&self.tenants, &entry);
            if fresh && vruntime * self.load > self.sum {
                break;
            }
            self.waiting.pop();
            if fresh {
                let deadline = self.tenants[at].deadline;
                self.eligible.push(Reverse((deadline, stamp, at)));
            }
        }
        while let Some(Reverse(entry @ (_, stamp, at))) = self.eligible.pop() {
            if !fresh(&self.tenants, &entry) {
                continue;
            }
            let vruntime = self.tenants[at].vruntime;
            if vruntime * self.load <= self.sum {
                return Some(at);
            }
            self.waiting.push(Reverse((vruntime, stamp, at)));
        }
        None
    }
}

impl<T> Entity<T> {
    fn set_weight(&mut self, weight: i128) {
        self.weight = weight;
        self.vtime_rate = ((SCALE << 32) / weight) as u64;
    }

    /// Returns `ns` of service in virtual time.
    #[inline]
    fn virtual_ns(&self, ns: u64) -> u64 {
        ((u128::from(ns) * u128::from(self.vtime_rate)) >> 32) as u64
    }

    fn away() -> Entity<T> {
        Entity {
            tasks: VecDeque::new(),
            weight: 0,
            vtime_rate: 0,
            vruntime: 0,
            deadline: 0,
            lag: 0,
            left: 0,
            stamp: 0,
            position: None,
        }
    }
}

fn fresh<T>(tenants: &[Entity<T>], &(_, stamp, at): &Entry) -> bool {
    tenants[at].stamp == stamp
}
