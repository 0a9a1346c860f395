//! What all threads of a scheduler share.

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
    /// Ending and freeing tenants, by one at a time. It is only tried.
    pub ForgetLock = "sched.forget", 1985;
}

/// Everything but the run queues.
pub struct Shared {
    pub runtime: Runtime<RunnableTask, Tenants>,
    /// By run queue.
    pub timers: Box<[Timers]>,
    pub clock: Clock,
    pub blocking_pool: BlockingPool<Arc<QueueRef>>,
    pub panics: AtomicU64,
    /// Held by who ends and frees tenants.
    pub forgetting: Lock<ForgetLock, ()>,
    /// No task is taken from outside any more.
    pub closing: AtomicBool,
    /// A task ended, or a run queue became free; for who waits for that.
    pub end_signal: EndSignal,
    /// Called by who starts a thread for the scheduler, and by that one first.
    pub thread_start_hook: OnceLock<fn()>,
}

impl Shared {
    /// This thread was started to work for the scheduler, or starts one that does.
    pub fn run_thread_start_hook(&self) {
        if let Some(begin) = self.thread_start_hook.get() {
            begin();
        }
    }

    /// A run queue for what has no place of its own: one whose owner helps, else one without a
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

    /// The run queue `here`, if what has no place of its own may stay there.
    pub fn open(&self, here: Option<usize>) -> Option<usize> {
        here.filter(|&at| !self.runtime.run_queues()[at].is_pinned())
    }

    /// Somebody who does not drive a run queue put the earliest timer into it.
    pub fn wake_for_timer(&self, run_queue: usize, now: u64) {
        // Partner: S3. Either the owner sees the timer before it sleeps or we see that it sleeps.
        fence(Ordering::SeqCst);
        self.runtime.wake(run_queue, now);
    }
}

/// One run queue as tasks and threads hold it: a reference of its own per core, so that counting
/// references is no shared write.
pub struct QueueRef {
    pub shared: Arc<Shared>,
    pub index: usize,
    /// Tasks that began here. Written by any thread.
    pub spawned: AtomicU64,
    /// Tasks of those that ended. Written by any thread.
    pub finished: AtomicU64,
    /// The owner wants the run queue back from a substitute.
    pub wanted: AtomicBool,
}

/// What a task carries along.
pub struct Meta {
    pub queue_ref: Arc<QueueRef>,
    pub class: Class,
    pub tenant: Tenant,
    /// Whether the run queue was chosen by a key.
    pub is_affine: bool,
    /// The run queue where it runs next, unless it is woken elsewhere.
    pub preferred: AtomicU32,
}

/// A task that is runnable.
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

/// Lets threads wait until a task has ended.
#[derive(Default)]
pub struct EndSignal {
    /// How many wait.
    waiters: AtomicU32,
    lock: Mutex<()>,
    changed: Condvar,
}

impl EndSignal {
    /// Tells those that wait.
    pub fn notify(&self) {
        // Partner: the fence in `wait_until`. Either the waiter sees what ended or we see it.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if self.waiters.load(Ordering::Relaxed) > 0 {
            let _turn = self.lock.lock();
            self.changed.notify_all();
        }
    }

    /// Waits until `done`, which is asked again after every [`EndSignal::tell`], or for `limit`
    /// without one; whether it is done.
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
        // Relaxed: one tells in vain at most.
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        !late || done()
    }
}

hearth_sync::primitive::thread_local! {
    static CONTEXT: ThreadContext = ThreadContext::default();
}

/// Which run queue this thread drives.
#[derive(Default)]
struct ThreadContext {
    queue_ref: RefCell<Option<Arc<QueueRef>>>,
    /// Address of the scheduler whose run queue this thread drives, else 0.
    scheduler: Cell<usize>,
    run_queue: Cell<usize>,
    /// A task that was woken while it ran here.
    again: Cell<Option<RunnableTask>>,
    /// Whether a substitute may drive while a task blocks.
    may_hand_off: Cell<bool>,
    /// Address of the scheduler that started this thread, else 0.
    pool: Cell<usize>,
    /// Tasks that are cancelled here, but for the one whose turn it is.
    cancelled: RefCell<Vec<RunnableTask>>,
    /// Whether somebody below on the stack goes through them.
    cancels: Cell<bool>,
}

