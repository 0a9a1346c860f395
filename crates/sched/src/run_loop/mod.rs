//! The run loop: takes the tasks of a run queue and runs them, on the thread that owns it.

mod blocking;
mod worker;

pub use blocking::block_in_place;
pub use worker::{Source, Worker};

use crate::blocking_pool::Offer;
use crate::runtime::{Owner, WorkerMode};
use crate::shared::{ContextGuard, QueueRef, RunnableTask, Shared, enter_pool_thread};
use hearth_sync::primitive::atomic::Ordering;
use hearth_sync::primitive::{Arc, thread};
use std::time::Duration;

/// A task that goes back into the queue, or the next one, if there is any.
type Again = Option<RunnableTask>;

/// Ownership of a run queue by a thread.
pub struct RunLoop {
    queue_ref: Arc<QueueRef>,
    /// `None` while a substitute runs the queue because a task blocks.
    owner: Option<Owner>,
    may_hand_off: bool,
}

impl RunLoop {
    /// Acquires the run queue, if it is free. `may_hand_off`: a substitute may take over while a
    /// task blocks.
    pub fn take(
        queue_ref: &Arc<QueueRef>,
        mode: WorkerMode,
        may_hand_off: bool,
    ) -> Option<RunLoop> {
        let shared = &queue_ref.shared;
        let owner = shared.runtime.acquire(queue_ref.index, mode)?;
        let owner = owner.with_cpu_accounting(shared.clock.cpu_accounting());
        Some(RunLoop {
            queue_ref: Arc::clone(queue_ref),
            owner: Some(owner),
            may_hand_off,
        })
    }

    /// Runs up to `most` tasks, until none is here. Returns how many ran. Ends early when the run
    /// queue is lost or wanted back, or the scheduler stops.
    pub fn run(&mut self, most: usize) -> usize {
        self.run_with(most, |shared, owner, again, now| {
            shared.runtime.switch(owner, again, now)
        })
    }

    /// Runs up to `most` idle tasks, and begins none after `end`, in nanoseconds. Returns how many
    /// ran.
    pub fn run_idle(&mut self, most: usize, end: u64) -> usize {
        self.run_with(most, |shared, owner, again, now| match now < end {
            true => shared.runtime.switch_idle(owner, again, now),
            false => {
                shared.runtime.pause(owner, again, now);
                None
            }
        })
    }

    /// Looks for work elsewhere. Returns whether there is some here now.
    pub fn search(&mut self) -> bool {
        let now = self.queue_ref.shared.clock.now().ns();
        let owner = self.owner.as_mut();
        owner.is_some_and(|owner| self.queue_ref.shared.runtime.search(owner, now))
    }

    /// Sleeps by calling `wait` with a limit, the next timer at most, unless a task is runnable.
    pub fn sleep(&mut self, wait: impl FnOnce(Option<Duration>)) {
        let Some(owner) = &mut self.owner else {
            return;
        };
        let (queue_ref, shared) = (&self.queue_ref, &self.queue_ref.shared);
        let now = shared.clock.now().ns();
        shared.runtime.sleep(owner, now, |limit| {
            // After the fence S3: partners `Shared::wake_for_timer` and `Worker::reclaim`.
            let next = shared.timers[queue_ref.index].next();
            let timer = Duration::from_nanos(next.saturating_sub(now));
            let limit = match (limit, next) {
                (limit, u64::MAX) => limit,
                (limit, _) => Some(limit.map_or(timer, |limit| limit.min(timer))),
            };
            // Relaxed: ordered by that fence.
            if !queue_ref.wanted.load(Ordering::Relaxed) {
                wait(limit);
            }
        });
    }

    /// Returns whether this thread still owns the run queue.
    pub fn is_kept(&self) -> bool {
        self.owner.is_some()
    }

    fn is_wanted(&self) -> bool {
        // Relaxed: seen sooner or later; the thread that wants it back wakes the owner.
        self.queue_ref.wanted.load(Ordering::Relaxed)
    }

