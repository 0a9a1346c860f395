//! Every interleaving (up to a bound on forced switches) of sleeping against waking.
//!
//! Run with `cargo test -p hearth-sched --features loom --test loom`.
//!
//! A wake-up that is lost leaves every thread asleep, which loom reports as a deadlock.

use std::sync::atomic::{AtomicUsize as PlainUsize, Ordering::SeqCst};
use std::sync::{Arc as PlainArc, LazyLock};

use hearth_sched::runtime::{BEHIND, Runtime, WorkerMode};
use hearth_sched::{Class, Job, Weights};
use hearth_sync::primitive::{Arc, thread};

struct Task {
    number: usize,
    is_affine: bool,
}

impl Job for Task {
    fn class(&self) -> Class {
        Class::Normal
    }
    fn tenant(&self) -> usize {
        0
    }
    fn is_affine(&self) -> bool {
        self.is_affine
    }
}

struct Even;

impl Weights for Even {
    fn weight(&self, _tenant: usize) -> u32 {
        100
    }
}

/// Runs `test` in every interleaving with at most `switches` forced switches.
fn check(switches: usize, test: impl Fn() + Sync + Send + 'static) {
    static SWITCHES: LazyLock<Option<usize>> =
        LazyLock::new(|| std::env::var("LOOM_SWITCHES").ok()?.parse().ok());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(SWITCHES.unwrap_or(switches));
    builder.max_branches = 20_000;
    let runs = PlainArc::new(PlainUsize::new(0));
    let counter = PlainArc::clone(&runs);
    builder.check(move || {
        counter.fetch_add(1, SeqCst);
        test();
    });
    println!("{} runs", runs.load(SeqCst));
}

/// A runtime whose tasks are counted, outside what the model sees.
struct Harness {
    runtime: Runtime<Task, Even>,
    /// How often each task ran.
    ran: Vec<PlainUsize>,
    left: PlainUsize,
}

impl Harness {
    fn new(run_queues: usize, tasks: usize) -> Arc<Harness> {
        Arc::new(Harness {
            runtime: Runtime::new(run_queues, Even),
            ran: (0..tasks).map(|_| PlainUsize::new(0)).collect(),
            left: PlainUsize::new(tasks),
        })
    }

    /// Runs a queue until every task has run, and steals from others.
    fn run_until_done(&self, run_queue: usize) {
        self.run_until_done_as(run_queue, WorkerMode::Stealing);
    }

    fn run_until_done_as(&self, run_queue: usize, mode: WorkerMode) {
        let runtime = &self.runtime;
        let mut owner = runtime
            .acquire(run_queue, mode)
            .expect("nobody else drives it");
        let mut now = 1;
        while !runtime.is_stopped() {
            if let Some(task) = runtime.switch(&mut owner, None, now) {
                self.ran[task.number].fetch_add(1, SeqCst);
                if self.left.fetch_sub(1, SeqCst) == 1 {
                    runtime.stop();
                }
            } else if !runtime.search(&mut owner, now) {
                runtime.sleep(&mut owner, now, |limit| match limit {
                    // Time passes at once.
                    Some(limit) => now += limit.as_nanos() as u64,
                    None => runtime.run_queues()[run_queue].parker().park(None),
                });
            }
        }
        runtime.leave(&mut owner, now);
    }

    fn send(&self, to: usize, number: usize) {
        let task = Task {
            number,
            is_affine: false,
        };
        assert!(self.runtime.send(to, task, 1).is_ok());
    }

    fn check(&self) {
        assert!(self.ran.iter().all(|ran| ran.load(SeqCst) == 1));
    }
}

fn spawn(harness: &Arc<Harness>, run: impl FnOnce(&Harness) + 'static) -> thread::JoinHandle<()> {
    let harness = Arc::clone(harness);
    thread::spawn(move || run(&harness))
}

#[test]
fn a_task_sent_to_a_worker_that_falls_asleep_runs() {
    check(3, || {
        let harness = Harness::new(1, 1);
        let owner = spawn(&harness, |harness| harness.run_until_done(0));
        harness.send(0, 0);
        owner.join().expect("the owner ends");
        harness.check();
    });
}

