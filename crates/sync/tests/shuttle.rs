//! Random interleavings of more tasks and longer runs than loom can explore.
//!
//! Run with `cargo test -p hearth-sync --features shuttle --test shuttle`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64 as Plain, Ordering::SeqCst};

use hearth_sync::epoch;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::object::{ObjRef, PerCpuRwLock, Table};
use hearth_sync::percpu::PerCpuCounters;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use hearth_sync::primitive::{Arc, Condvar, Mutex, OnceLock, core, cores, thread};
use hearth_sync::rcu::RcuSlot;
use shuttle::rand::Rng;

/// Runs `test` in `runs` random interleavings.
fn check(runs: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    // The checker runs everything sequentially consistent and warns about it each time.
    config.silence_warnings = true;
    let scheduler = shuttle::scheduler::RandomScheduler::new(runs);
    shuttle::Runner::new(scheduler, config).run(test);
}

/// Runs `task` on `tasks` tasks and waits for all.
fn together(tasks: u64, task: impl Fn(u64) + Send + Sync + 'static) {
    let task = Arc::new(task);
    let tasks: Vec<_> = (0..tasks)
        .map(|number| {
            let task = Arc::clone(&task);
            thread::spawn(move || task(number))
        })
        .collect();
    for task in tasks {
        task.join().expect("no task panics");
    }
}

lock_class! {
    Low = "low", 1;
    High = "high", 2;
    Guarded = "guarded", 3;
}

#[test]
fn tasks_stand_for_different_cores() {
    check(20, || {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&seen);
        together(4, move |_| all.lock().push(core()));
        let mut seen = seen.lock().clone();
        seen.sort_unstable();
        assert_eq!(seen, (0..cores()).collect::<Vec<_>>());
    });
}

#[test]
fn the_lock_order_is_kept_per_task() {
    check(200, || {
        let locks = Arc::new((Lock::<Low, ()>::new(()), Lock::<High, ()>::new(())));
        together(3, move |task| {
            if task == 0 {
                let _high = locks.1.lock();
                thread::yield_now();
            } else {
                let _low = locks.0.lock();
                thread::yield_now();
                drop(locks.1.lock());
            }
        });
    });
}

#[test]
fn a_value_is_computed_once_and_a_condition_wakes_its_waiters() {
    check(300, || {
        let once = Arc::new((OnceLock::new(), AtomicU64::new(0)));
        let ready = Arc::new((Mutex::new(0), Condvar::new()));
        together(4, move |task| {
            let value = *once.0.get_or_init(|| {
                thread::yield_now();
                once.1.fetch_add(1, Ordering::SeqCst)
            });
            assert_eq!(value, 0);
            let (arrived, all_here) = &*ready;
            let mut arrived = arrived.lock();
            *arrived += 1;
            if task == 0 {
                while *arrived < 4 {
                    all_here.wait(&mut arrived);
                }
            } else {
                all_here.notify_all();
            }
        });
    });
}

#[test]
fn percpu_counters_sum_what_every_task_adds() {
    check(500, || {
        let counters = Arc::new(PerCpuCounters::<2>::new());
        let sum = Arc::clone(&counters);
        together(6, move |task| {
            for _ in 0..3 {
                counters.add(0, 1);
                counters.raise(1, task);
            }
        });
        assert_eq!((sum.sum(0), sum.max(1)), (18, 5));
    });
}

#[test]
fn a_moving_value_is_never_seen_after_its_drop() {
    struct Spoilt(u64);
    impl Drop for Spoilt {
        fn drop(&mut self) {
            self.0 = u64::MAX;
        }
    }
    check(500, || {
        let slots = Arc::new([const { RcuSlot::<Spoilt>::empty() }; 3]);
        together(4, move |task| {
            for round in 0..4 {
                let g = epoch::pin();
                let at = shuttle::rand::thread_rng().gen_range(0..3);
                match task {
                    0 => slots[at].store(Some(Box::new(Spoilt(round))), &g),
                    1 => slots[at].move_to(&slots[(at + 1) % 3], &g),
                    _ => {
                        if let Some(value) = slots[at].load(&g) {
                            thread::yield_now();
                            assert_ne!(value.0, u64::MAX);
                        }
                    }
                }
            }
        });
    });
}

