//! State that all threads of a scheduler share.

use crate::blocking_pool::BlockingPool;
use crate::class::{Class, Job};
use crate::clock::Clock;
use crate::runtime::Runtime;
use crate::tenant::{Tenant, Tenants};
use crate::timers::Timers;
use async_task::{Runnable, ScheduleInfo};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use hearth_sync::primitive::{Arc, Condvar, Mutex, OnceLock, core};
use std::cell::{Cell, RefCell};
use std::time::Duration;

lock_class! {
    /// Eviction of tenants, by one thread at a time. It is only tried.
    pub ForgetLock = "sched.forget", 1985;
}

/// Everything but the references to run queues.
pub struct Shared {
    pub runtime: Runtime<RunnableTask, Tenants>,
    /// By run queue.
    pub timers: Box<[Timers]>,
    pub clock: Clock,
    pub blocking_pool: BlockingPool<Arc<QueueRef>>,
    pub panics: AtomicU64,
    /// Held while tenants are evicted and freed.
    pub forgetting: Lock<ForgetLock, ()>,
    /// Tasks from outside are refused.
    pub closing: AtomicBool,
    /// Signalled when a task ended or a run queue was released.
    pub end_signal: EndSignal,
    /// Run by a thread that starts one for the scheduler, and first by the new one.
    pub thread_start_hook: OnceLock<fn()>,
}

impl Shared {
    /// Runs the hook for threads that work for the scheduler or start one that does.
    pub fn run_thread_start_hook(&self) {
        if let Some(begin) = self.thread_start_hook.get() {
            begin();
        }
    }

    /// Returns a run queue for a task without affinity: one whose owner steals, else one without an
    /// owner.
    pub fn any_run_queue(&self) -> usize {
        let run_queues = self.runtime.run_queues();
        let first = core() % run_queues.len();
        let mut all = (0..run_queues.len()).map(|at| (first + at) % run_queues.len());
        all.clone()
            .find(|&at| run_queues[at].is_stealing())
            .or_else(|| all.find(|&at| !run_queues[at].is_owned()))
            .unwrap_or(first)
    }

    /// Returns the run queue `here` if a task without affinity may stay there.
    pub fn open(&self, here: Option<usize>) -> Option<usize> {
        here.filter(|&at| !self.runtime.run_queues()[at].is_pinned())
    }

    /// Wakes the owner of a run queue into which another thread put the earliest timer.
    pub fn wake_for_timer(&self, run_queue: usize, now: u64) {
        // Partner: S3. Either the owner sees the timer before it sleeps or this thread sees that it
        // sleeps.
        fence(Ordering::SeqCst);
        self.runtime.wake(run_queue, now);
    }
}

/// A reference to one run queue, for tasks and threads. There is one per core, so that reference
/// counting is no shared write.
pub struct QueueRef {
    pub shared: Arc<Shared>,
    pub index: usize,
    /// Tasks spawned here. Written by any thread.
    pub spawned: AtomicU64,
    /// How many of them have ended. Written by any thread.
    pub finished: AtomicU64,
    /// The owner wants the run queue back from a substitute.
    pub wanted: AtomicBool,
}

/// Metadata of a task.
pub struct Meta {
    pub queue_ref: Arc<QueueRef>,
    pub class: Class,
    pub tenant: Tenant,
    /// Whether a key chose the run queue.
    pub is_affine: bool,
    /// The run queue where it runs next, unless it is woken elsewhere.
    pub preferred: AtomicU32,
}

/// A runnable task.
pub struct RunnableTask(pub Runnable<Meta>);

impl Job for RunnableTask {
    fn class(&self) -> Class {
        self.0.metadata().class
    }
    fn tenant(&self) -> usize {
        self.0.metadata().tenant.index()
    }
    fn is_affine(&self) -> bool {
        self.0.metadata().is_affine
    }
}

/// A signal for threads that wait until a task has ended.
#[derive(Default)]
pub struct EndSignal {
    /// How many threads wait.
    waiters: AtomicU32,
    lock: Mutex<()>,
    changed: Condvar,
}

