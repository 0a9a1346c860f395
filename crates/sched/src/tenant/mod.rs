//! Tenants: their weights, rate limits and counters.

mod ending;
mod limiter;
mod settings;
mod token_bucket;

pub use ending::Seen;
pub use limiter::{Permit, Waiter};

use crate::class::Weights;
use crate::error::SchedError;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::map::ConcurrentMap;
use hearth_sync::percpu::PerCpuCounters;
use hearth_sync::primitive::OnceLock;
use hearth_sync::primitive::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use limiter::{Limiter, LimiterLock};
use std::collections::VecDeque;
use std::task::Waker;

lock_class! {
    /// Making, configuring and evicting tenants, one at a time.
    pub TenantLock = "sched.tenant", 1990;
}

/// The default weight.
pub const DEFAULT_WEIGHT: u32 = 100;
/// The largest weight.
pub const MAX_WEIGHT: u32 = 10_000;

/// Checks a weight, before a tenant is made for it.
///
/// # Errors
/// It is not in 1 to 10,000.
pub fn check_weight(weight: u32) -> Result<(), SchedError> {
    match weight {
        1..=MAX_WEIGHT => Ok(()),
        _ => Err(SchedError::Weight { weight }),
    }
}

/// A tenant. The default is the daemon itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(u32);

impl Tenant {
    /// The daemon itself.
    pub const SYSTEM: Tenant = Tenant(0);
    /// The number that stands for [`Tenant::SYSTEM`].
    pub const SYSTEM_ID: u64 = u64::MAX;

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Rate limits of a tenant, per second; `None` for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Operations a second.
    pub ops: Option<u64>,
    /// Bytes a second.
    pub bytes: Option<u64>,
}

/// A new value of one rate limit, `None` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitChange {
    /// Operations a second.
    Ops(Option<u64>),
    /// Bytes a second.
    Bytes(Option<u64>),
}

/// All tenants that are named and not [evicted](ending).
#[derive(Debug)]
pub struct Tenants {
    /// Changed with `indexes` locked.
    by_id: ConcurrentMap<u64, u32>,
    indexes: Lock<TenantLock, Indexes>,
    /// How many have rate limits. Relaxed: takes effect soon.
    limited: AtomicUsize,
    /// See [`Tenants::endings`]. Written with `indexes` locked.
    endings: AtomicU64,
    /// Records by index, in chunks that double: 64, 64, 128, 256, ...
    chunks: [OnceLock<Box<[Record]>>; CHUNKS],
}

/// The allocation of indexes.
#[derive(Debug, Default)]
struct Indexes {
    /// Indexes below it have been used; the others never were.
    count: u32,
    /// Evicted tenants and since when, oldest first.
    ended: VecDeque<(u32, u64)>,
    /// Indexes that no tenant has.
    free: Vec<u32>,
}

const CHUNKS: usize = 27;
const FIRST_CHUNK: usize = 64;

#[derive(Debug)]
struct Record {
    id: AtomicU64,
    weight: AtomicU32,
    /// Whether it has rate limits. Written with their lock held. Relaxed: takes effect soon.
    is_limited: AtomicBool,
    limiter: Lock<LimiterLock, Limiter>,
    throttled_ns: AtomicU64,
    /// See [`OPS`] and those after it.
    counts: PerCpuCounters<COUNTS>,
    /// [`IDLE`], [`NAMED`] or [`RETIRED`]. Relaxed: only the order of its own changes counts.
    state: AtomicU8,
    /// The activity when [`Tenants::end_idle`] last looked.
    used: AtomicU64,
    /// When that last changed, in nanoseconds.
    since: AtomicU64,
}

/// Not named since [`Tenants::end_idle`] last looked.
const IDLE: u8 = 0;
/// Named since then.
const NAMED: u8 = 1;
/// Without a tenant, or of an evicted one.
const RETIRED: u8 = 2;

/// Operations charged.
const OPS: usize = 0;
/// Bytes charged.
const BYTES: usize = 1;
/// Tasks begun.
const TASKS: usize = 2;
/// Tasks and external work begun.
const BEGUN: usize = 3;
/// How many of these have ended.
const ENDED: usize = 4;
/// Pieces of external work done.
const RUNS: usize = 5;
/// How long they took, in nanoseconds.
const RUN_NS: usize = 6;
/// Requests that were served outside the run queues, by threads that made the calls themselves.
const SERVED: usize = 7;
/// Requests that were given to threads outside the run queues.
const GIVEN: usize = 8;
const COUNTS: usize = 9;