/// An object that counts how many of its kind exist and is invalidated when dropped.
struct Counted {
    number: u64,
    alive: Arc<Plain>,
}

impl Counted {
    fn new(number: u64, alive: &Arc<Plain>) -> Counted {
        alive.fetch_add(1, SeqCst);
        Counted {
            number,
            alive: Arc::clone(alive),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.number = u64::MAX;
        self.alive.fetch_sub(1, SeqCst);
    }
}

#[test]
fn objects_live_while_referenced_and_are_dropped_once_retired() {
    check(1_000, || {
        let alive = Arc::new(Plain::new(0));
        let shared = Arc::new((Table::<Counted>::new(4), Arc::clone(&alive)));
        let table = Arc::clone(&shared);
        together(4, move |_| churn(&table.0, &table.1));
        let g = epoch::pin();
        let mut left = 0;
        shared.0.scan(0, &g, |object| {
            assert!(shared.0.retire(object, &g), "nobody holds it");
            left += 1;
            true
        });
        drop(g);
        assert_eq!(
            (shared.0.len(), alive.load(SeqCst)),
            (0, 0),
            "{left} were left at the end"
        );
    });
}

/// Random operations on four fixed numbers and on new ones.
fn churn(table: &Table<Counted>, alive: &Arc<Plain>) {
    let mut mine: Vec<ObjRef<Counted>> = Vec::new();
    for _ in 0..6 {
        let number = shuttle::rand::thread_rng().gen_range(0..4);
        let g = epoch::pin();
        match shuttle::rand::thread_rng().gen_range(0..6) {
            0 => mine.push(table.insert(|number, _| Counted::new(number, alive))),
            1 => {
                let restored = table.restore(number, 1, |number, _, _| Counted::new(number, alive));
                mine.extend(restored.map(|(held, _)| held));
            }
            2 => mine.extend(table.hold(number, &g)),
            3 => {
                let clone = mine.last().cloned();
                mine.extend(clone);
            }
            4 => drop(mine.pop()),
            _ => {
                table.get(number, &g).map(|object| table.evict(object, &g));
            }
        }
        drop(g);
        for held in &mine {
            assert_eq!(held.number, held.number(), "it ended under a reference");
            assert!(!held.is_dead());
        }
    }
}

/// Numbers move from core to core through the pool, and tables grow for the new ones meanwhile.
#[test]
fn a_number_has_one_owner_at_a_time_and_a_new_generation_each_time() {
    check(500, || {
        let table = Arc::new(Table::<u64>::new(1));
        // The owned numbers, and the last generation of each number. Not part of the schedule.
        let books = std::sync::Mutex::new((BTreeSet::new(), BTreeMap::new()));
        together(3, move |task| {
            let mut mine = Vec::new();
            for round in 0..40_u64 {
                // Each task takes more than it gives for a while, then the other way round.
                let takes = (round + 7 * task) / 20 % 2 == 0;
                if takes {
                    let (number, generation) = table.reserve();
                    let mut books = books.lock().unwrap();
                    assert!(
                        number >= 1 && books.0.insert(number),
                        "{number} has an owner"
                    );
                    let last = books.1.insert(number, generation);
                    assert_eq!(generation, last.unwrap_or(0) + 1, "{number}");
                    mine.push((number, generation));
                } else if let Some((number, generation)) = mine.pop() {
                    books.lock().unwrap().0.remove(&number);
                    table.release(number, generation);
                }
            }
            let held = table.insert(|number, _| number);
            assert_eq!(**held, held.number());
        });
    });
}

#[test]
fn a_percpu_rwlock_writer_excludes_many_readers() {
    check(1_000, || {
        let inside = Arc::new(Plain::new(0));
        let table = Table::new(0);
        let held = table.insert(|_, _| PerCpuRwLock::<Guarded>::new());
        let rwlock = held.clone();
        together(4, move |task| {
            for _ in 0..2 {
                if task == 0 {
                    let _writing = rwlock.write(rwlock.percpu());
                    assert_eq!(inside.load(SeqCst), 0);
                    thread::yield_now();
                    assert_eq!(inside.load(SeqCst), 0);
                } else {
                    let _reading = rwlock.read(rwlock.percpu());
                    inside.fetch_add(1, SeqCst);
                    thread::yield_now();
                    inside.fetch_sub(1, SeqCst);
                }
            }
        });
    });
}