impl EndSignal {
    /// Wakes the threads that wait.
    pub fn notify(&self) {
        // Partner: the fence in `wait_until`. Either the waiter sees what ended or this thread sees
        // the waiter.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if self.waiters.load(Ordering::Relaxed) > 0 {
            let _turn = self.lock.lock();
            self.changed.notify_all();
        }
    }

    /// Waits until `done` returns true, calling it after every [`EndSignal::notify`], at most for
    /// `limit`. Returns whether it is done.
    pub fn wait_until(&self, limit: Option<Duration>, mut done: impl FnMut() -> bool) -> bool {
        // Relaxed: ordered by the fence.
        self.waiters.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut lock = self.lock.lock();
        let mut late = false;
        while !done() && !late {
            match limit {
                None => self.changed.wait(&mut lock),
                Some(limit) => late = self.changed.wait_for(&mut lock, limit),
            }
        }
        // Relaxed: at most one notification is in vain.
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        !late || done()
    }
}

hearth_sync::primitive::thread_local! {
    static CONTEXT: ThreadContext = ThreadContext::default();
}

/// What this thread runs at present.
#[derive(Default)]
struct ThreadContext {
    queue_ref: RefCell<Option<Arc<QueueRef>>>,
    /// Address of the scheduler whose run queue this thread owns, else 0.
    scheduler: Cell<usize>,
    run_queue: Cell<usize>,
    /// A task that was woken while it ran here.
    again: Cell<Option<RunnableTask>>,
    /// Whether a substitute may take over while a task blocks.
    may_hand_off: Cell<bool>,
    /// Address of the scheduler that started this thread, else 0.
    pool: Cell<usize>,
    /// Tasks to be cancelled here, except for the one that is being dropped.
    cancelled: RefCell<Vec<RunnableTask>>,
    /// Whether a caller further up the stack drops them.
    cancels: Cell<bool>,
}

/// Marks this thread as one that the scheduler started, and waits for at its end.
pub fn enter_pool_thread(shared: &Arc<Shared>) {
    CONTEXT.with(|context| context.pool.set(address(shared)));
    shared.run_thread_start_hook();
}

/// Returns whether waiting here for the end of this scheduler's threads might be waiting for
/// itself: the thread is one of them, or owns a run queue of it.
pub fn is_scheduler_thread(shared: &Arc<Shared>) -> bool {
    let here = CONTEXT.try_with(|context| {
        let scheduler = address(shared);
        context.pool.get() == scheduler || context.scheduler.get() == scheduler
    });
    here.unwrap_or(false)
}

/// A guard: while it lives, this thread owns the run queue.
pub struct ContextGuard {
    before: (
        Option<Arc<QueueRef>>,
        usize,
        usize,
        Option<RunnableTask>,
        bool,
    ),
}

impl ContextGuard {
    /// Makes the run queue this thread's.
    pub fn enter(queue_ref: &Arc<QueueRef>, may_hand_off: bool) -> ContextGuard {
        CONTEXT.with(|context| ContextGuard {
            before: (
                context.queue_ref.replace(Some(Arc::clone(queue_ref))),
                context.scheduler.replace(address(&queue_ref.shared)),
                context.run_queue.replace(queue_ref.index),
                context.again.take(),
                context.may_hand_off.replace(may_hand_off),
            ),
        })
    }

    /// Returns, after a task, the task itself if it was woken meanwhile. Returns `None` if the run
    /// queue was given away by [`hand_off`].
    #[inline]
    pub fn after(&self) -> Option<Option<RunnableTask>> {
        CONTEXT.with(|context| (context.scheduler.get() != 0).then(|| context.again.take()))
    }
}

impl Drop for ContextGuard {
    fn drop(&mut self) {
        CONTEXT.with(|context| {
            context.queue_ref.replace(self.before.0.take());
            context.scheduler.set(self.before.1);
            context.run_queue.set(self.before.2);
            context.again.set(self.before.3.take());
            context.may_hand_off.set(self.before.4);
        });
    }
}

/// Takes this thread's run queue from it and returns it.
pub fn hand_off() -> Option<Arc<QueueRef>> {
    CONTEXT.with(|context| {
        if !context.may_hand_off.get() {
            return None;
        }
        context.scheduler.set(0);
        context.queue_ref.replace(None)
    })
}