/// Counters of a tenant besides its service at run queues.
#[derive(Clone, Copy, Debug)]
pub struct TenantCounters {
    pub id: u64,
    pub weight: u32,
    pub ops: u64,
    pub bytes: u64,
    pub throttled_ns: u64,
    pub tasks: u64,
    /// External work that was done, and how long it took.
    pub runs: u64,
    pub run_ns: u64,
    /// Requests that were served outside the run queues: at once, or given to a thread.
    pub served: u64,
    pub given: u64,
    /// Whether its weight or a rate limit differs from the default.
    pub is_set: bool,
}

impl Tenants {
    /// Returns the daemon's tenant alone.
    pub fn new() -> Tenants {
        let tenants = Tenants {
            by_id: ConcurrentMap::new(),
            indexes: Lock::new(Indexes::default()),
            limited: AtomicUsize::new(0),
            endings: AtomicU64::new(0),
            chunks: std::array::from_fn(|_| OnceLock::new()),
        };
        tenants.find(Tenant::SYSTEM_ID);
        tenants
    }

    /// Returns the tenant with this number, if it is named.
    pub fn known(&self, id: u64) -> Option<Tenant> {
        self.by_id.get_with(&id, |index| Tenant(*index))
    }

    /// Returns the tenant with this number, made on first use.
    pub fn find(&self, id: u64) -> Tenant {
        if let Some(tenant) = self.touch(id) {
            return tenant;
        }
        let mut indexes = self.indexes.lock();
        if let Some(tenant) = self.touch(id) {
            return tenant;
        }
        self.make(&mut indexes, id)
    }

    /// Makes a tenant with this number, which none has.
    fn make(&self, indexes: &mut Indexes, id: u64) -> Tenant {
        let index = indexes.free.pop().unwrap_or(indexes.count);
        let (chunk, at) = locate(index as usize);
        let records = self.chunks[chunk].get_or_init(|| {
            let len = FIRST_CHUNK << chunk.saturating_sub(1);
            (0..len).map(|_| Record::new()).collect()
        });
        // Relaxed: published by the map, or by the lock.
        records[at].id.store(id, Ordering::Relaxed);
        records[at].state.store(NAMED, Ordering::Relaxed);
        indexes.count = indexes.count.max(index + 1);
        self.by_id.insert(id, index);
        Tenant(index)
    }

    /// Returns the tenant with this number, if it is named, and marks it as used.
    fn touch(&self, id: u64) -> Option<Tenant> {
        let tenant = self.known(id)?;
        let state = &self.record(tenant.index())?.state;
        // Relaxed: see the field. Stored once, so that readers keep the cache line.
        if state.load(Ordering::Relaxed) == NAMED {
            return Some(tenant);
        }
        // Partner: `Tenants::end_idle`. One of both changes it from idle, and the other sees that.
        let named = state.compare_exchange(IDLE, NAMED, Ordering::Relaxed, Ordering::Relaxed);
        matches!(named, Ok(_) | Err(NAMED)).then_some(tenant)
    }

    /// Returns how many indexes were ever used.
    pub fn count(&self) -> usize {
        self.indexes.lock().count as usize
    }

    /// Charges work at `now`. Returns `None` if it may continue.
    pub fn charge(&self, tenant: Tenant, ops: u64, bytes: u64, now: u64) -> Option<Permit> {
        let record = self.record(tenant.index())?;
        record.counts.add(OPS, ops as i64);
        record.counts.add(BYTES, bytes as i64);
        match record.is_limited.load(Ordering::Relaxed) {
            true => record.limiter.lock().charge(tenant, ops, bytes, now),
            false => None,
        }
    }

    /// Returns when the work of a permit may continue, as of `now`.
    pub fn admit_at(&self, permit: Permit, now: u64) -> u64 {
        let record = self.record(permit.tenant.index());
        record.map_or(now, |record| record.limiter.lock().admit_at(permit, now))
    }

