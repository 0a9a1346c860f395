//! The scheduler: building, spawning, waiting, ending.

use crate::blocking_pool::BlockingPool;
use crate::class::Weights;
use crate::clock::{Clock, Time};
use crate::error::SchedError;
use crate::external_task::ExternalTask;
use crate::forget::forget;
use crate::rate_limit::RateLimit;
use crate::run_loop::{RunLoop, Worker, spawn_worker};
use crate::runtime::{RunQueue, Runtime, Unpark, WorkerMode};
use crate::shared::{
    EndSignal, QueueRef, RunnableTask, Shared, current_run_queue, is_scheduler_thread,
};
use crate::sleep::Sleep;
use crate::stats::{CoreStats, Service, Stats, TenantStats};
use crate::task::{JoinHandle, Spec, make};
use crate::tenant::{LimitChange, Limits, Permit, Tenant, Tenants};
use crate::timers::Timers;
use async_task::Runnable;
use hearth_sync::lock::Lock;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use hearth_sync::primitive::{Arc, OnceLock};
use std::future::Future;
use std::time::Duration;

/// The most workers, and the most external workers.
pub const MOST_WORKERS: usize = 1024;

/// Settings of a new scheduler.
#[derive(Clone, Debug)]
pub struct Builder {
    workers: usize,
    external_workers: usize,
    clock: Clock,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            workers: 0,
            external_workers: 0,
            clock: Clock::system(),
        }
    }
}

impl Builder {
    /// Sets how many threads the scheduler starts, 0 by default. Without any, tasks run in
    /// [`Handle::run_once`] or on workers of callers.
    pub fn workers(self, workers: usize) -> Builder {
        Builder { workers, ..self }
    }

    /// Sets how many run queues callers can own by [`Handle::worker`], 0 by default.
    pub fn external_workers(self, external_workers: usize) -> Builder {
        Builder {
            external_workers,
            ..self
        }
    }

    /// Sets the clock.
    pub fn clock(self, clock: Clock) -> Builder {
        Builder { clock, ..self }
    }

    /// Starts the scheduler.
    ///
    /// # Errors
    /// Too many workers, or the system refuses a thread; no thread is left running.
    pub fn start(self) -> Result<Scheduler, SchedError> {
        for asked in [self.workers, self.external_workers] {
            if asked > MOST_WORKERS {
                return Err(SchedError::Workers { asked });
            }
        }
        let run_queues = (self.workers + self.external_workers).max(1);
        let shared = Arc::new(Shared {
            runtime: Runtime::new(run_queues, Tenants::new()),
            timers: (0..run_queues).map(|_| Timers::new()).collect(),
            clock: self.clock,
            blocking_pool: BlockingPool::new(run_queues),
            panics: AtomicU64::new(0),
            forgetting: Lock::new(()),
            closing: AtomicBool::new(false),
            end_signal: EndSignal::default(),
            thread_start_hook: OnceLock::new(),
        });
        let queue_refs: Box<[Arc<QueueRef>]> = (0..run_queues)
            .map(|run_queue| {
                Arc::new(QueueRef {
                    shared: Arc::clone(&shared),
                    index: run_queue,
                    spawned: AtomicU64::new(0),
                    finished: AtomicU64::new(0),
                    wanted: AtomicBool::new(false),
                })
            })
            .collect();
        let scheduler = Scheduler(Handle(Arc::new(Inner { shared, queue_refs })));
        for queue_ref in &scheduler.0.0.queue_refs[..self.workers] {
            let taken = queue_ref.shared.runtime.run_queues()[queue_ref.index]
                .acquire(WorkerMode::Stealing);
            debug_assert!(taken, "nobody else knows this scheduler");
            spawn_worker(queue_ref).map_err(|reason| SchedError::Thread { reason })?;
        }
        Ok(scheduler)
    }
}

/// A scheduler. Dropping it ends it; see [`Scheduler::shutdown`].
pub struct Scheduler(Handle);

