//! The queue threads of a session: ready before the reply to INIT, at work after it.
//!
//! A ring belongs to the thread that makes it, and the kernel must not be promised rings that
//! cannot be had. So each thread makes its ring, all wait, and only when every one of them has
//! succeeded is the promise made.

use crate::mount::connection::Connection;
use crate::placement::cpu;
use crate::transport::uring::{PreparedQueue, QueueParts};
use crate::wait::service::Service;
use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::thread::{Builder, JoinHandle};
use std::io;

/// Queue threads that have their rings and wait for the word.
pub(crate) struct Queues<S> {
    gate: Arc<Gate<S>>,
    threads: Vec<JoinHandle<()>>,
}

lock_class!(QueuesLock = "fuse.queues", 873);

struct Gate<S> {
    state: Lock<QueuesLock, StartState<S>>,
    changed: Condition,
}

struct StartState<S> {
    /// Threads that reached the next step.
    arrived: usize,
    error: Option<io::Error>,
    word: Word<S>,
}

enum Word<S> {
    Wait,
    GoHome,
    Go(QueueParts<S>, Arc<Connection>),
}

impl<S: Service> Queues<S> {
    /// One thread with a ring for every CPU that is there. CPUs that may come later share those.
    ///
    /// # Errors
    /// The error of the first ring that could not be made, or why nobody knows how many it takes;
    /// no thread is left then.
    pub fn prepare() -> io::Result<Queues<S>> {
        let shares = share_out(&cpu::online(), &cpu::possible()?);
        let state = StartState {
            arrived: 0,
            error: None,
            word: Word::Wait,
        };
        let gate = Arc::new(Gate {
            state: Lock::new(state),
            changed: Condition::new(),
        });
        let mut queues = Queues {
            gate,
            threads: Vec::new(),
        };
        for cpus in shares {
            let gate = Arc::clone(&queues.gate);
            let name = format!("hearth-cpu{}", cpus[0]);
            match Builder::new().name(name).spawn(move || gate.work(cpus)) {
                Ok(thread) => queues.threads.push(thread),
                Err(error) => queues.gate.fail(error),
            }
        }
        let result = queues.gate.all_arrived(queues.threads.len());
        if let Err(error) = result {
            queues.send_home();
            return Err(error);
        }
        Ok(queues)
    }

    /// Has the threads register their entries and serve. Returns the threads, and whether all could
    /// register.
    pub fn go(
        mut self,
        parts: QueueParts<S>,
        connection: &Arc<Connection>,
    ) -> (Vec<JoinHandle<()>>, io::Result<()>) {
        for _ in &self.threads {
            connection.thread_begins();
        }
        self.gate.say(Word::Go(parts, Arc::clone(connection)));
        // The word stays: a thread that is late must still hear it, and the gate goes when the
        // threads have gone.
        let result = self.gate.all_arrived(self.threads.len());
        (std::mem::take(&mut self.threads), result)
    }

    fn send_home(&mut self) {
        self.gate.say(Word::GoHome);
        for thread in self.threads.drain(..) {
            // It only made a ring; a panic there was reported by the program's hook.
            let _ = thread.join();
        }
    }
}

impl<S> Drop for Queues<S> {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        if matches!(state.word, Word::Wait) {
            state.word = Word::GoHome;
            drop(state);
            self.gate.changed.notify_all();
        }
    }
}

impl<S: Service> Gate<S> {
    fn work(&self, cpus: Vec<usize>) {
        let prepared = match PreparedQueue::new(cpus) {
            Ok(prepared) => prepared,
            Err(error) => return self.fail(error),
        };
        let Some((parts, connection)) = self.arrive_and_wait() else {
            return;
        };
        let result = match prepared.register(parts) {
            Ok(queue) => {
                self.arrive();
                queue.run()
            }
            Err(error) => {
                let kind = error.kind();
                self.fail(error);
                Err(kind.into())
            }
        };
        connection.thread_ended(result);
    }

    fn arrive(&self) {
        self.state.lock().arrived += 1;
        self.changed.notify_all();
    }

    fn fail(&self, error: io::Error) {
        self.state.lock().error.get_or_insert(error);
        self.changed.notify_all();
    }

    fn arrive_and_wait(&self) -> Option<(QueueParts<S>, Arc<Connection>)> {
        self.arrive();
        let mut state = self.state.lock();
        loop {
            match &state.word {
                Word::Wait => state.wait(&self.changed),
                Word::GoHome => return None,
                Word::Go(parts, connection) => {
                    return Some((parts.clone(), Arc::clone(connection)));
                }
            }
        }
    }

    /// Waits for all threads to reach this step.
    fn all_arrived(&self, threads: usize) -> io::Result<()> {
        let mut state = self.state.lock();
        while state.arrived < threads && state.error.is_none() {
            state.wait(&self.changed);
        }
        state.arrived = 0;
        state.error.take().map_or(Ok(()), Err)
    }

    fn say(&self, word: Word<S>) {
        let old = std::mem::replace(&mut self.state.lock().word, word);
        drop(old);
        self.changed.notify_all();
    }
}

/// Lists of CPUs, one per thread: each CPU that is there leads one, the others are dealt out
/// behind.
fn share_out(online: &[usize], possible: &[usize]) -> Vec<Vec<usize>> {
    let mut shares: Vec<Vec<usize>> = online.iter().map(|&cpu| vec![cpu]).collect();
    let absent = possible.iter().filter(|cpu| !online.contains(cpu));
    for (place, &cpu) in absent.enumerate() {
        let share = place % shares.len();
        shares[share].push(cpu);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_possible_cpu_has_a_queue_and_every_present_one_leads_a_thread() {
        let shares = share_out(&[0, 2], &[0, 1, 2, 3, 4]);
        assert_eq!(shares, [vec![0, 1, 4], vec![2, 3]]);
    }
}