    /// Returns when the work of a permit may continue, as of `now`. If that is later, registers
    /// `waker` for a change of the limits, in place of the waiter `before`.
    pub fn ask(
        &self,
        permit: Permit,
        now: u64,
        before: Option<Waiter>,
        waker: &Waker,
    ) -> (u64, Option<Waiter>) {
        let Some(record) = self.record(permit.tenant.index()) else {
            return (now, None);
        };
        let waker = waker.clone();
        let mut limiter = record.limiter.lock();
        let admit_at = limiter.admit_at(permit, now);
        if admit_at <= now {
            return (now, before);
        }
        let (waiter, old) = limiter.listen(before, waker);
        drop(limiter);
        // The last waker of a task frees it: dropped outside the lock.
        drop(old);
        (admit_at, Some(waiter))
    }

    /// Ends the wait for a permit, which was delayed by `delay_ns`.
    pub fn end(&self, permit: Permit, waiter: Option<Waiter>, delay_ns: u64) {
        let Some(record) = self.record(permit.tenant.index()) else {
            return;
        };
        // Relaxed: a counter.
        record.throttled_ns.fetch_add(delay_ns, Ordering::Relaxed);
        let old = waiter.and_then(|waiter| record.limiter.lock().forget(waiter));
        // Dropped outside the lock, like the waker in `ask`.
        drop(old);
    }

    /// Forgets all waiters at the end of the scheduler, whose tasks are cancelled by their timers.
    /// A future that another executor polls may own itself through such a waker. Wakers are dropped
    /// outside the lock.
    pub fn close(&self) {
        let all = (0..self.count()).filter_map(|index| self.record(index));
        for record in all {
            let wakers = record.limiter.lock().end();
            drop(wakers);
        }
    }

    /// Counts a task that begins.
    pub fn count_task(&self, tenant: Tenant) {
        if let Some(record) = self.record(tenant.index()) {
            record.counts.add(TASKS, 1);
            record.counts.add(BEGUN, 1);
        }
    }

    /// Counts external work that begins.
    pub fn begin(&self, tenant: Tenant) {
        if let Some(record) = self.record(tenant.index()) {
            record.counts.add(BEGUN, 1);
        }
    }

    /// Counts external work that was done in `ns` nanoseconds.
    pub fn count_run(&self, tenant: Tenant, ns: u64) {
        if let Some(record) = self.record(tenant.index()) {
            record.counts.add(RUNS, 1);
            record.counts.add(RUN_NS, ns as i64);
        }
    }

    /// Counts a request that is served outside the run queues, at once or by a thread to which it
    /// is given.
    pub fn count_request(&self, tenant: Tenant, at_once: bool) {
        if let Some(record) = self.record(tenant.index()) {
            record.counts.add(if at_once { SERVED } else { GIVEN }, 1);
        }
    }

    /// Counts a task or external work that has ended.
    pub fn end_one(&self, tenant: Tenant) {
        if let Some(record) = self.record(tenant.index()) {
            record.counts.add(ENDED, 1);
        }
    }

    /// Returns the counters of a tenant.
    pub fn charged(&self, index: usize) -> Option<TenantCounters> {
        let record = self.record(index)?;
        // Relaxed: single values.
        let weight = record.weight.load(Ordering::Relaxed);
        let is_limited = record.is_limited.load(Ordering::Relaxed);
        Some(TenantCounters {
            id: record.id.load(Ordering::Relaxed),
            weight,
            is_set: weight != DEFAULT_WEIGHT || is_limited,
            ops: record.counts.sum(OPS) as u64,
            bytes: record.counts.sum(BYTES) as u64,
            throttled_ns: record.throttled_ns.load(Ordering::Relaxed),
            tasks: record.counts.sum(TASKS) as u64,
            runs: record.counts.sum(RUNS) as u64,
            run_ns: record.counts.sum(RUN_NS) as u64,
            served: record.counts.sum(SERVED) as u64,
            given: record.counts.sum(GIVEN) as u64,
        })
    }

    fn record(&self, index: usize) -> Option<&Record> {
        let (chunk, at) = locate(index);
        Some(&self.chunks[chunk].get()?[at])
    }
}