/// A handle to the scheduler, for tasks and threads.
#[derive(Clone)]
pub struct Handle(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    /// By run queue.
    queue_refs: Box<[Arc<QueueRef>]>,
}

impl Scheduler {
    /// Returns the settings of a scheduler without workers.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns a handle to it.
    pub fn handle(&self) -> Handle {
        self.0.clone()
    }

    /// Ends the scheduler. Steps of tasks that run are waited for, except on workers of callers,
    /// and except when a task calls this, even one that blocks in place. Runnable and sleeping
    /// tasks are cancelled at once, others when they are woken. A task that is never woken does not
    /// end while its handle or a waker is kept.
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
        // Relaxed: takes effect soon; the queues close under their locks.
        shared.closing.store(true, Ordering::Relaxed);
        shared.runtime.stop();
        shared.blocking_pool.stop();
        shared.end_signal.notify();
        if !is_scheduler_thread(shared) {
            shared.blocking_pool.wait_for_end();
        }
        // Destructors of tasks run here, with no lock held.
        drop(shared.runtime.close());
        shared.timers.iter().for_each(Timers::close);
        shared.runtime.weights().close();
    }
}

impl Handle {
    /// Sets a hook that runs on every thread that starts a thread for the scheduler, before it
    /// does, and first on the new thread. A new thread inherits properties of the one that starts
    /// it which may not suit it, its kernel scheduling policy for one. Only the first call counts.
    pub fn on_thread_start(&self, begin: fn()) {
        let _ = self.0.shared.thread_start_hook.set(begin);
    }

    /// Runs the hook of [`Handle::on_thread_start`], for a thread that works beside the scheduler
    /// or starts one that does.
    pub fn run_thread_start_hook(&self) {
        self.0.shared.run_thread_start_hook();
    }

    /// Spawns a future as a task.
    ///
    /// After [`Handle::drain`] or the end of the scheduler the task is cancelled.
    pub fn spawn<F>(&self, spec: Spec, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let shared = &self.0.shared;
        let here = current_run_queue(shared);
        let run_queues = self.0.queue_refs.len();
        let preferred = match spec.key {
            Some(key) => (key % run_queues as u64) as usize,
            None => shared.open(here).unwrap_or_else(|| shared.any_run_queue()),
        };
        let queue_ref = &self.0.queue_refs[here.unwrap_or(preferred)];
        match spec.is_continuation {
            true => self.tenants().begin(spec.tenant),
            false => self.tenants().count_task(spec.tenant),
        }
        let (first, handle) = make(Arc::clone(queue_ref), spec, preferred, future);
        // Relaxed: takes effect soon.
        if here.is_none() && shared.closing.load(Ordering::Relaxed) {
            // Dropping the first step cancels the task.
            drop::<Runnable<_>>(first);
        } else {
            first.schedule();
        }
        handle
    }

