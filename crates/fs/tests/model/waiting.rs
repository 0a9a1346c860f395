//! Lock requests that wait, against the model: each on a thread of its own. Which of them are
//! decided after a step, and how, the model says; that all others wait, the volume's own count.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hearth::{Interrupt, Volume};
use hearth_model::strategy::waiting_script;
use hearth_model::{
    Fate, Op, Outcome, System, Turn, Waiter, compare_waiting, listing_of_turns, regressions,
};

use crate::driver::{Library, lock_spec};
use crate::run_scripts;

/// How long something may take that takes microseconds where nothing is wrong.
const LONG: Duration = Duration::from_secs(5);

/// A library and the calls of it that are under way.
struct Threads {
    library: Library,
    calls: BTreeMap<u64, Call>,
}

struct Call {
    interrupt: Interrupt,
    outcome: Receiver<Outcome>,
    thread: JoinHandle<()>,
}

impl Threads {
    fn new() -> Threads {
        Threads {
            library: Library::new(Volume::memory()),
            calls: BTreeMap::new(),
        }
    }
}

impl System for Threads {
    fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        self.library.apply(p, op)
    }
}

impl Waiter for Threads {
    fn ask(&mut self, ticket: u64, p: usize, op: &Op) {
        let process = self
            .library
            .process(p)
            .expect("the model says that it lives");
        let interrupt = Interrupt::new();
        let (tell, outcome) = channel();
        let (op, token) = (op.clone(), interrupt.clone());
        let thread = std::thread::spawn(move || {
            let answer = match &op {
                Op::Flock { fd, op } => process.flock_interruptible(*fd, *op, &token),
                Op::SetLock { fd, lock } if lock.ofd => {
                    process.set_ofd_lock(*fd, &lock_spec(lock), Some(&token))
                }
                Op::SetLock { fd, lock } => process.set_lock(*fd, &lock_spec(lock), Some(&token)),
                other => panic!("{other:?} does not wait"),
            };
            // The process may end as soon as it is known that the call has.
            drop(process);
            let done = answer.map_or_else(|errno| Outcome::Error(errno.0), |()| Outcome::Done);
            let _ = tell.send(done);
        });
        let call = Call {
            interrupt,
            outcome,
            thread,
        };
        self.calls.insert(ticket, call);
    }

    fn interrupt(&mut self, ticket: u64) {
        self.calls[&ticket].interrupt.trigger();
    }

    fn answer(&mut self, ticket: u64) -> Option<Outcome> {
        let outcome = self.calls.get(&ticket)?.outcome.recv_timeout(LONG).ok()?;
        let call = self.calls.remove(&ticket)?;
        call.thread.join().expect("it has answered");
        Some(outcome)
    }

    fn waits(&mut self, many: usize, _open: usize) -> bool {
        assert_eq!(self.calls.len(), many, "calls that have not answered");
        let limit = Instant::now() + LONG;
        // Whoever is not in a queue yet will be; whoever is, stays: nobody else does anything.
        while self.library.volume().lock_waiters() != many as u64 {
            if Instant::now() > limit {
                return false;
            }
            std::thread::yield_now();
        }
        self.calls
            .values()
            .all(|call| call.outcome.try_recv().is_err())
    }
}

/// Nobody is left behind by a script that went wrong.
impl Drop for Threads {
    fn drop(&mut self) {
        for (_, call) in std::mem::take(&mut self.calls) {
            call.interrupt.trigger();
            if call.outcome.recv_timeout(LONG).is_ok() {
                let _ = call.thread.join();
            }
        }
    }
}

#[test]
fn requests_that_wait_are_decided_when_the_model_says_so_and_wait_until_then() {
    let sum = RefCell::new(BTreeMap::new());
    let check = |turns: &[Turn]| {
        for (fate, times) in compare_waiting(&mut Threads::new(), turns)? {
            *sum.borrow_mut().entry(fate).or_insert(0) += times;
        }
        Ok(())
    };
    let steps = run_scripts(3000, waiting_script(1..60), check, listing_of_turns);
    let sum = sum.take();
    println!("{steps} steps: {sum:?}");
    for fate in Fate::ALL {
        let times = sum.get(&fate).copied().unwrap_or(0);
        assert!(times >= 5, "{fate:?} only {times} times");
    }
}

#[test]
fn every_script_that_waits_agrees_with_the_library() {
    for (fact, turns) in regressions::waiting() {
        if let Err(difference) = compare_waiting(&mut Threads::new(), &turns) {
            panic!("{fact}: {difference}");
        }
    }
}