impl Weights for Tenants {
    #[inline]
    fn weight(&self, tenant: usize) -> u32 {
        // Relaxed: a single value, which takes effect soon.
        self.record(tenant).map_or(DEFAULT_WEIGHT, |record| {
            record.weight.load(Ordering::Relaxed)
        })
    }
}

impl Record {
    fn new() -> Record {
        Record {
            id: AtomicU64::new(0),
            weight: AtomicU32::new(DEFAULT_WEIGHT),
            is_limited: AtomicBool::new(false),
            limiter: Lock::new(Limiter::default()),
            throttled_ns: AtomicU64::new(0),
            counts: PerCpuCounters::new(),
            state: AtomicU8::new(RETIRED),
            used: AtomicU64::new(0),
            since: AtomicU64::new(0),
        }
    }
}

/// Returns the chunk of an index, and the position in it.
fn locate(index: usize) -> (usize, usize) {
    if index < FIRST_CHUNK {
        return (0, index);
    }
    let chunk = (index / FIRST_CHUNK).ilog2() as usize + 1;
    (chunk, index - (FIRST_CHUNK << (chunk - 1)))
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_tenants_keep_their_numbers() {
        let tenants = Tenants::new();
        let made: Vec<_> = (0..1000).map(|id| tenants.find(id)).collect();
        for (id, &tenant) in made.iter().enumerate() {
            assert_eq!(tenants.find(id as u64), tenant);
            assert_eq!(
                tenants.charged(tenant.index()).map(|c| c.id),
                Some(id as u64)
            );
        }
        assert_eq!(tenants.count(), 1001);
        assert_eq!(tenants.find(Tenant::SYSTEM_ID), Tenant::SYSTEM);
    }

    #[test]
    fn nonsense_is_refused_and_changes_nothing() {
        let tenants = Tenants::new();
        let alice = tenants.find(1);
        for weight in [0, 10_001, u32::MAX] {
            let error = tenants.set_weight(alice, weight).unwrap_err();
            assert!(error.to_string().contains(&weight.to_string()), "{error}");
        }
        assert_eq!(tenants.weight(alice.index()), DEFAULT_WEIGHT);
        let limits = Limits {
            ops: Some(5),
            bytes: None,
        };
        tenants.set_limits(alice, limits, 0).unwrap();
        for wrong in [
            Limits {
                ops: Some(0),
                bytes: None,
            },
            Limits {
                ops: Some(7),
                bytes: Some(0),
            },
        ] {
            let error = tenants.set_limits(alice, wrong, 0).unwrap_err();
            assert!(error.to_string().contains("give 1 or more"), "{error}");
        }
        assert_eq!(tenants.limits(alice), limits);
    }

    #[test]
    fn throttled_time_and_charges_are_counted() {
        let tenants = Tenants::new();
        let ci = tenants.find(7);
        tenants
            .set_limits(
                ci,
                Limits {
                    ops: Some(10),
                    bytes: Some(1000),
                },
                0,
            )
            .unwrap();
        assert_eq!(tenants.charge(ci, 1, 500, 0), None);
        let permit = tenants.charge(ci, 1, 500, 0).unwrap();
        let (admit_at, waiter) = tenants.ask(permit, 0, None, Waker::noop());
        assert_eq!(admit_at, 450_000_000);
        tenants.end(permit, waiter, admit_at);
        assert!(
            tenants
                .record(ci.index())
                .unwrap()
                .limiter
                .lock()
                .end()
                .is_empty()
        );
        let charged = tenants.charged(ci.index()).unwrap();
        assert_eq!(
            (charged.ops, charged.bytes, charged.throttled_ns),
            (2, 1000, admit_at)
        );
    }

    #[test]
    fn has_limits_is_true_while_any_tenant_has_a_limit() {
        let (tenants, mut some) = (Tenants::new(), Limits::default());
        some.ops = Some(1);
        let [one, two] = [1, 2].map(|id| tenants.find(id));
        let set = |tenant, limits| tenants.set_limits(tenant, limits, 0).unwrap();
        assert!(!tenants.has_limits());
        for tenant in [one, two, one] {
            set(tenant, some);
        }
        set(one, Limits::default());
        assert!(tenants.has_limits());
        for _ in 0..2 {
            set(two, Limits::default());
        }
        assert!(!tenants.has_limits());
    }
}
