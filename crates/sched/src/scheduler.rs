//! The scheduler: building it, spawning, waiting, ending.

use crate::class::Weights;
use crate::clock::{Clock, Time};
use crate::drive::{Drive, Worker, employ};
use crate::error::SchedError;
use crate::fleet::{Fleet, Manner, Station, Unpark};
use crate::forget::forget;
use crate::outside::Outside;
use crate::shared::{Ended, Seat, Shared, Work, is_inside, station_here};
use crate::sleep::Sleep;
use crate::spares::Spares;
use crate::stats::{CoreStats, Service, Stats, TenantStats};
use crate::task::{JoinHandle, Spec, make};
use crate::tenant::{LimitChange, Limits, Tenant, Tenants, Ticket};
use crate::timers::Timers;
use crate::turn::Turn;
use async_task::Runnable;
use hearth_sync::lock::Lock;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use hearth_sync::primitive::{Arc, OnceLock};
use std::future::Future;
use std::time::Duration;

/// The most workers, and the most seats.
pub const MOST_WORKERS: usize = 1024;

/// What a scheduler is to be.
#[derive(Clone, Debug)]
pub struct Builder {
    workers: usize,
    seats: usize,
    clock: Clock,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            workers: 0,
            seats: 0,
            clock: Clock::system(),
        }
    }
}

impl Builder {
    /// Threads that the scheduler starts, 0 by default. Without any, tasks run when
    /// [`Handle::run_once`] is called, or on the workers that callers drive.
    pub fn workers(self, workers: usize) -> Builder {
        Builder { workers, ..self }
    }

    /// Stations that callers drive by [`Handle::worker`], 0 by default.
    pub fn seats(self, seats: usize) -> Builder {
        Builder { seats, ..self }
    }

    /// Where time comes from.
    pub fn clock(self, clock: Clock) -> Builder {
        Builder { clock, ..self }
    }

    /// Starts the scheduler.
    ///
    /// # Errors
    /// Too many workers, or the system refuses a thread; nothing is left running.
    pub fn start(self) -> Result<Scheduler, SchedError> {
        for asked in [self.workers, self.seats] {
            if asked > MOST_WORKERS {
                return Err(SchedError::Workers { asked });
            }
        }
        let stations = (self.workers + self.seats).max(1);
        let shared = Arc::new(Shared {
            fleet: Fleet::new(stations, Tenants::new()),
            timers: (0..stations).map(|_| Timers::new()).collect(),
            clock: self.clock,
            spares: Spares::new(stations),
            panics: AtomicU64::new(0),
            forgetting: Lock::new(()),
            closing: AtomicBool::new(false),
            ended: Ended::default(),
            begin: OnceLock::new(),
        });
        let seats: Box<[Arc<Seat>]> = (0..stations)
            .map(|station| {
                Arc::new(Seat {
                    shared: Arc::clone(&shared),
                    station,
                    spawned: AtomicU64::new(0),
                    finished: AtomicU64::new(0),
                    wanted: AtomicBool::new(false),
                })
            })
            .collect();
        let scheduler = Scheduler(Handle(Arc::new(Inner { shared, seats })));
        for seat in &scheduler.0.0.seats[..self.workers] {
            let taken = seat.shared.fleet.stations()[seat.station].sit(Manner::Helping);
            debug_assert!(taken, "nobody else knows this scheduler");
            employ(seat).map_err(|reason| SchedError::Thread { reason })?;
        }
        Ok(scheduler)
    }
}

/// A scheduler. Dropping it ends it; see [`Scheduler::shutdown`].
pub struct Scheduler(Handle);

/// A way to the scheduler, for tasks and threads.
#[derive(Clone)]
pub struct Handle(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    /// By station.
    seats: Box<[Arc<Seat>]>,
}

impl Scheduler {
    /// A scheduler without workers, to be made something of.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A way to it that can be given away.
    pub fn handle(&self) -> Handle {
        self.0.clone()
    }

    /// Ends the scheduler: steps of tasks that run are waited for, except on workers of callers
    /// and when a task calls this, also one that blocks in place. Tasks that are runnable or sleep
    /// are cancelled, others when they are woken. A task that nobody wakes never ends while its
    /// handle or a waker is kept.
    pub fn shutdown(self) {}
}

impl std::ops::Deref for Scheduler {
    type Target = Handle;
    fn deref(&self) -> &Handle {
        &self.0
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let shared = &self.0.0.shared;
        // Relaxed: in force soon; the queues close under their locks.
        shared.closing.store(true, Ordering::Relaxed);
        shared.fleet.stop();
        shared.spares.stop();
        shared.ended.tell();
        if !is_inside(shared) {
            shared.spares.wait_for_end();
        }
        // Destructors of tasks run here, with no lock held.
        drop(shared.fleet.close());
        shared.timers.iter().for_each(Timers::close);
        shared.fleet.weights().close();
    }
}

