//! Tasks: what to spawn, and the handle of a spawned task.

use crate::class::Class;
use crate::error::TaskError;
use crate::shared::{Meta, QueueRef, schedule};
use crate::tenant::Tenant;
use async_task::{FallibleTask, Runnable, WithInfo};
use hearth_sync::primitive::atomic::{AtomicU32, Ordering};
use hearth_sync::primitive::{Arc, Condvar, Mutex};
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker, ready};

/// The properties of a new task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// Its class.
    pub class: Class,
    /// Its tenant.
    pub tenant: Tenant,
    /// An affinity key: tasks with equal keys run on one core, unless that is behind.
    pub key: Option<u64>,
    /// It continues a request that was counted where it began, and does not count as a task of its
    /// tenant.
    pub is_continuation: bool,
}

impl Spec {
    /// Normal work of a tenant.
    pub fn of(tenant: Tenant) -> Spec {
        Spec {
            tenant,
            ..Spec::default()
        }
    }

    /// Background work of the daemon.
    pub fn idle() -> Spec {
        Spec {
            class: Class::Idle,
            ..Spec::default()
        }
    }

    /// Short work of the daemon that goes ahead of everything.
    pub fn realtime() -> Spec {
        Spec {
            class: Class::Realtime,
            ..Spec::default()
        }
    }

    /// Returns these properties of a task that continues a request that was counted.
    pub fn as_continuation(self) -> Spec {
        Spec {
            is_continuation: true,
            ..self
        }
    }

    /// Returns these properties with a key.
    pub fn with_key(self, key: u64) -> Spec {
        Spec {
            key: Some(key),
            ..self
        }
    }
}

/// The handle of a task, and a future of its result. Dropping it detaches the task.
pub struct JoinHandle<T> {
    task: Option<FallibleTask<QuietDrop<Result<T, Payload>>, Meta>>,
}

type Payload = Box<dyn Any + Send>;

impl<T> JoinHandle<T> {
    /// Waits for the end on this thread. A thread that owns a run queue must not call it, because
    /// the task may need that thread. Inside a task, await the handle.
    ///
    /// # Errors
    /// The task panicked or was cancelled.
    pub fn join(self) -> Result<T, TaskError> {
        let thread_waker = Arc::new(ThreadWaker::default());
        let waker = Waker::from(Arc::clone(&thread_waker));
        let mut context = Context::from_waker(&waker);
        let mut handle = std::pin::pin!(self);
        loop {
            match handle.as_mut().poll(&mut context) {
                Poll::Ready(end) => return end,
                Poll::Pending => thread_waker.wait(),
            }
        }
    }

    /// Cancels the task at its next step, unless it has ended, and returns its result.
    ///
    /// # Errors
    /// The task panicked or was cancelled.
    pub async fn cancel(mut self) -> Result<T, TaskError> {
        match self.task.take() {
            Some(task) => outcome(task.cancel().await),
            None => Err(TaskError::Cancelled),
        }
    }

    /// Returns whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(FallibleTask::is_finished)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.task {
            Some(task) => Poll::Ready(outcome(ready!(Pin::new(task).poll(context)))),
            None => Poll::Ready(Err(TaskError::Cancelled)),
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle")
            .field("is_finished", &self.is_finished())
            .finish()
    }
}

fn outcome<T>(end: Option<QuietDrop<Result<T, Payload>>>) -> Result<T, TaskError> {
    match end.and_then(QuietDrop::take) {
        Some(Ok(value)) => Ok(value),
        Some(Err(payload)) => Err(TaskError::Panicked(payload)),
        None => Err(TaskError::Cancelled),
    }
}

/// Makes a task of a future. The caller schedules its first step.
pub fn make<F>(
    queue_ref: Arc<QueueRef>,
    spec: Spec,
    preferred: usize,
    future: F,
) -> (Runnable<Meta>, JoinHandle<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SeqCst: see `Handle::tasks`.
    queue_ref.spawned.fetch_add(1, Ordering::SeqCst);
    let live = LiveTask(Arc::clone(&queue_ref), spec.tenant);
    let meta = Meta {
        queue_ref,
        class: spec.class,
        tenant: spec.tenant,
        is_affine: spec.key.is_some(),
        preferred: AtomicU32::new(preferred as u32),
    };
    let future = CatchPanic {
        future: Some(future),
        live,
    };
    let (runnable, task) = async_task::Builder::new()
        .metadata(meta)
        .spawn(|_| future, WithInfo(schedule));
    let task = Some(task.fallible());
    (runnable, JoinHandle { task })
}

/// Counts a task as unfinished while it lives.
struct LiveTask(Arc<QueueRef>, Tenant);

impl Drop for LiveTask {
    fn drop(&mut self) {
        // SeqCst: see `Handle::tasks`.
        self.0.finished.fetch_add(1, Ordering::SeqCst);
        self.0.shared.runtime.weights().end_one(self.1);
        self.0.shared.end_signal.notify();
    }
}

pin_project_lite::pin_project! {
    /// A future whose panic ends only itself.
    struct CatchPanic<F> {
        #[pin]
        future: Option<F>,
        live: LiveTask,
    }

    impl<F> PinnedDrop for CatchPanic<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            drop_catching(|| this.future.set(None));
        }
    }
}

impl<F: Future> Future for CatchPanic<F> {
    type Output = QuietDrop<Result<F::Output, Payload>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let step = catch_unwind(AssertUnwindSafe(|| {
            match this.future.as_mut().as_pin_mut() {
                Some(future) => future.poll(context),
                None => Poll::Pending,
            }
        }));
        match step {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => {
                let dropped = drop_catching(|| this.future.set(None));
                count_panic(&this.live.0, !dropped);
                Poll::Ready(QuietDrop(Some(Ok(value))))
            }
            Err(payload) => {
                count_panic(&this.live.0, true);
                Poll::Ready(QuietDrop(Some(Err(payload))))
            }
        }
    }
}

/// A value whose destructor may panic without consequence, if nobody takes it.
struct QuietDrop<T>(Option<T>);

impl<T> QuietDrop<T> {
    fn take(mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Drop for QuietDrop<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            drop_catching(|| drop(value));
        }
    }
}

/// Runs a destructor and catches its panic. Returns false if it panicked.
fn drop_catching(destructor: impl FnOnce()) -> bool {
    let end = catch_unwind(AssertUnwindSafe(destructor));
    // The payload of the panic may panic as well when it is dropped.
    end.map_err(std::mem::forget).is_ok()
}

fn count_panic(queue_ref: &QueueRef, panicked: bool) {
    if panicked {
        // Relaxed: a counter.
        queue_ref.shared.panics.fetch_add(1, Ordering::Relaxed);
    }
}

/// A waker that wakes a thread.
#[derive(Default)]
struct ThreadWaker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl ThreadWaker {
    fn wait(&self) {
        let mut woken = self.woken.lock();
        while !*woken {
            self.changed.wait(&mut woken);
        }
        *woken = false;
    }
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        *self.woken.lock() = true;
        self.changed.notify_one();
    }
}