#[test]
fn two_senders_wake_one_worker() {
    check(1, || {
        let harness = Harness::new(1, 2);
        let owner = spawn(&harness, |harness| harness.run_until_done(0));
        let sender = spawn(&harness, |harness| harness.send(0, 1));
        harness.send(0, 0);
        sender.join().expect("the sender ends");
        owner.join().expect("the owner ends");
        harness.check();
    });
}

#[test]
fn a_task_at_a_busy_core_is_stolen_by_a_worker_that_falls_asleep() {
    check(3, || {
        let harness = Harness::new(2, 1);
        // An owner that never comes back to its run queue.
        let busy = harness.runtime.acquire(0, WorkerMode::Stealing);
        let owner = spawn(&harness, |harness| harness.run_until_done(1));
        harness.send(0, 0);
        owner.join().expect("the owner ends");
        harness.check();
        assert!(busy.is_some());
    });
}

#[test]
fn a_task_with_affinity_is_stolen_when_its_core_is_behind() {
    check(2, || {
        let harness = Harness::new(2, 1);
        let mut busy = harness
            .runtime
            .acquire(0, WorkerMode::Stealing)
            .expect("nobody drives it");
        assert!(harness.runtime.switch(&mut busy, None, 1).is_none());
        let owner = spawn(&harness, |harness| harness.run_until_done(1));
        let task = Task {
            number: 0,
            is_affine: true,
        };
        assert!(harness.runtime.send(0, task, 1).is_ok());
        owner.join().expect("the owner ends");
        harness.check();
        assert!(BEHIND.as_nanos() > 1);
    });
}

#[test]
fn a_push_by_the_owner_wakes_a_sleeping_thief() {
    check(3, || {
        let harness = Harness::new(2, 1);
        let busy = harness.runtime.acquire(0, WorkerMode::Stealing);
        let owner = spawn(&harness, |harness| harness.run_until_done(1));
        let task = Task {
            number: 0,
            is_affine: false,
        };
        assert!(harness.runtime.push(0, task, 1).is_ok());
        owner.join().expect("the owner ends");
        harness.check();
        assert!(busy.is_some());
    });
}

#[test]
fn one_of_two_workers_that_fall_asleep_takes_the_task() {
    check(1, || {
        let harness = Harness::new(2, 1);
        let owners = [0, 1]
            .map(|run_queue| spawn(&harness, move |harness| harness.run_until_done(run_queue)));
        harness.send(0, 0);
        for owner in owners {
            owner.join().expect("the owner ends");
        }
        harness.check();
    });
}

#[test]
fn a_task_sent_to_a_pinned_worker_that_falls_asleep_runs() {
    check(3, || {
        let harness = Harness::new(1, 1);
        let owner = spawn(&harness, |harness| {
            harness.run_until_done_as(0, WorkerMode::Pinned)
        });
        harness.send(0, 0);
        owner.join().expect("the owner ends");
        harness.check();
    });
}

#[test]
fn a_pinned_worker_is_not_woken_in_place_of_a_stealing_one() {
    check(2, || {
        let harness = Harness::new(3, 1);
        let alone = spawn(&harness, |harness| {
            harness.run_until_done_as(0, WorkerMode::Pinned)
        });
        let helper = spawn(&harness, |harness| harness.run_until_done(1));
        // No thread owns this one.
        harness.send(2, 0);
        for owner in [alone, helper] {
            owner.join().expect("the owner ends");
        }
        harness.check();
    });
}

#[test]
fn a_task_with_affinity_runs_at_its_pinned_worker_or_at_a_stealing_one() {
    check(1, || {
        let harness = Harness::new(2, 1);
        let alone = spawn(&harness, |harness| {
            harness.run_until_done_as(0, WorkerMode::Pinned)
        });
        let helper = spawn(&harness, |harness| harness.run_until_done(1));
        let task = Task {
            number: 0,
            is_affine: true,
        };
        assert!(harness.runtime.send(0, task, 1).is_ok());
        for owner in [alone, helper] {
            owner.join().expect("the owner ends");
        }
        harness.check();
    });
}
