//! Every interleaving (up to a bound on forced switches) of sleeping against waking.
//!
//! Run with `cargo test -p hearth-sched --features loom --test loom`.
//!
//! A wake-up that is lost leaves every thread asleep, which loom reports as a deadlock.

use std::sync::atomic::{AtomicUsize as PlainUsize, Ordering::SeqCst};
use std::sync::{Arc as PlainArc, LazyLock};

use hearth_sched::fleet::{BEHIND, Fleet, Manner};
use hearth_sched::{Class, Job, Weights};
use hearth_sync::primitive::{Arc, thread};

struct Task {
    number: usize,
    stays: bool,
}

impl Job for Task {
    fn class(&self) -> Class {
        Class::Normal
    }
    fn tenant(&self) -> usize {
        0
    }
    fn stays(&self) -> bool {
        self.stays
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

/// A fleet whose tasks are counted, outside of what the model sees.
struct World {
    fleet: Fleet<Task, Even>,
    /// How often each task ran.
    ran: Vec<PlainUsize>,
    left: PlainUsize,
}

impl World {
    fn new(stations: usize, tasks: usize) -> Arc<World> {
        Arc::new(World {
            fleet: Fleet::new(stations, Even),
            ran: (0..tasks).map(|_| PlainUsize::new(0)).collect(),
            left: PlainUsize::new(tasks),
        })
    }

    /// Drives a station until every task has run, and helps where there are others.
    fn drive(&self, station: usize) {
        self.drive_by(station, Manner::Helping);
    }

    fn drive_by(&self, station: usize, manner: Manner) {
        let fleet = &self.fleet;
        let mut driver = fleet.drive(station, manner).expect("nobody else drives it");
        let mut now = 1;
        while !fleet.is_stopped() {
            if let Some(task) = fleet.switch(&mut driver, None, now) {
                self.ran[task.number].fetch_add(1, SeqCst);
                if self.left.fetch_sub(1, SeqCst) == 1 {
                    fleet.stop();
                }
            } else if !fleet.search(&mut driver, now) {
                fleet.sleep(&mut driver, now, |limit| match limit {
                    // Time passes at once.
                    Some(limit) => now += limit.as_nanos() as u64,
                    None => fleet.stations()[station].parker().park(None),
                });
            }
        }
        fleet.leave(&mut driver, now);
    }

    fn send(&self, to: usize, number: usize) {
        let task = Task {
            number,
            stays: false,
        };
        assert!(self.fleet.send(to, task, 1).is_ok());
    }

    fn check(&self) {
        assert!(self.ran.iter().all(|ran| ran.load(SeqCst) == 1));
    }
}

fn spawn(world: &Arc<World>, run: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || run(&world))
}

#[test]
fn a_task_that_is_sent_to_a_worker_that_falls_asleep_runs() {
    check(3, || {
        let world = World::new(1, 1);
        let driver = spawn(&world, |world| world.drive(0));
        world.send(0, 0);
        driver.join().expect("the driver ends");
        world.check();
    });
}

#[test]
fn two_senders_wake_one_worker() {
    check(1, || {
        let world = World::new(1, 2);
        let driver = spawn(&world, |world| world.drive(0));
        let sender = spawn(&world, |world| world.send(0, 1));
        world.send(0, 0);
        sender.join().expect("the sender ends");
        driver.join().expect("the driver ends");
        world.check();
    });
}

#[test]
fn a_task_at_a_core_that_is_kept_busy_is_found_by_one_that_falls_asleep() {
    check(3, || {
        let world = World::new(2, 1);
        // A driver that never comes back to its station.
        let busy = world.fleet.drive(0, Manner::Helping);
        let driver = spawn(&world, |world| world.drive(1));
        world.send(0, 0);
        driver.join().expect("the driver ends");
        world.check();
        assert!(busy.is_some());
    });
}

#[test]
fn a_task_that_stays_is_taken_when_its_core_is_behind() {
    check(2, || {
        let world = World::new(2, 1);
        let mut busy = world
            .fleet
            .drive(0, Manner::Helping)
            .expect("nobody drives it");
        assert!(world.fleet.switch(&mut busy, None, 1).is_none());
        let driver = spawn(&world, |world| world.drive(1));
        let task = Task {
            number: 0,
            stays: true,
        };
        assert!(world.fleet.send(0, task, 1).is_ok());
        driver.join().expect("the driver ends");
        world.check();
        assert!(BEHIND.as_nanos() > 1);
    });
}

#[test]
fn a_push_of_the_own_driver_wakes_a_sleeper() {
    check(3, || {
        let world = World::new(2, 1);
        let busy = world.fleet.drive(0, Manner::Helping);
        let driver = spawn(&world, |world| world.drive(1));
        let task = Task {
            number: 0,
            stays: false,
        };
        assert!(world.fleet.push(0, task, 1).is_ok());
        driver.join().expect("the driver ends");
        world.check();
        assert!(busy.is_some());
    });
}

#[test]
fn of_two_workers_that_fall_asleep_one_takes_the_task() {
    check(1, || {
        let world = World::new(2, 1);
        let drivers = [0, 1].map(|station| spawn(&world, move |world| world.drive(station)));
        world.send(0, 0);
        for driver in drivers {
            driver.join().expect("the driver ends");
        }
        world.check();
    });
}

#[test]
fn a_task_that_is_sent_to_a_worker_alone_that_falls_asleep_runs() {
    check(3, || {
        let world = World::new(1, 1);
        let driver = spawn(&world, |world| world.drive_by(0, Manner::Alone));
        world.send(0, 0);
        driver.join().expect("the driver ends");
        world.check();
    });
}

#[test]
fn a_worker_alone_is_not_woken_in_the_place_of_one_that_helps() {
    check(2, || {
        let world = World::new(3, 1);
        let alone = spawn(&world, |world| world.drive_by(0, Manner::Alone));
        let helper = spawn(&world, |world| world.drive(1));
        // Nobody drives this one.
        world.send(2, 0);
        for driver in [alone, helper] {
            driver.join().expect("the driver ends");
        }
        world.check();
    });
}

#[test]
fn a_task_that_stays_runs_at_its_worker_alone_or_at_one_that_helps() {
    check(1, || {
        let world = World::new(2, 1);
        let alone = spawn(&world, |world| world.drive_by(0, Manner::Alone));
        let helper = spawn(&world, |world| world.drive(1));
        let task = Task {
            number: 0,
            stays: true,
        };
        assert!(world.fleet.send(0, task, 1).is_ok());
        for driver in [alone, helper] {
            driver.join().expect("the driver ends");
        }
        world.check();
    });
}
