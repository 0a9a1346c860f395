//! The per-thread request scheduler: admits requests, or turns them into tasks.
//!
//! A request that can finish at once does so where it was taken, and its CPU time is charged to its
//! tenant. One that must wait becomes a task of the volume's scheduler with this thread's run queue
//! as its key: it continues on this thread, which takes the next request meanwhile. Section 13 of
//! `docs/design/scheduler.md` has the rules. A thread without a run queue leaves its tasks to the
//! scheduler's own threads.

use super::Park;
use super::delay::delay_reply;
use super::outcome::{Attempt, Finish, InlineReply, LateReply, Permits, Span, WaitFor};
use super::pending_request::PendingRequest;
use super::price::{copy_target, data, has_reply, price};
use super::request_task::{self, OpenTask};
use super::service::Service;
use super::session_shared::SessionShared;
use super::waiting::RequestId;
use super::workers::CallTurn;
use crate::placement::idle_policy::ServingThread;
use crate::wire::InHeader;
use hearth::sched::{Permit, Spec, Tenant, Unpark, Worker};
use hearth::{Errno, TenantId};
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Two tenants compete for the thread if this many successive requests include requests of both.
const RIVALS: u32 = 4096;
/// `recent` before the first request.
const NOBODY: [(TenantId, Tenant); 2] = [(TenantId::System, Tenant::SYSTEM); 2];

/// A request that is done before its rate limits allow it.
struct Early {
    id: RequestId,
    permits: Permits,
    /// Bytes of its data.
    bytes: usize,
    /// Counts it until its reply is sent.
    open: OpenTask,
}

impl Early {
    /// Sends `result` by `finish` when the rate limits allow it, or the caller is killed.
    async fn reply<S>(
        self,
        shared: Arc<SessionShared<S>>,
        result: Result<InlineReply, Errno>,
        finish: Finish,
    ) {
        let tenant = shared.workers.tenant().number();
        let forgive = || shared.delayed.forgive(tenant, self.bytes);
        let reply = || finish(result);
        delay_reply(
            &shared.sched,
            &shared.waiting,
            self.id,
            self.permits,
            forgive,
            reply,
        )
        .await;
        drop(self.open);
    }
}

/// The requests of one thread. Owned by that thread.
pub(crate) struct RequestQueue<S> {
    shared: Arc<SessionShared<S>>,
    /// `shared` for the tenant whose request last became a task.
    own: Option<(TenantId, Arc<SessionShared<S>>)>,
    /// `None`: the thread has no run queue.
    worker: Option<Worker>,
    /// Tasks whose requests are not finished.
    open: Arc<AtomicUsize>,
    /// The tenants of the last requests, the latest first.
    recent: [(TenantId, Tenant); 2],
    /// `Handle::endings` when `recent` was filled: later ones may have ended a tenant in it.
    endings: u64,
    /// The number of requests until the last rival is forgotten.
    rivals: u32,
    /// Present with `sched_policy=auto`.
    serving: Option<ServingThread>,
}

impl<S: Service> RequestQueue<S> {
    /// A queue for the calling thread. `unpark` wakes it in [`RequestQueue::wait`]. `source` is
    /// readable while a request waits that no thread has taken, and stays open as long as the
    /// queue; without one the thread keeps the usual policy. `None` if the scheduler has no place
    /// left for the thread.
    pub fn new(
        shared: &Arc<SessionShared<S>>,
        source: Option<RawFd>,
        unpark: Unpark,
    ) -> Option<RequestQueue<S>> {
        let idle = shared.idle.as_ref().zip(source);
        Some(RequestQueue {
            worker: Some(shared.sched.pinned_worker(Some(unpark)).ok()?),
            serving: idle.map(|(idle, source)| ServingThread::join(idle, source)),
            ..RequestQueue::without_run_queue(shared)
        })
    }

    /// A queue for a thread whose tasks others run.
    pub fn without_run_queue(shared: &Arc<SessionShared<S>>) -> RequestQueue<S> {
        RequestQueue {
            worker: None,
            shared: Arc::clone(shared),
            own: None,
            open: Arc::new(AtomicUsize::new(0)),
            recent: NOBODY,
            endings: shared.sched.endings(),
            rivals: 0,
            serving: None,
        }
    }

    /// Decides about a request that came: `None` if it is handled at once, otherwise what it waits
    /// for first. Without rate limits, and outside of tests, this only looks up the tenant.
    #[inline]
    pub fn admit(&mut self, header: &InHeader, args: &[u8]) -> Option<WaitFor> {
        let tenant = self.shared.service.tenant(header);
        self.rivals = self.rivals.saturating_sub(1);
        if tenant != self.recent[0].0 || self.endings != self.shared.sched.endings() {
            self.change_tenant(tenant);
        }
        if self.shared.park == Park::Needed && !self.shared.sched.has_limits() {
            return self.thread_for(header);
        }
        self.admit_limited(header, args)
            .or_else(|| self.thread_for(header))
    }

