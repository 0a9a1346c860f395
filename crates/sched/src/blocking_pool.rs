//! The scheduler's own threads: each drives the run queue it is given, or waits for one.

use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use std::collections::VecDeque;

/// More threads than this are not started for tasks that block.
const MOST_BLOCKED: usize = 512;

lock_class!(BlockingPoolLock = "sched.spares", 2030);

/// Run queues that want a thread, and threads that want a run queue.
pub struct BlockingPool<S> {
    state: Lock<BlockingPoolLock, PoolState<S>>,
    changed: Condition,
    /// No more threads than this wait for a run queue.
    most_idle: usize,
    most: usize,
}

struct PoolState<S> {
    /// For threads that wait, and were told.
    jobs: VecDeque<S>,
    idle: usize,
    threads: usize,
    stopped: bool,
}

/// What became of a job.
#[derive(Debug, PartialEq, Eq)]
pub enum Offer<S> {
    /// A thread that waited takes it.
    Taken,
    /// The caller starts a thread for this job and no other, which calls [`BlockingPool::next`] after it.
    /// If it cannot, it calls [`BlockingPool::spawn_failed`], and the job is its own again.
    Start(S),
    /// There are too many threads, or the scheduler ends.
    Refused,
}

impl<S> BlockingPool<S> {
    /// No threads; `run_queues` need one each.
    pub fn new(run_queues: usize) -> BlockingPool<S> {
        BlockingPool {
            state: Lock::new(PoolState {
                jobs: VecDeque::new(),
                idle: 0,
                threads: 0,
                stopped: false,
            }),
            changed: Condition::new(),
            most_idle: run_queues.max(4),
            most: run_queues + MOST_BLOCKED,
        }
    }

    /// Hands a run queue out.
    pub fn offer(&self, job: S) -> Offer<S> {
        let mut state = self.state.lock();
        if state.stopped {
            return Offer::Refused;
        }
        if state.idle > state.jobs.len() {
            state.jobs.push_back(job);
            drop(state);
            self.changed.notify_one();
            return Offer::Taken;
        }
        if state.threads >= self.most {
            return Offer::Refused;
        }
        state.threads += 1;
        Offer::Start(job)
    }

    /// The thread that [`Offer::Start`] asked for could not be started.
    pub fn spawn_failed(&self) {
        self.state.lock().threads -= 1;
        self.changed.notify_all();
    }

    /// Waits for a run queue; `None` when the thread is to end.
    pub fn next(&self) -> Option<S> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.stopped || state.idle >= self.most_idle {
                state.threads -= 1;
                drop(state);
                self.changed.notify_all();
                return None;
            }
            state.idle += 1;
            state.wait(&self.changed);
            state.idle -= 1;
        }
    }

    /// Threads end when they come back.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Waits until no thread is left.
    pub fn wait_for_end(&self) {
        let mut state = self.state.lock();
        while state.threads > 0 {
            state.wait(&self.changed);
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_not_started_costs_its_own_job_and_no_other() {
        let blocking_pool = BlockingPool::new(2);
        assert_eq!(blocking_pool.offer('a'), Offer::Start('a'));
        assert_eq!(blocking_pool.offer('b'), Offer::Start('b'));
        // The thread for the first is refused, while that for the second drives its run queue.
        blocking_pool.spawn_failed();
        blocking_pool.stop();
        assert_eq!(blocking_pool.next(), None, "nobody else finds a job");
        assert_eq!(blocking_pool.state.lock().threads, 0);
        blocking_pool.wait_for_end();
        assert_eq!(blocking_pool.offer('c'), Offer::Refused);
    }
}