impl Handle {
    /// Has each thread that starts one for the scheduler call this before, and the new one call it
    /// first, from now on. A thread takes over from the one that starts it what may not suit it,
    /// its policy in the kernel's scheduler for one. It counts when it is said for the first time.
    pub fn begin_threads_with(&self, begin: fn()) {
        let _ = self.0.shared.begin.set(begin);
    }

    /// This thread was, or starts, one that works beside the scheduler: calls what
    /// [`Handle::begin_threads_with`] was told.
    pub fn thread_begins(&self) {
        self.0.shared.thread_begins();
    }

    /// Starts a future as a task.
    ///
    /// After [`Handle::drain`] or the end of the scheduler the handle says that the task was
    /// cancelled.
    pub fn spawn<F>(&self, spec: Spec, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let shared = &self.0.shared;
        let here = station_here(shared);
        let stations = self.0.seats.len();
        let home = match spec.key {
            Some(key) => (key % stations as u64) as usize,
            None => shared.open(here).unwrap_or_else(|| shared.any_station()),
        };
        let seat = &self.0.seats[here.unwrap_or(home)];
        self.tenants().count_task(spec.tenant);
        let (first, handle) = make(Arc::clone(seat), spec, home, future);
        // Relaxed: in force soon.
        if here.is_none() && shared.closing.load(Ordering::Relaxed) {
            // Dropping the first step cancels the task.
            drop::<Runnable<_>>(first);
        } else {
            first.schedule();
        }
        handle
    }

