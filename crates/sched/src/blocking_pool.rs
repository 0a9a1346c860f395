//! The thread pool of the scheduler: each thread runs the loop of the run queue that it is given,
//! or waits for one.

use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use std::collections::VecDeque;

/// Threads that are started for blocking tasks, at most.
const MOST_BLOCKED: usize = 512;

lock_class!(BlockingPoolLock = "sched.blocking_pool", 2030);

/// A pool that matches run queues without a thread to threads without a run queue.
pub struct BlockingPool<S> {
    state: Lock<BlockingPoolLock, PoolState<S>>,
    changed: Condition,
    /// Threads that may wait for a run queue at once, at most.
    most_idle: usize,
    most: usize,
}

struct PoolState<S> {
    /// Run queues offered to waiting threads, which were notified.
    jobs: VecDeque<S>,
    idle: usize,
    threads: usize,
    stopped: bool,
}

/// The result of [`BlockingPool::offer`].
#[derive(Debug, PartialEq, Eq)]
pub enum Offer<S> {
    /// A waiting thread takes it.
    Taken,
    /// The caller starts a thread for this run queue, which calls [`BlockingPool::next`] when it
    /// has lost that queue. A caller that cannot start one calls [`BlockingPool::spawn_failed`] and
    /// keeps the run queue.
    Start(S),
    /// The pool has its maximum of threads, or the scheduler ends.
    Refused,
}

impl<S> BlockingPool<S> {
    /// Returns a pool without threads for `run_queues` run queues.
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

    /// Offers a run queue that needs a thread.
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

    /// Undoes [`Offer::Start`]: the thread could not be started.
    pub fn spawn_failed(&self) {
        self.state.lock().threads -= 1;
        self.changed.notify_all();
    }

    /// Waits for a run queue. Returns `None` when the calling thread must end.
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

    /// Lets every thread end that asks for its next run queue.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Waits until all threads have ended.
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
    fn a_thread_that_cannot_start_loses_no_other_run_queue() {
        let blocking_pool = BlockingPool::new(2);
        assert_eq!(blocking_pool.offer('a'), Offer::Start('a'));
        assert_eq!(blocking_pool.offer('b'), Offer::Start('b'));
        // The first thread could not be started; the second one runs its queue.
        blocking_pool.spawn_failed();
        blocking_pool.stop();
        assert_eq!(blocking_pool.next(), None, "nobody else finds a job");
        assert_eq!(blocking_pool.state.lock().threads, 0);
        blocking_pool.wait_for_end();
        assert_eq!(blocking_pool.offer('c'), Offer::Refused);
    }
}
