//! The runtime: all run queues. Adds tasks, takes them out, and wakes sleeping owners.

mod run_queue;
mod search;
mod sleepers;

pub use run_queue::{RunQueue, WorkerMode};
pub use sleepers::{Parker, Unpark};

use crate::class::{Job, Weights};
use crate::cpu_accounting::CpuAccounting;
use crate::queue::Ready;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering, fence};
use sleepers::Sleepers;
use std::time::Duration;

/// A run queue whose owner has not switched for this long is behind.
pub const BEHIND: Duration = Duration::from_millis(1);
/// Switches in a row that skip the clock while tasks are very short.
const FAST_SWITCHES: u32 = 7;
/// Service of a tenant that makes one request of it.
const SLICE_NS: u64 = 200_000;

/// All run queues of a scheduler.
#[derive(Debug)]
pub struct Runtime<T, W> {
    run_queues: Box<[RunQueue<T>]>,
    sleepers: Sleepers,
    weights: W,
    stopped: AtomicBool,
}

/// What the thread that owns a run queue knows.
#[derive(Debug)]
pub struct Owner {
    run_queue: usize,
    /// It is counted as searching.
    searching: bool,
    /// It has searched other run queues for user work since the last task, in vain.
    search_failed: bool,
    /// Switches that may still skip the clock.
    fast_switch: u32,
    random: u64,
    cpu_accounting: CpuAccounting,
}

impl<T: Job, W: Weights> Runtime<T, W> {
    /// Returns a runtime of `run_queues` run queues, empty and without owners.
    pub fn new(run_queues: usize, weights: W) -> Runtime<T, W> {
        Runtime {
            run_queues: (0..run_queues).map(|_| RunQueue::new(SLICE_NS)).collect(),
            sleepers: Sleepers::new(run_queues),
            weights,
            stopped: AtomicBool::new(false),
        }
    }

    /// Returns the run queues.
    pub fn run_queues(&self) -> &[RunQueue<T>] {
        &self.run_queues
    }

    /// Returns the source of weights.
    pub fn weights(&self) -> &W {
        &self.weights
    }

    /// Acquires a run queue, if it is free.
    pub fn acquire(&self, run_queue: usize, mode: WorkerMode) -> Option<Owner> {
        let acquired = self.run_queues[run_queue].acquire(mode);
        acquired.then(|| Owner::of(run_queue))
    }

    /// Ends the running task, requeues it if it is to run `again`, and takes the next task of the
    /// owner's run queue.
    #[inline]
    pub fn switch(&self, owner: &mut Owner, again: Option<T>, now: u64) -> Option<T> {
        let run_queue = &self.run_queues[owner.run_queue];
        run_queue.mark_switch(now);
        let mut queue = run_queue.lock();
        queue.finish(now, |ns| owner.cpu_accounting.used(ns), &self.weights);
        let again = again.map(|task| queue.push(Ready { task, since: now }, &self.weights));
        run_queue.receive(&mut queue, &self.weights);
        let next = queue.pick(now, || {
            owner.search_failed || self.no_user_work_elsewhere(owner)
        });
        owner.fast_switch = if queue.may_fast_switch() {
            FAST_SWITCHES
        } else {
            0
        };
        run_queue.publish(&queue);
        drop(queue);
        // A closed queue gave the task back: dropped without the lock.
        drop(again);
        if next.is_some() {
            owner.search_failed = false;
            if owner.searching {
                self.stop_searching(owner);
            }
        }
        next
    }

    /// Switches without reading the clock: a few times in a row, after a task of the only active
    /// tenant, if its tasks are shorter than a clock reading.
    ///
    /// # Errors
    /// It is time for a full switch; the task comes back.
    #[inline]
    pub fn fast_switch(&self, owner: &mut Owner, again: T) -> Result<T, T> {
        let run_queue = &self.run_queues[owner.run_queue];
        if owner.fast_switch == 0 || run_queue.inbox_hint() > 0 {
            return Err(again);
        }
        owner.fast_switch -= 1;
        let mut queue = run_queue.lock();
        match queue.may_fast_switch() {
            true => Ok(queue.fast_switch(again, run_queue.switched())),
            false => Err(again),
        }
    }

    /// Switches like [`Runtime::switch`], but takes idle tasks only.
    pub fn switch_idle(&self, owner: &mut Owner, again: Option<T>, now: u64) -> Option<T> {
        self.pause(owner, again, now);
        let run_queue = &self.run_queues[owner.run_queue];
        let mut queue = run_queue.lock();
        run_queue.receive(&mut queue, &self.weights);
        let next = queue.pick_idle(now);
        run_queue.publish(&queue);
        next
    }

    /// Returns how many idle tasks wait at a run queue.
    pub fn idle_len(&self, run_queue: usize) -> usize {
        let run_queue = &self.run_queues[run_queue];
        let mut queue = run_queue.lock();
        run_queue.receive(&mut queue, &self.weights);
        queue.len() - queue.user_len()
    }

    /// Charges a tenant `ns` of work that was never queued and ended at `now`.
    pub fn serve(&self, run_queue: usize, tenant: usize, ns: u64, now: u64) {
        let run_queue = &self.run_queues[run_queue];
        run_queue.mark_switch(now);
        run_queue.lock().serve(tenant, ns, 1, &self.weights);
    }

    /// Charges a tenant like [`Runtime::serve`], but later. For the owner, while nothing waits
    /// there.
    #[inline]
    pub fn defer_charge(&self, run_queue: usize, tenant: usize, ns: u64) {
        self.run_queues[run_queue].defer_charge(tenant, ns, &self.weights);
    }