    /// Whether a request goes to a thread that may block.
    #[inline]
    fn thread_for(&self, header: &InHeader) -> Option<WaitFor> {
        (self.shared.service.may_block(header)).then_some(WaitFor::Thread)
    }

    /// Charges a request of the tenant last admitted, which was handled at once.
    #[inline]
    pub fn served(&mut self, span: &Span) {
        match &mut self.worker {
            Some(worker) => worker.defer_charge(self.recent[0].1, span.ns()),
            None => self.charge_outside(span.ns()),
        }
        if let Some(serving) = &mut self.serving {
            serving.served(span);
        }
    }

    /// Whether to let the client run before this thread waits. See [`ServingThread::is_pressed`].
    #[inline]
    pub fn is_pressed(&self) -> bool {
        self.serving.as_ref().is_some_and(ServingThread::is_pressed)
    }

    /// Calls `reply`, which sends a reply that is ready since `ended`, while this thread has
    /// nothing else to do. See [`ServingThread::give_way`].
    #[inline]
    pub fn give_way<R>(&mut self, ended: Instant, most: Duration, reply: impl FnOnce() -> R) -> R {
        match &mut self.serving {
            Some(serving) => serving.give_way(ended, most, reply),
            None => reply(),
        }
    }

    /// Whether a request may queue behind others. One that only gives something back may not.
    pub fn may_queue(header: &InHeader) -> bool {
        price(header, &[]).is_some()
    }

    /// Whether requests of more than one tenant come here. Then requests that wait at the same time
    /// are put in order.
    pub fn has_rivals(&self) -> bool {
        self.rivals > 0
    }

    /// Makes a task of a request of the tenant last admitted, which waits for `first`.
    pub fn spawn(&mut self, request: impl PendingRequest, first: WaitFor) {
        match first {
            WaitFor::Thread => {
                self.shared.sched.count_request(self.recent[0].1, false);
                return request_task::run_on_thread(self.own_shared(), request);
            }
            WaitFor::LateReply(permits, bytes) => {
                let late = self.late_reply(request.id(), permits, bytes);
                return self.attempt_early(request, late);
            }
            _ => {}
        }
        self.spawn_task(request, first, self.spec());
    }

    fn spawn_task(&mut self, request: impl PendingRequest, first: WaitFor, spec: Spec) {
        let task = request_task::run(self.own_shared(), request, first, OpenTask::new(&self.open));
        self.flush_charges();
        drop(self.shared.sched.spawn(spec, task));
    }

    /// Begins a call for the tenant last admitted on this thread, which may block from here until
    /// the call is dropped. `None` if others go first, or tasks would wait for this thread.
    pub fn begin_call(&mut self) -> Option<CallTurn> {
        if self.is_busy() {
            return None;
        }
        self.flush_charges();
        let turn = self.own_shared().workers.begin_call();
        if turn.is_some() {
            self.shared.sched.count_request(self.recent[0].1, true);
        }
        turn
    }

    /// Makes a task of what a call has left of a request. It belongs to no thread.
    pub fn spawn_rest(&mut self, request: impl PendingRequest, wait: WaitFor) {
        request_task::spawn_anywhere(self.own_shared(), request, wait);
    }

    /// What a task of the tenant last admitted is: one of this thread's, if it has a run queue.
    fn spec(&self) -> Spec {
        let spec = Spec::of(self.recent[0].1);
        match &self.worker {
            Some(worker) => spec.with_key(worker.run_queue() as u64),
            None => spec,
        }
    }

