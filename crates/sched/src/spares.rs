//! The scheduler's own threads: each drives the station it is given, or waits for one.

use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use std::collections::VecDeque;

/// More threads than this are not started for tasks that block.
const MOST_BLOCKED: usize = 512;

lock_class!(SparesLock = "sched.spares", 2030);

/// Stations that want a thread, and threads that want a station.
pub struct Spares<S> {
    state: Lock<SparesLock, State<S>>,
    changed: Condition,
    /// No more threads than this wait for a station.
    most_idle: usize,
    most: usize,
}

struct State<S> {
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
    /// The caller starts a thread for this job and no other, which calls [`Spares::next`] after it.
    /// If it cannot, it calls [`Spares::lose`], and the job is its own again.
    Start(S),
    /// There are too many threads, or the scheduler ends.
    Refused,
}

impl<S> Spares<S> {
    /// No threads; `stations` need one each.
    pub fn new(stations: usize) -> Spares<S> {
        Spares {
            state: Lock::new(State {
                jobs: VecDeque::new(),
                idle: 0,
                threads: 0,
                stopped: false,
            }),
            changed: Condition::new(),
            most_idle: stations.max(4),
            most: stations + MOST_BLOCKED,
        }
    }

    /// Hands a station out.
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
    pub fn lose(&self) {
        self.state.lock().threads -= 1;
        self.changed.notify_all();
    }

    /// Waits for a station; `None` when the thread is to end.
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
        let spares = Spares::new(2);
        assert_eq!(spares.offer('a'), Offer::Start('a'));
        assert_eq!(spares.offer('b'), Offer::Start('b'));
        // The thread for the first is refused, while that for the second drives its station.
        spares.lose();
        spares.stop();
        assert_eq!(spares.next(), None, "nobody else finds a job");
        assert_eq!(spares.state.lock().threads, 0);
        spares.wait_for_end();
        assert_eq!(spares.offer('c'), Offer::Refused);
    }
}