    /// Charges, until `now`, what the owner has deferred. For the owner.
    pub fn flush_charges(&self, run_queue: usize, now: u64) {
        let run_queue = &self.run_queues[run_queue];
        run_queue.mark_switch(now);
        run_queue.flush_charges(&mut run_queue.lock(), &self.weights);
    }

    /// Ends the running task, and requeues it if it is to run `again`, without taking another.
    pub fn pause(&self, owner: &mut Owner, again: Option<T>, now: u64) {
        self.end(owner.run_queue, again, now, |ns| {
            owner.cpu_accounting.used(ns)
        });
    }

    /// Detaches the running task from its run queue and charges it until `now`.
    pub fn give_up(&self, run_queue: usize, now: u64) {
        self.end(run_queue, None, now, |ns| ns);
    }

    fn end(&self, run_queue: usize, again: Option<T>, now: u64, used: impl FnOnce(u64) -> u64) {
        let run_queue = &self.run_queues[run_queue];
        let mut queue = run_queue.lock();
        queue.finish(now, used, &self.weights);
        let again = again.map(|task| queue.push(Ready { task, since: now }, &self.weights));
        run_queue.publish(&queue);
        drop(queue);
        // A closed queue gave the task back: dropped without the lock.
        drop(again);
    }

    /// Adds a task to a run queue that the caller owns.
    ///
    /// # Errors
    /// The runtime is closed; the task comes back.
    pub fn push(&self, own: usize, task: T, now: u64) -> Result<(), T> {
        let run_queue = &self.run_queues[own];
        let is_affine = task.is_affine();
        let mut queue = run_queue.lock();
        queue.push(Ready { task, since: now }, &self.weights)?;
        run_queue.publish(&queue);
        drop(queue);
        // W2: partner S3. Either the sleeper sees the task or this thread sees that it sleeps.
        fence(Ordering::SeqCst);
        self.wake_one(is_affine);
        Ok(())
    }

    /// Adds a task to the inbox of a run queue.
    ///
    /// # Errors
    /// The runtime is closed; the task comes back.
    pub fn send(&self, to: usize, task: T, now: u64) -> Result<(), T> {
        let run_queue = &self.run_queues[to];
        let is_affine = task.is_affine();
        run_queue.send(Ready { task, since: now })?;
        // W2: partner S3.
        fence(Ordering::SeqCst);
        if self.wake(to, now) {
            return Ok(());
        }
        self.wake_one(is_affine && run_queue.is_owned());
        Ok(())
    }

    /// Wakes the owner of a run queue, if it sleeps. Returns whether it did.
    pub fn wake(&self, run_queue: usize, now: u64) -> bool {
        // W3.
        let is_stealing = self.sleepers.claim(run_queue);
        if is_stealing {
            self.sleepers.start_searching();
        }
        let claimed = is_stealing || self.sleepers.claim_pinned(run_queue);
        if claimed {
            self.run_queues[run_queue].mark_switch(now);
            self.run_queues[run_queue].parker().unpark();
        }
        claimed
    }

    /// Releases the run queue; thieves take the tasks that wait.
    pub fn leave(&self, owner: &mut Owner, now: u64) {
        self.pause(owner, None, now);
        self.run_queues[owner.run_queue].release();
        if owner.searching {
            self.stop_searching(owner);
        } else {
            fence(Ordering::SeqCst);
            self.wake_if_work();
        }
    }

    /// Wakes every sleeper for the end.
    pub fn stop(&self) {
        // Relaxed: the fence and the parkers' locks order it.
        self.stopped.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for run_queue in &self.run_queues {
            run_queue.parker().unpark();
        }
    }

    /// Returns whether [`Runtime::stop`] was called.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        // Relaxed: seen sooner or later; sleepers are woken.
        self.stopped.load(Ordering::Relaxed)
    }

    /// Closes all queues and returns the tasks that waited.
    pub fn close(&self) -> Vec<T> {
        self.run_queues.iter().flat_map(RunQueue::close).collect()
    }

    /// Returns whether a run queue is behind: a task with its key may run elsewhere.
    pub fn is_behind(&self, run_queue: usize, now: u64) -> bool {
        let run_queue = &self.run_queues[run_queue];
        let late = now.saturating_sub(run_queue.switched()) >= BEHIND.as_nanos() as u64;
        !run_queue.is_owned() || late && run_queue.hint() > 0
    }
}

impl Owner {
    /// Returns the state of the owner of a run queue that the caller has acquired.
    pub fn of(run_queue: usize) -> Owner {
        Owner {
            run_queue,
            searching: false,
            search_failed: false,
            fast_switch: 0,
            random: 0x9e37_79b9_7f4a_7c15 ^ ((run_queue as u64 + 1) << 17),
            cpu_accounting: CpuAccounting::by_clock(),
        }
    }

    /// Measures work by `cpu_accounting` of the owner's thread instead of the clock.
    pub fn with_cpu_accounting(self, cpu_accounting: CpuAccounting) -> Owner {
        Owner {
            cpu_accounting,
            ..self
        }
    }

    /// Returns the processor time of work that the owner did itself and that took `ns` by the
    /// clock.
    #[inline]
    pub fn used(&mut self, ns: u64) -> u64 {
        self.cpu_accounting.used(ns)
    }

    /// Returns the index of the run queue.
    pub fn run_queue(&self) -> usize {
        self.run_queue
    }
}
