//! A worker whose loop belongs to the caller.

use super::RunLoop;
use crate::runtime::{Unpark, WorkerMode};
use crate::shared::QueueRef;
use crate::tenant::Tenant;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{Ordering, fence};
use std::time::Duration;

/// Tasks between two polls of the source.
const TASKS_PER_POLL: usize = 8;

/// Ownership of a run queue by a thread of the caller. Dropping it releases the run queue.
///
/// `docs/design/scheduler.md` section 12 shows the loop.
pub struct Worker {
    queue_ref: Arc<QueueRef>,
    mode: WorkerMode,
    run_loop: Option<RunLoop>,
}

/// A source of work besides the scheduler: a queue of requests.
pub trait Source {
    /// Takes what has arrived, and finishes it by [`Worker::serve`] or spawns it. Returns true if
    /// there was any. It must take a bounded part at a time, because tasks wait meanwhile.
    fn poll(&mut self, worker: &mut Worker) -> bool;
    /// Waits until something arrives or the worker is unparked, at most for `limit`.
    fn wait(&mut self, limit: Option<Duration>);
    /// Returns whether the loop ends.
    fn is_finished(&self) -> bool;
}

impl Worker {
    /// Acquires the run queue, or returns `unpark` if it is owned.
    pub(crate) fn take(
        queue_ref: &Arc<QueueRef>,
        mode: WorkerMode,
        unpark: Option<Unpark>,
    ) -> Result<Worker, Option<Unpark>> {
        let Some(run_loop) = RunLoop::take(queue_ref, mode, true) else {
            return Err(unpark);
        };
        queue_ref.shared.runtime.run_queues()[queue_ref.index]
            .parker()
            .set_elsewhere(unpark);
        Ok(Worker {
            queue_ref: Arc::clone(queue_ref),
            mode,
            run_loop: Some(run_loop),
        })
    }

    /// Returns the index of its run queue, which is also the key that leads to it.
    pub fn run_queue(&self) -> usize {
        self.queue_ref.index
    }

    /// Runs one task, from here or, unless it is [pinned](crate::Handle::pinned_worker), from
    /// another run queue. Returns false if there is none.
    pub fn tick(&mut self) -> bool {
        self.run(1) > 0
    }

    /// Alternates between a source and tasks until the source is finished or the scheduler stops.
    pub fn run_source(&mut self, source: &mut impl Source) {
        while !source.is_finished() && !self.is_stopped() {
            let came = source.poll(self);
            if self.run(TASKS_PER_POLL) == 0 && !came {
                self.wait(|limit| source.wait(limit));
            }
        }
    }

    /// Runs `f` on this thread, and counts it as service of a tenant.
    pub fn serve<R>(&mut self, tenant: Tenant, f: impl FnOnce() -> R) -> R {
        let clock = &self.queue_ref.shared.clock;
        let begin = clock.now();
        let result = f();
        let now = clock.now();
        let ns = self.used(now.since(begin).as_nanos() as u64);
        let runtime = &self.queue_ref.shared.runtime;
        runtime.serve(self.queue_ref.index, tenant.index(), ns, now.ns());
        result
    }

    /// Counts `ns` of work that was done as service of a tenant, like [`Worker::serve`], but
    /// charges it later, at nearly no cost. To be used while nothing waits here.
    #[inline]
    pub fn defer_charge(&mut self, tenant: Tenant, ns: u64) {
        if self.run_loop.as_ref().is_some_and(RunLoop::is_kept) {
            let ns = self.used(ns);
            let runtime = &self.queue_ref.shared.runtime;
            runtime.defer_charge(self.queue_ref.index, tenant.index(), ns);
        }
    }

    /// Charges what [`Worker::defer_charge`] has counted. To be called before work is queued here,
    /// so that it finds the accounts up to date.
    pub fn flush_charges(&mut self) {
        if self.run_loop.as_ref().is_some_and(RunLoop::is_kept) {
            let shared = &self.queue_ref.shared;
            shared
                .runtime
                .flush_charges(self.queue_ref.index, shared.clock.now().ns());
        }
    }

    /// Returns whether a task waits here, or a timer is due.
    pub fn has_work(&self) -> bool {
        let (shared, run_queue) = (&self.queue_ref.shared, self.queue_ref.index);
        let timer = || match shared.timers[run_queue].next() {
            u64::MAX => false,
            next => next <= shared.clock.now().ns(),
        };
        shared.runtime.run_queues()[run_queue].hint() > 0 || timer()
    }

    /// Returns whether a task or a timer waits here.
    pub fn has_pending(&self) -> bool {
        let (shared, run_queue) = (&self.queue_ref.shared, self.queue_ref.index);
        shared.runtime.run_queues()[run_queue].hint() > 0
            || shared.timers[run_queue].next() != u64::MAX
    }

    /// Sleeps, unless a task is runnable that may run here: calls `wait` with a time limit. `wait`
    /// must return when the worker is unparked.
    pub fn wait(&mut self, wait: impl FnOnce(Option<Duration>)) {
        if self.reclaim()
            && let Some(run_loop) = &mut self.run_loop
            && !run_loop.search()
        {
            run_loop.sleep(wait);
        }
    }

    /// Sleeps until unparked: [`Worker::wait`] for a worker without a source.
    pub fn park(&mut self) {
        let queue_ref = Arc::clone(&self.queue_ref);
        let parker = queue_ref.shared.runtime.run_queues()[queue_ref.index].parker();
        self.wait(|limit| parker.park(limit));
    }

    /// Returns whether the scheduler has stopped.
    pub fn is_stopped(&self) -> bool {
        self.queue_ref.shared.runtime.is_stopped()
    }

    /// Returns how long this thread ran in the last `ns` nanoseconds.
    #[inline]
    fn used(&mut self, ns: u64) -> u64 {
        let owner = self
            .run_loop
            .as_mut()
            .and_then(|run_loop| run_loop.owner.as_mut());
        owner.map_or(ns, |owner| owner.used(ns))
    }

    fn run(&mut self, most: usize) -> usize {
        if !self.reclaim() {
            return 0;
        }
        let Some(run_loop) = &mut self.run_loop else {
            return 0;
        };
        match run_loop.run(most) {
            0 if run_loop.is_kept() && run_loop.search() => run_loop.run(most),
            ran => ran,
        }
    }

    /// Takes the run queue back from the substitute that got it when a task blocked.
    fn reclaim(&mut self) -> bool {
        if self.run_loop.as_ref().is_some_and(RunLoop::is_kept) {
            return !self.is_stopped();
        }
        let (queue_ref, shared) = (&self.queue_ref, &self.queue_ref.shared);
        // Relaxed: the substitute sees it at its next switch. If it is about to sleep, either it
        // sees the flag or this thread sees that it sleeps, by the fence. Partner: S3 and
        // `RunLoop::sleep`.
        queue_ref.wanted.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        shared
            .runtime
            .wake(queue_ref.index, shared.clock.now().ns());
        let (mode, run_loop) = (self.mode, &mut self.run_loop);
        *run_loop = None;
        let ended = &shared.end_signal;
        ended.wait_until(None, || {
            if run_loop.is_none() {
                *run_loop = RunLoop::take(queue_ref, mode, true);
            }
            run_loop.is_some() || shared.runtime.is_stopped()
        });
        // Relaxed: as for the store above.
        queue_ref.wanted.store(false, Ordering::Relaxed);
        run_loop.is_some()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let run_queue = &self.queue_ref.shared.runtime.run_queues()[self.queue_ref.index];
        run_queue.parker().set_elsewhere(None);
    }
}