/// This thread was started by the scheduler, which waits for it when it ends.
pub fn enter_pool_thread(shared: &Arc<Shared>) {
    CONTEXT.with(|context| context.pool.set(address(shared)));
    shared.run_thread_start_hook();
}

/// Whether who waits here for the end of this scheduler's threads might wait for itself: the
/// thread is one of them, with or without a run queue, or drives a run queue of it.
pub fn is_scheduler_thread(shared: &Arc<Shared>) -> bool {
    let here = CONTEXT.try_with(|context| {
        let scheduler = address(shared);
        context.pool.get() == scheduler || context.scheduler.get() == scheduler
    });
    here.unwrap_or(false)
}

/// While it lives, this thread drives the run queue's run queue.
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
    /// This thread drives the run queue's run queue from now on.
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

    /// After a task: itself if it was woken meanwhile; `None` when the run queue was given away
    /// by [`hand_off`].
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

/// This thread's run queue, taken from it: it drives no run queue any more.
pub fn hand_off() -> Option<Arc<QueueRef>> {
    CONTEXT.with(|context| {
        if !context.may_hand_off.get() {
            return None;
        }
        context.scheduler.set(0);
        context.queue_ref.replace(None)
    })
}

/// Nobody else could take the run queue: this thread drives the run queue as before.
pub fn take_back(queue_ref: Arc<QueueRef>) {
    CONTEXT.with(|context| {
        context.scheduler.set(address(&queue_ref.shared));
        context.run_queue.set(queue_ref.index);
        context.queue_ref.replace(Some(queue_ref));
    });
}

/// The run queue of this scheduler that this thread drives.
#[inline]
pub fn current_run_queue(shared: &Arc<Shared>) -> Option<usize> {
    let here = CONTEXT.try_with(|context| (context.scheduler.get(), context.run_queue.get()));
    here.ok()
        .filter(|&(scheduler, _)| scheduler == address(shared))
        .map(|(_, run_queue)| run_queue)
}

/// Puts a runnable task where it is to run: called once each time that it becomes runnable.
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

/// Where a task goes that is woken and does not simply stay with its waker, who may take it over
/// `here`.
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

/// Keeps a task that goes on until the end of its poll, when the queue is locked anyway.
#[inline]
fn keep(work: RunnableTask, run_queue: usize) {
    let second = CONTEXT.with(|context| context.again.replace(Some(work)));
    if let Some(second) = second {
        put(second, run_queue, true);
    }
}

fn put(work: RunnableTask, run_queue: usize, own: bool) {
    let refused = if own {
        // This thread's run queue is a reference to the scheduler already.
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
        // The task may run and end elsewhere as soon as it is in.
        let queue_ref = Arc::clone(&work.0.metadata().queue_ref);
        let now = queue_ref.shared.clock.now().ns();
        queue_ref.shared.runtime.send(run_queue, work, now)
    };
    if let Err(work) = refused {
        cancel(work);
    }
}

/// The scheduler has ended: dropping the task ends it as cancelled. That wakes who awaits it, who
/// comes here as well, and ends after it and not inside of it: a chain of such tasks may be longer
/// than the stack.
fn cancel(work: RunnableTask) {
    // A thread that has no place any more, because it ends, drops the task with the closure.
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

/// Somebody goes through the cancelled tasks of this thread; a waker of who awaits one may panic.
struct Cancelling<'a>(&'a Cell<bool>);

impl Drop for Cancelling<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

fn address(shared: &Arc<Shared>) -> usize {
    Arc::as_ptr(shared) as usize
}
