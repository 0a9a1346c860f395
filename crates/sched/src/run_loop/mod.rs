//! Driving a run queue: taking its tasks and running them, on whatever thread holds its run queue.

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

/// A thread's hold on a run queue.
pub struct RunLoop {
    queue_ref: Arc<QueueRef>,
    /// `None` while a substitute drives, after a task has blocked.
    owner: Option<Owner>,
    may_hand_off: bool,
}

impl RunLoop {
    /// Takes the run queue, if it is free. It `may_hand_off` when a substitute may drive while a task blocks.
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

    /// Runs tasks until none is here or `most` were run; how many. Ends early when the run queue is
    /// lost or wanted, or the scheduler stops.
    pub fn run(&mut self, most: usize) -> usize {
        self.run_with(most, |shared, owner, again, now| {
            shared.runtime.switch(owner, again, now)
        })
    }

    /// The same with idle work alone, until `end` in nanoseconds.
    pub fn run_idle(&mut self, most: usize, end: u64) -> usize {
        self.run_with(most, |shared, owner, again, now| match now < end {
            true => shared.runtime.switch_idle(owner, again, now),
            false => {
                shared.runtime.pause(owner, again, now);
                None
            }
        })
    }

    /// Looks for work elsewhere; whether there is some here now.
    pub fn search(&mut self) -> bool {
        let now = self.queue_ref.shared.clock.now().ns();
        let owner = self.owner.as_mut();
        owner.is_some_and(|owner| self.queue_ref.shared.runtime.search(owner, now))
    }

    /// Sleeps by `wait`, until the next timer at most, unless something is runnable.
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
            // Relaxed: see above.
            if !queue_ref.wanted.load(Ordering::Relaxed) {
                wait(limit);
            }
        });
    }

    /// Whether this thread still drives the run queue.
    pub fn is_kept(&self) -> bool {
        self.owner.is_some()
    }

    fn is_wanted(&self) -> bool {
        // Relaxed: seen sooner or later; who wants the run queue wakes the owner.
        self.queue_ref.wanted.load(Ordering::Relaxed)
    }

    #[inline]
    fn run_with(
        &mut self,
        most: usize,
        mut switch: impl FnMut(&Shared, &mut Owner, Option<RunnableTask>, u64) -> Option<RunnableTask>,
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
                    // Given away with everything that belongs to it.
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
            // An owner that wants its run queue back fires its timers itself.
            if !self.is_wanted() {
                move_timers(&self.queue_ref, now);
            }
            self.queue_ref.shared.end_signal.notify();
        }
    }
}

/// Starts a thread for a run queue whose run queue is taken, or gives it to one that waits; the reason
/// when neither can be, and the run queue is the caller's as before.
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

/// What the scheduler's own threads do.
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
    // A panic of the future is caught inside of it, see `task`.
    work.0.run();
}

/// A run queue without a owner fires no timers: those that wait go to one whose owner helps.
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