    /// Spawns a closure as a task.
    pub fn spawn_fn<R: Send + 'static>(
        &self,
        spec: Spec,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        self.spawn(spec, async move { f() })
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.0.shared.clock.now()
    }

    /// Returns a future that waits until `at`.
    pub fn sleep_until(&self, at: Time) -> Sleep {
        Sleep::new(Arc::clone(&self.0.shared), at)
    }

    /// Returns a future that waits for `time`.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.sleep_until(self.now() + time)
    }

    /// Returns the tenant with this number of the embedder, if it is known.
    pub fn known_tenant(&self, id: u64) -> Option<Tenant> {
        self.tenants().known(id)
    }

    /// Returns the tenant with this number of the embedder, made on first use. It is known until
    /// [`Handle::forget_idle`] evicts it; a caller that keeps it for that long asks again, see
    /// [`Handle::endings`].
    pub fn tenant(&self, id: u64) -> Tenant {
        self.tenants().find(id)
    }

    /// Sets the weight of a tenant, 1 to 10,000; the default is 100. An evicted tenant is made
    /// anew.
    ///
    /// # Errors
    /// The weight is out of range; nothing has changed.
    pub fn set_weight(&self, tenant: Tenant, weight: u32) -> Result<(), SchedError> {
        self.tenants().set_weight(tenant, weight)
    }

    /// Sets the rate limits of a tenant. Work that waits is held to the new limits from now on, for
    /// its own charge and those before it; without a limit it continues. An evicted tenant is made
    /// anew.
    ///
    /// # Errors
    /// A rate limit is zero; nothing has changed.
    pub fn set_limits(&self, tenant: Tenant, limits: Limits) -> Result<(), SchedError> {
        let now = self.now().ns();
        self.tenants().set_limits(tenant, limits, now)
    }

    /// Sets the named rate limits of a tenant, like [`Handle::set_limits`], and leaves the others,
    /// which other threads may set at the same time.
    ///
    /// # Errors
    /// A rate limit is zero; nothing has changed.
    pub fn change_limits(&self, tenant: Tenant, changes: &[LimitChange]) -> Result<(), SchedError> {
        let now = self.now().ns();
        self.tenants().change_limits(tenant, changes, now)
    }

    /// Returns the rate limits of a tenant.
    pub fn limits(&self, tenant: Tenant) -> Limits {
        self.tenants().limits(tenant)
    }

    /// Returns whether any tenant has a rate limit. If none has, there is nothing to charge.
    #[inline]
    pub fn has_limits(&self) -> bool {
        self.tenants().has_limits()
    }

    /// Returns the weight of a tenant.
    pub fn weight(&self, tenant: Tenant) -> u32 {
        self.tenants().weight(tenant.index())
    }

    /// Charges work to a tenant's rate limits. If it returns a permit, the work must wait for it by
    /// [`Handle::rate_limit`]; else it may continue.
    pub fn charge(&self, tenant: Tenant, ops: u64, bytes: u64) -> Option<Permit> {
        let now = self.now().ns();
        self.tenants().charge(tenant, ops, bytes, now)
    }

    /// Begins work of a tenant on another thread, which [`FairQueue`] queues until then.
    ///
    /// [`FairQueue`]: crate::FairQueue
    pub fn external_task(&self, tenant: Tenant) -> ExternalTask {
        ExternalTask::new(&self.0.shared, tenant)
    }

    /// Counts a request of a tenant that is external work: served at once, or given to a thread.
    pub fn count_request(&self, tenant: Tenant, at_once: bool) {
        self.tenants().count_request(tenant, at_once);
    }

    /// How long the rate limits keep charged work from now on, as they are now.
    pub fn rate_limit_left(&self, permit: Permit) -> Duration {
        let now = self.now().ns();
        Duration::from_nanos(self.tenants().admit_at(permit, now) - now)
    }

    /// Returns a future that waits until the rate limits admit charged work, also when they change
    /// meanwhile.
    pub fn rate_limit(&self, permit: Permit) -> RateLimit {
        RateLimit::new(Arc::clone(&self.0.shared), permit)
    }

    /// Returns the number of run queues: keys count modulo this.
    pub fn run_queues(&self) -> usize {
        self.0.queue_refs.len()
    }

    /// Acquires a run queue without an owner, to run it on this thread. `unpark` wakes the thread
    /// when it sleeps in [`Worker::wait`] in another way than [`Worker::park`].
    ///
    /// # Errors
    /// Every run queue has an owner.
    pub fn worker(&self, unpark: Option<Unpark>) -> Result<Worker, SchedError> {
        self.acquire_any(WorkerMode::Stealing, unpark)
    }

    /// Acquires a run queue like [`Handle::worker`], for a thread that often sleeps in its own way
    /// instead of in [`Worker::wait`]. The run queue runs only tasks with [`Worker::run_queue`] as
    /// their key, which only this thread may spawn. While any of them is left, the thread must
    /// sleep in [`Worker::wait`].
    ///
    /// # Errors
    /// Every run queue has an owner.
    pub fn pinned_worker(&self, unpark: Option<Unpark>) -> Result<Worker, SchedError> {
        self.acquire_any(WorkerMode::Pinned, unpark)
    }

    fn acquire_any(
        &self,
        mode: WorkerMode,
        mut unpark: Option<Unpark>,
    ) -> Result<Worker, SchedError> {
        for queue_ref in &self.0.queue_refs {
            match Worker::take(queue_ref, mode, unpark) {
                Ok(worker) => return Ok(worker),
                Err(back) => unpark = back,
            }
        }
        let run_queues = self.0.queue_refs.len();
        Err(SchedError::NoFreeRunQueue { run_queues })
    }

    /// Acquires one run queue like [`Handle::worker`], for a thread that is bound to a core or a
    /// queue.
    ///
    /// # Errors
    /// The run queue has an owner, or does not exist.
    pub fn worker_at(
        &self,
        run_queue: usize,
        unpark: Option<Unpark>,
    ) -> Result<Worker, SchedError> {
        let run_queues = self.0.queue_refs.len();
        let queue_ref = self.0.queue_refs.get(run_queue);
        queue_ref
            .and_then(|queue_ref| Worker::take(queue_ref, WorkerMode::Stealing, unpark).ok())
            .ok_or(SchedError::NoFreeRunQueue { run_queues })
    }

    /// Runs the tasks that are runnable now on this thread, each once at most, from run queues
    /// without an owner. Returns how many steps ran. Run queues with an owner are left to it: a
    /// task that slept here would wake only in the next call.
    pub fn run_once(&self) -> usize {
        let mut most: usize = self.runnable().max(1);
        let mut ran = 0;
        for queue_ref in &self.0.queue_refs {
            let Some(mut run_loop) = RunLoop::take(queue_ref, WorkerMode::Pinned, false) else {
                continue;
            };
            while most > 0 {
                let some = run_loop.run(most);
                (ran, most) = (ran + some, most - some);
                if some == 0 && !run_loop.search() {
                    break;
                }
            }
        }
        ran
    }

    /// Runs idle tasks on this thread, each once at most, from run queues without an owner, and
    /// begins none after `limit`. Returns how many steps ran.
    pub fn run_background_once(&self, limit: Duration) -> usize {
        let end = (self.now() + limit).ns();
        let mut ran = 0;
        for queue_ref in &self.0.queue_refs {
            if let Some(mut run_loop) = RunLoop::take(queue_ref, WorkerMode::Pinned, false) {
                let most = queue_ref.shared.runtime.idle_len(queue_ref.index);
                ran += run_loop.run_idle(most, end);
            }
        }
        ran
    }

    /// Refuses new tasks from outside and waits until none is left, including tasks that tasks
    /// spawn. Returns false if some are left after `limit`. Runs tasks itself where no thread does.
    pub fn drain(&self, limit: Option<Duration>) -> bool {
        let shared = &self.0.shared;
        // Relaxed: takes effect soon; a task that slips in is waited for.
        shared.closing.store(true, Ordering::Relaxed);
        let end = limit.map(|limit| self.now() + limit);
        loop {
            while self.run_once() > 0 {}
            let now = self.now();
            if self.tasks() == 0 || end.is_some_and(|end| now >= end) {
                return self.tasks() == 0;
            }
            let rest = end.map(|end| end.since(now));
            let wait = match self.has_vacant() {
                // This thread runs timers and wake-ups of run queues without an owner.
                true => Some(rest.map_or(POLL, |rest| rest.min(POLL))),
                false => rest,
            };
            shared.end_signal.wait_until(wait, || self.tasks() == 0);
        }
    }

    /// Returns how many tasks are unfinished.
    pub fn tasks(&self) -> u64 {
        // SeqCst, the finished ones first: equal sums mean that none was left at the first look.
        let sum = |of: fn(&QueueRef) -> &AtomicU64| -> u64 {
            self.0
                .queue_refs
                .iter()
                .map(|queue_ref| of(queue_ref).load(Ordering::SeqCst))
                .sum()
        };
        let finished = sum(|queue_ref| &queue_ref.finished);
        sum(|queue_ref| &queue_ref.spawned) - finished
    }

    /// Visits `most` tenants from the index `from` on and evicts those without settings that were
    /// not used for `idle`. Their counters go; naming them again makes them anew. Returns where the
    /// next part begins, or `None` at the end. Does nothing while another call runs, whose pass
    /// continues.
    pub fn forget_idle(&self, from: usize, most: usize, idle: Duration) -> Option<usize> {
        forget(&self.0.shared, from, most, idle)
    }

    /// Returns how often tenants were evicted. A caller that keeps a [`Tenant`] for longer than the
    /// idle time names it again when this changes.
    #[inline]
    pub fn endings(&self) -> u64 {
        self.tenants().endings()
    }

    /// Returns how many tenants are known.
    pub fn tenants_named(&self) -> usize {
        self.tenants().named()
    }

    /// Returns the statistics. Of many tenants a part is copied at a time, and summed outside the
    /// lock.
    pub fn stats(&self) -> Stats {
        let shared = &self.0.shared;
        let mut services = vec![Service::default(); self.tenants().count()];
        let run_queues = shared.runtime.run_queues().iter();
        let cores = run_queues.map(|run_queue| core_stats(run_queue, &mut services));
        let cores: Vec<_> = cores.collect();
        let charged: Vec<_> = (0..services.len())
            .map(|index| {
                let charged = self.tenants().charged(index)?;
                // The index of an evicted tenant, whose number may have another one by now, is no
                // row.
                let known = self.known_tenant(charged.id)?;
                (known.index() == index).then_some(charged)
            })
            .collect();
        let mut total = 0;
        for (service, charged) in services.iter_mut().zip(&charged) {
            if let Some(charged) = charged {
                service.runs += charged.runs;
                service.run_ns += charged.run_ns;
                service.served += charged.served;
                total += service.run_ns;
            }
        }
        let tenants = services
            .into_iter()
            .zip(charged)
            .filter_map(|(service, charged)| {
                let charged = charged?;
                let has_run = service != Service::default() || charged.tasks > 0;
                let is_used = has_run || charged.given > 0 || charged.ops > 0;
                (is_used || charged.is_set).then_some(TenantStats {
                    id: charged.id,
                    weight: charged.weight,
                    share: service.run_ns as f64 / total.max(1) as f64,
                    service,
                    tasks: charged.tasks,
                    given: charged.given,
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
        self.0.shared.runtime.weights()
    }

    fn runnable(&self) -> usize {
        let run_queues = self.0.shared.runtime.run_queues().iter();
        run_queues.map(|run_queue| run_queue.hint()).sum()
    }

    fn has_vacant(&self) -> bool {
        let mut run_queues = self.0.shared.runtime.run_queues().iter();
        run_queues.any(|run_queue| !run_queue.is_owned())
    }
}

/// Tenants whose service is copied under one hold of a queue's lock.
const COPIED: usize = 256;

/// Returns the counters of a run queue, and adds the service of its tenants to `services`.
fn core_stats(run_queue: &RunQueue<RunnableTask>, services: &mut [Service]) -> CoreStats {
    let mut for_each_pending = Vec::new();
    let (mut core, mut from) = (CoreStats::default(), Some(0));
    let mut copies = Vec::new();
    while let Some(at) = from {
        let queue = run_queue.lock();
        if at == 0 {
            core = queue.stats();
            run_queue
                .for_each_pending(|tenant, runs, ns| for_each_pending.push((tenant, runs, ns)));
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
    for (tenant, runs, ns) in for_each_pending {
        core.served += u64::from(runs);
        if let Some(sum) = services.get_mut(tenant) {
            sum.runs += u64::from(runs);
            sum.served += u64::from(runs);
            sum.run_ns += ns;
        }
    }
    core.inbox = run_queue.inbox_hint();
    core.driven = run_queue.is_owned();
    core
}

/// How often [`Handle::drain`] looks at run queues without an owner.
const POLL: Duration = Duration::from_millis(1);

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("run_queues", &self.run_queues())
            .finish()
    }
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("run_queues", &self.run_queues())
            .finish()
    }
}