    fn flush_charges(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.flush_charges();
        }
    }

    #[cold]
    fn charge_outside(&self, ns: u64) {
        let (sched, tenant) = (&self.shared.sched, self.recent[0].1);
        sched.count_request(tenant, true);
        sched.external_task(tenant).finish(ns);
    }

    /// Attempts a request of the tenant last admitted now, so that its data need not be held.
    #[cold]
    fn attempt_early(&mut self, mut request: impl PendingRequest, late: LateReply) {
        self.flush_charges();
        request.reply_late(late);
        if let Some(wait) = self.thread_for(&request.header()) {
            return self.spawn(request, wait);
        }
        let began = Instant::now();
        let left = request.attempt(&*Arc::clone(&self.shared.service), Attempt::FIRST);
        self.served(&Span::since(began));
        // It is counted.
        match left {
            None => {}
            Some((request, WaitFor::Thread)) => {
                request_task::run_on_thread(self.own_shared(), request);
            }
            Some((request, wait)) => self.spawn_task(request, wait, self.spec().as_continuation()),
        }
    }

    fn late_reply(&mut self, id: RequestId, permits: Permits, bytes: usize) -> LateReply {
        let (shared, spec) = (self.own_shared(), self.spec().as_continuation());
        let early = Early {
            id,
            permits,
            bytes,
            open: OpenTask::new(&self.open),
        };
        Box::new(move |result: Result<InlineReply, Errno>, finish: Finish| {
            let sched = shared.sched.clone();
            drop(sched.spawn(spec, early.reply(shared, result, finish)));
        })
    }

    /// Whether tasks of this queue are open, or its run queue has work left from before. Then the
    /// thread sleeps only in [`RequestQueue::wait`].
    pub fn is_busy(&self) -> bool {
        let worker = self.worker.as_ref();
        worker.is_some_and(|worker| self.has_open() || worker.has_pending())
    }

    /// `shared` for the tenant last admitted.
    fn own_shared(&mut self) -> Arc<SessionShared<S>> {
        let tenant = self.recent[0].0;
        if let Some((own, shared)) = &self.own
            && *own == tenant
        {
            return Arc::clone(shared);
        }
        let shared = Arc::new(self.shared.of(tenant));
        self.own = Some((tenant, Arc::clone(&shared)));
        shared
    }

    fn has_open(&self) -> bool {
        // Relaxed: only this thread raises it.
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Whether a task could run now.
    pub fn has_work(&self) -> bool {
        self.worker.as_ref().is_some_and(Worker::has_work)
    }

    /// Runs up to `most` tasks for one step each. Returns false if none could run.
    pub fn run(&mut self, most: usize) -> bool {
        let Some(worker) = &mut self.worker else {
            return false;
        };
        let mut ran = false;
        for _ in 0..most {
            if !worker.has_work() || !worker.tick() {
                break;
            }
            ran = true;
        }
        ran
    }

    /// Sleeps by a call of `wait`, whose argument is the longest time, unless a task can run.
    pub fn wait(&mut self, wait: impl FnOnce(Option<Duration>)) {
        if let Some(worker) = &mut self.worker {
            worker.wait(wait);
        }
    }

    /// Runs all tasks to their end after the mount is gone. `wait` sleeps for at most the given
    /// time.
    pub fn close(&mut self, wait: impl Fn(Option<Duration>)) {
        self.shared.waiting.close();
        // The last task may end on another core, which wakes nobody.
        let soon = Duration::from_millis(10);
        while self.has_open() {
            if self.worker.as_ref().is_some_and(Worker::is_stopped) {
                break;
            }
            if self.worker.is_none() {
                wait(Some(soon));
            } else if !self.run(8) {
                self.wait(|limit| wait(Some(limit.map_or(soon, |limit| limit.min(soon)))));
            }
        }
    }

    #[cold]
    fn change_tenant(&mut self, tenant: TenantId) {
        let endings = self.shared.sched.endings();
        if std::mem::replace(&mut self.endings, endings) != endings {
            // Tenants in `recent` may have ended.
            self.recent = NOBODY;
        }
        if self.recent[0].0 != TenantId::System {
            self.rivals = RIVALS;
        }
        self.recent.swap(0, 1);
        if self.recent[0].0 != tenant {
            let known = self.shared.sched.tenant(tenant.number());
            self.recent[0] = (tenant, known);
        }
    }

    /// Charges a copy that brings bytes to another tenant at that tenant's rate limits too.
    fn charge_target(&self, header: &InHeader, args: &[u8], bytes: u64) -> Option<Permit> {
        let target = InHeader {
            nodeid: copy_target(header, args)?,
            ..*header
        };
        let target = self.shared.service.tenant(&target);
        if target == self.recent[0].0 {
            return None;
        }
        let sched = &self.shared.sched;
        sched.charge(sched.tenant(target.number()), 0, bytes)
    }

    #[cold]
    fn admit_limited(&mut self, header: &InHeader, args: &[u8]) -> Option<WaitFor> {
        let is_test = self.shared.park == Park::Every;
        let Some(bytes) = price(header, args) else {
            return (is_test && has_reply(header)).then_some(WaitFor::Test);
        };
        let sched = &self.shared.sched;
        if sched.has_limits() && !hearth::is_control(header.nodeid) {
            let own = sched.charge(self.recent[0].1, 1, bytes);
            let permits = [own, self.charge_target(header, args, bytes)];
            if permits.iter().any(Option::is_some) {
                let data = data(header, args);
                return Some(match self.shared.delayed.hold(data) {
                    Some(held) => WaitFor::RateLimit(permits, held),
                    None => WaitFor::LateReply(permits, data),
                });
            }
        }
        is_test.then_some(WaitFor::Test)
    }
}