    /// Starts a closure as a task.
    pub fn spawn_fn<R: Send + 'static>(
        &self,
        spec: Spec,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        self.spawn(spec, async move { f() })
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.0.shared.clock.now()
    }

    /// Waits until `at`.
    pub fn sleep_until(&self, at: Time) -> Sleep {
        Sleep::new(Arc::clone(&self.0.shared), at)
    }

    /// Waits for so long.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.sleep_until(self.now() + time)
    }

    /// The tenant with this number of the embedder's, if it was named before.
    pub fn known_tenant(&self, id: u64) -> Option<Tenant> {
        self.tenants().known(id)
    }

    /// The tenant with this number of the embedder's. It is remembered until
    /// [`Handle::forget_idle`] ends it; who keeps it for as long asks again: [`Handle::endings`].
    pub fn tenant(&self, id: u64) -> Tenant {
        self.tenants().find(id)
    }

    /// Sets the weight of a tenant, 1 to 10,000; 100 by default. If it was forgotten it is named
    /// anew for that.
    ///
    /// # Errors
    /// The weight is out of range; nothing has changed.
    pub fn set_weight(&self, tenant: Tenant, weight: u32) -> Result<(), SchedError> {
        self.tenants().set_weight(tenant, weight)
    }

    /// Sets the ceilings of a tenant. Who waits for them is held to the new ones from now on, for
    /// what it was charged and those before it were; without a ceiling it goes on. A tenant that
    /// was forgotten is named anew.
    ///
    /// # Errors
    /// A ceiling is zero; nothing has changed.
    pub fn set_limits(&self, tenant: Tenant, limits: Limits) -> Result<(), SchedError> {
        let now = self.now().ns();
        self.tenants().set_limits(tenant, limits, now)
    }

    /// [`Handle::set_limits`] for those that are named; the others stay, whoever sets them at the
    /// same time.
    ///
    /// # Errors
    /// A ceiling is zero; nothing has changed.
    pub fn change_limits(&self, tenant: Tenant, changes: &[LimitChange]) -> Result<(), SchedError> {
        let now = self.now().ns();
        self.tenants().change_limits(tenant, changes, now)
    }

    /// The ceilings of a tenant.
    pub fn limits(&self, tenant: Tenant) -> Limits {
        self.tenants().limits(tenant)
    }

    /// Whether any tenant has a ceiling: without it there is nothing to charge.
    #[inline]
    pub fn has_ceilings(&self) -> bool {
        self.tenants().has_ceilings()
    }

    /// The weight of a tenant.
    pub fn weight(&self, tenant: Tenant) -> u32 {
        self.tenants().weight(tenant.index())
    }

    /// Charges work to a tenant's ceilings. With a ticket it is to wait for its [`Handle::turn`],
    /// without one it may go on.
    pub fn charge(&self, tenant: Tenant, ops: u64, bytes: u64) -> Option<Ticket> {
        let now = self.now().ns();
        self.tenants().charge(tenant, ops, bytes, now)
    }

    /// Work of a tenant begins that is done on another thread, and is queued by [`Rounds`] until
    /// then.
    ///
    /// [`Rounds`]: crate::Rounds
    pub fn outside(&self, tenant: Tenant) -> Outside {
        Outside::new(&self.0.shared, tenant)
    }

    /// Waits until the ceilings let work go on that was charged, also when they change meanwhile.
    pub fn turn(&self, ticket: Ticket) -> Turn {
        Turn::new(Arc::clone(&self.0.shared), ticket)
    }

    /// How many stations there are: keys count modulo this.
    pub fn stations(&self) -> usize {
        self.0.seats.len()
    }

    /// Takes a station without a driver, to drive it from this thread. `unpark` wakes the thread
    /// when it sleeps in [`Worker::wait`] by other means than [`Worker::park`].
    ///
    /// # Errors
    /// Every station has a driver.
    pub fn worker(&self, unpark: Option<Unpark>) -> Result<Worker, SchedError> {
        self.sit_anywhere(Manner::Helping, unpark)
    }

    /// [`Handle::worker`] for a thread that often sleeps in its own way, and not in
    /// [`Worker::wait`]: its station runs what it spawned with [`Worker::station`] as the key,
    /// which nobody else may, and nothing else. While any of that is left, it sleeps in
    /// [`Worker::wait`].
    ///
    /// # Errors
    /// Every station has a driver.
    pub fn worker_alone(&self, unpark: Option<Unpark>) -> Result<Worker, SchedError> {
        self.sit_anywhere(Manner::Alone, unpark)
    }

    fn sit_anywhere(
        &self,
        manner: Manner,
        mut unpark: Option<Unpark>,
    ) -> Result<Worker, SchedError> {
        for seat in &self.0.seats {
            match Worker::take(seat, manner, unpark) {
                Ok(worker) => return Ok(worker),
                Err(back) => unpark = back,
            }
        }
        let stations = self.0.seats.len();
        Err(SchedError::NoSeat { stations })
    }

    /// [`Handle::worker`] for one station: for a thread that is bound to a core or a queue.
    ///
    /// # Errors
    /// The station has a driver, or there is no such station.
    pub fn worker_at(&self, station: usize, unpark: Option<Unpark>) -> Result<Worker, SchedError> {
        let stations = self.0.seats.len();
        let seat = self.0.seats.get(station);
        seat.and_then(|seat| Worker::take(seat, Manner::Helping, unpark).ok())
            .ok_or(SchedError::NoSeat { stations })
    }

    /// Runs on this thread what is runnable now, each task once at most, at stations that have
    /// no driver; how many steps were run. What waits at stations with a driver is left to that: a
    /// task that slept here would wake with the next call.
    pub fn run_once(&self) -> usize {
        let mut most: usize = self.runnable().max(1);
        let mut ran = 0;
        for seat in &self.0.seats {
            let Some(mut drive) = Drive::take(seat, Manner::Alone, false) else {
                continue;
            };
            while most > 0 {
                let some = drive.run(most);
                (ran, most) = (ran + some, most - some);
                if some == 0 && !drive.search() {
                    break;
                }
            }
        }
        ran
    }

    /// Runs idle tasks on this thread, at stations that have no driver, each once at most, and
    /// begins none after `limit`; how many steps were run.
    pub fn run_background_once(&self, limit: Duration) -> usize {
        let end = (self.now() + limit).ns();
        let mut ran = 0;
        for seat in &self.0.seats {
            if let Some(mut drive) = Drive::take(seat, Manner::Alone, false) {
                let most = seat.shared.fleet.idle_len(seat.station);
                ran += drive.run_idle(most, end);
            }
        }
        ran
    }

    /// Takes no task from outside any more and waits until none is left, tasks that tasks spawn
    /// included; false when some are left after `limit`. Runs tasks itself where nobody does.
    pub fn drain(&self, limit: Option<Duration>) -> bool {
        let shared = &self.0.shared;
        // Relaxed: in force soon; a task that slips in is waited for.
        shared.closing.store(true, Ordering::Relaxed);
        let end = limit.map(|limit| self.now() + limit);
        loop {
            while self.run_once() > 0 {}
            let now = self.now();
            if self.tasks() == 0 || end.is_some_and(|end| now >= end) {
                return self.tasks() == 0;
            }
            let rest = end.map(|end| end.since(now));
            let turn = match self.has_vacant() {
                // Timers and wake-ups of a station without a driver are this thread's.
                true => Some(rest.map_or(POLL, |rest| rest.min(POLL))),
                false => rest,
            };
            shared.ended.wait_until(turn, || self.tasks() == 0);
        }
    }

    /// Tasks that are not finished.
    pub fn tasks(&self) -> u64 {
        // SeqCst, the finished ones first: equal sums mean that none was left at the first look.
        let sum = |of: fn(&Seat) -> &AtomicU64| -> u64 {
            self.0
                .seats
                .iter()
                .map(|seat| of(seat).load(Ordering::SeqCst))
                .sum()
        };
        let finished = sum(|seat| &seat.finished);
        sum(|seat| &seat.spawned) - finished
    }

    /// Looks at `most` tenants from the index `from` on and forgets those that have no settings and
    /// that nobody has used for `idle`: what was counted for them goes, and to be named again makes
    /// them anew. Where the next part begins, unless that was the last. Does nothing while another
    /// call is at it: that one's pass goes on.
    pub fn forget_idle(&self, from: usize, most: usize, idle: Duration) -> Option<usize> {
        forget(&self.0.shared, from, most, idle)
    }

    /// How often tenants were forgotten: who keeps a [`Tenant`] for longer than tenants may be idle
    /// names it again when this has changed.
    #[inline]
    pub fn endings(&self) -> u64 {
        self.tenants().endings()
    }

    /// How many tenants are known at present.
    pub fn tenants_named(&self) -> usize {
        self.tenants().named()
    }

    /// What was counted so far. Of many tenants a part is copied at a time, and added up without
    /// a lock.
    pub fn stats(&self) -> Stats {
        let shared = &self.0.shared;
        let mut services = vec![Service::default(); self.tenants().count()];
        let stations = shared.fleet.stations().iter();
        let cores = stations.map(|station| core_stats(station, &mut services));
        let cores: Vec<_> = cores.collect();
        let charged: Vec<_> = (0..services.len())
            .map(|index| {
                let charged = self.tenants().charged(index)?;
                // The place of one that ended, whose number may have another by now, is no row.
                let known = self.known_tenant(charged.id)?;
                (known.index() == index).then_some(charged)
            })
            .collect();
        let mut total = 0;
        for (service, charged) in services.iter_mut().zip(&charged) {
            if let Some(charged) = charged {
                service.runs += charged.runs;
                service.run_ns += charged.run_ns;
                total += service.run_ns;
            }
        }
        let tenants = services
            .into_iter()
            .zip(charged)
            .filter_map(|(service, charged)| {
                let charged = charged?;
                let is_used = service != Service::default() || charged.tasks > 0;
                (is_used || charged.ops > 0 || charged.is_set).then_some(TenantStats {
                    id: charged.id,
                    weight: charged.weight,
                    share: service.run_ns as f64 / total.max(1) as f64,
                    service,
                    tasks: charged.tasks,
                    ops: charged.ops,
                    bytes: charged.bytes,
                    throttled_ns: charged.throttled_ns,
                })
            });
        Stats {
            cores,
            tenants: tenants.collect(),
            tasks: self.tasks(),
            // Relaxed: a counter.
            panics: shared.panics.load(Ordering::Relaxed),
        }
    }

    #[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    fn tenants(&self) -> &Tenants {
        self.0.shared.fleet.weights()
    }

    fn runnable(&self) -> usize {
        let stations = self.0.shared.fleet.stations().iter();
        stations.map(|station| station.hint()).sum()
    }

    fn has_vacant(&self) -> bool {
        let mut stations = self.0.shared.fleet.stations().iter();
        stations.any(|station| !station.is_driven())
    }
}