/// Undoes [`hand_off`]: no other thread could take the run queue.
pub fn take_back(queue_ref: Arc<QueueRef>) {
    CONTEXT.with(|context| {
        context.scheduler.set(address(&queue_ref.shared));
        context.run_queue.set(queue_ref.index);
        context.queue_ref.replace(Some(queue_ref));
    });
}

/// Returns the run queue of this scheduler that this thread owns.
#[inline]
pub fn current_run_queue(shared: &Arc<Shared>) -> Option<usize> {
    let here = CONTEXT.try_with(|context| (context.scheduler.get(), context.run_queue.get()));
    here.ok()
        .filter(|&(scheduler, _)| scheduler == address(shared))
        .map(|(_, run_queue)| run_queue)
}

/// Queues a runnable task. Called once each time it becomes runnable.
pub fn schedule(runnable: Runnable<Meta>, info: ScheduleInfo) {
    let work = RunnableTask(runnable);
    let meta = work.0.metadata();
    let here = current_run_queue(&meta.queue_ref.shared);
    if let Some(run_queue) = here.filter(|_| info.woken_while_running) {
        keep(work, run_queue);
        return;
    }
    let open = meta.queue_ref.shared.open(here);
    if let Some(run_queue) = open.filter(|_| !meta.is_affine) {
        put(work, run_queue, true);
        return;
    }
    let run_queue = preferred(meta, open);
    put(work, run_queue, here == Some(run_queue));
}

/// Returns the run queue of a woken task that does not simply stay with its waker. The waker may
/// take it over at `here`.
fn preferred(meta: &Meta, here: Option<usize>) -> usize {
    // Relaxed: a hint.
    let preferred = meta.preferred.load(Ordering::Relaxed) as usize;
    let shared = &meta.queue_ref.shared;
    match here {
        Some(here)
            if here != preferred
                && shared.runtime.is_behind(preferred, shared.clock.now().ns()) =>
        {
            here
        }
        _ => preferred,
    }
}

/// Keeps a task that continues until the end of its poll, when the queue is locked anyway.
#[inline]
fn keep(work: RunnableTask, run_queue: usize) {
    let second = CONTEXT.with(|context| context.again.replace(Some(work)));
    if let Some(second) = second {
        put(second, run_queue, true);
    }
}

fn put(work: RunnableTask, run_queue: usize, own: bool) {
    let refused = if own {
        // This thread's reference to the run queue keeps the scheduler alive already.
        CONTEXT.with(|context| {
            let queue_ref = context.queue_ref.borrow();
            let shared = queue_ref.as_ref().map(|queue_ref| &*queue_ref.shared);
            match shared {
                Some(shared) => shared
                    .runtime
                    .push(run_queue, work, shared.clock.now().ns()),
                None => Err(work),
            }
        })
    } else {
        // The task may run and end elsewhere as soon as it is queued.
        let queue_ref = Arc::clone(&work.0.metadata().queue_ref);
        let now = queue_ref.shared.clock.now().ns();
        queue_ref.shared.runtime.send(run_queue, work, now)
    };
    if let Err(work) = refused {
        cancel(work);
    }
}

/// Cancels a task by dropping it, because the scheduler has ended. Dropping it wakes tasks that
/// await it, which come here as well. They are dropped after it, not inside its drop: a chain of
/// such tasks may be longer than the stack.
fn cancel(work: RunnableTask) {
    // A thread that is ending has no context any more and drops the task with the closure.
    let _ = CONTEXT.try_with(move |context| {
        context.cancelled.borrow_mut().push(work);
        if context.cancels.replace(true) {
            return;
        }
        let _until_then = Cancelling(&context.cancels);
        loop {
            let next = context.cancelled.borrow_mut().pop();
            match next {
                Some(work) => drop(work),
                None => break,
            }
        }
    });
}

/// A guard for the loop that drops cancelled tasks; a waker may panic.
struct Cancelling<'a>(&'a Cell<bool>);

impl Drop for Cancelling<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

fn address(shared: &Arc<Shared>) -> usize {
    Arc::as_ptr(shared) as usize
}