    #[inline]
    fn run_with(
        &mut self,
        most: usize,
        mut switch: impl FnMut(&Shared, &mut Owner, Again, u64) -> Again,
    ) -> usize {
        let Some(owner) = &mut self.owner else {
            return 0;
        };
        let (queue_ref, shared) = (&*self.queue_ref, &*self.queue_ref.shared);
        let guard = ContextGuard::enter(&self.queue_ref, self.may_hand_off);
        let timers = &shared.timers[queue_ref.index];
        let (mut ran, mut again) = (0, None);
        'switch: loop {
            let now = shared.clock.now().ns();
            if timers.next() <= now {
                timers.fire(now);
            }
            // Relaxed: see `is_wanted`.
            let leave = shared.runtime.is_stopped() || queue_ref.wanted.load(Ordering::Relaxed);
            if ran == most || leave {
                shared.runtime.pause(owner, again, now);
                break;
            }
            let Some(mut work) = switch(shared, owner, again.take(), now) else {
                break;
            };
            loop {
                run_one(work, queue_ref.index);
                ran += 1;
                let Some(woken) = guard.after() else {
                    // The run queue was handed off with all that belongs to it.
                    self.owner = None;
                    break 'switch;
                };
                again = woken;
                match again.take_if(|_| ran < most) {
                    None => continue 'switch,
                    Some(task) => match shared.runtime.fast_switch(owner, task) {
                        Ok(next) => work = next,
                        Err(task) => {
                            again = Some(task);
                            continue 'switch;
                        }
                    },
                }
            }
        }
        ran
    }
}

impl Drop for RunLoop {
    fn drop(&mut self) {
        if let Some(mut owner) = self.owner.take() {
            let now = self.queue_ref.shared.clock.now().ns();
            self.queue_ref.shared.runtime.leave(&mut owner, now);
            // An owner that takes its run queue back fires the timers itself.
            if !self.is_wanted() {
                move_timers(&self.queue_ref, now);
            }
            self.queue_ref.shared.end_signal.notify();
        }
    }
}

/// Finds a thread for an acquired run queue: a waiting one, or a new one. On failure returns the
/// reason; the caller still owns the run queue.
pub fn spawn_worker(queue_ref: &Arc<QueueRef>) -> Result<(), String> {
    let blocking_pool = &queue_ref.shared.blocking_pool;
    match blocking_pool.offer(Arc::clone(queue_ref)) {
        Offer::Taken => Ok(()),
        Offer::Refused => Err("too many tasks block".to_owned()),
        Offer::Start(first) => {
            queue_ref.shared.run_thread_start_hook();
            let name = format!("hearth-{}", queue_ref.index);
            let started = thread::Builder::new()
                .name(name)
                .spawn(move || serve(first));
            started.map(drop).map_err(|error| {
                blocking_pool.spawn_failed();
                error.to_string()
            })
        }
    }
}

/// The main function of the scheduler's own threads.
fn serve(first: Arc<QueueRef>) {
    let shared = &Arc::clone(&first.shared);
    enter_pool_thread(shared);
    let mut next = Some(first);
    while let Some(queue_ref) = next.take().or_else(|| shared.blocking_pool.next()) {
        let mut run_loop = RunLoop {
            owner: Some(
                Owner::of(queue_ref.index).with_cpu_accounting(shared.clock.cpu_accounting()),
            ),
            queue_ref,
            may_hand_off: true,
        };
        while run_loop.is_kept() && !run_loop.is_wanted() && !shared.runtime.is_stopped() {
            if run_loop.run(usize::MAX) == 0 && run_loop.is_kept() && !run_loop.search() {
                let queue_ref = Arc::clone(&run_loop.queue_ref);
                let parker = shared.runtime.run_queues()[queue_ref.index].parker();
                run_loop.sleep(|limit| parker.park(limit));
            }
        }
    }
}

fn run_one(work: RunnableTask, run_queue: usize) {
    // Relaxed: a hint; stored only when the task has moved.
    let preferred = &work.0.metadata().preferred;
    if preferred.load(Ordering::Relaxed) as usize != run_queue {
        preferred.store(run_queue as u32, Ordering::Relaxed);
    }
    // A panic of the future is caught in `task`.
    work.0.run();
}

/// Moves the timers of a run queue that loses its owner, and so fires none, to one whose owner
/// steals.
fn move_timers(queue_ref: &QueueRef, now: u64) {
    let shared = &queue_ref.shared;
    let run_queues = shared.runtime.run_queues();
    let other =
        (0..run_queues.len()).find(|&at| at != queue_ref.index && run_queues[at].is_stealing());
    let Some(other) = other else { return };
    for (at, waker) in shared.timers[queue_ref.index].take() {
        if let Err(waker) = shared.timers[other].insert(at, waker) {
            waker.wake();
        }
    }
    shared.wake_for_timer(other, now);
}