/// Tenants whose service is copied in one hold of a queue's lock.
const COPIED: usize = 256;

/// What was counted at a station; what its tenants got is added to `services`.
fn core_stats(station: &Station<Work>, services: &mut [Service]) -> CoreStats {
    let mut noted = Vec::new();
    let (mut core, mut from) = (CoreStats::default(), Some(0));
    let mut copies = Vec::new();
    while let Some(at) = from {
        let queue = station.lock();
        if at == 0 {
            core = queue.stats();
            station.noted(|tenant, runs, ns| noted.push((tenant, runs, ns)));
        }
        let (copied, next) = queue.services(at, COPIED);
        drop(queue);
        copies.extend(copied);
        from = next;
    }
    for (tenant, service) in copies {
        core.wait.merge(&service.wait);
        if let Some(sum) = services.get_mut(tenant) {
            sum.merge(&service);
        }
    }
    core.switches = core.wait.count();
    for (tenant, runs, ns) in noted {
        core.served += u64::from(runs);
        if let Some(sum) = services.get_mut(tenant) {
            sum.runs += u64::from(runs);
            sum.served += u64::from(runs);
            sum.run_ns += ns;
        }
    }
    core.inbox = station.inbox_hint();
    core.driven = station.is_driven();
    core
}

/// How often [`Handle::drain`] looks at stations without a driver.
const POLL: Duration = Duration::from_millis(1);

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("stations", &self.stations())
            .finish()
    }
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("stations", &self.stations())
            .finish()
    }
}
