//! Random interleavings of whole schedulers: wake-ups neither lost nor doubled, stealing against
//! drain, blocking, cancelling, ending.
//!
//! Run with `cargo test -p hearth-sched --features shuttle --test shuttle`.
//!
//! The cell of a task (`async-task`) is made of std's atomics, so each of its steps is one here.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize as Plain, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::time::Duration;

use hearth_sched::{
    Clock, Handle, Limits, SchedError, Scheduler, Spec, TaskError, Worker, block_in_place,
    yield_now,
};
use hearth_sync::primitive::atomic::{AtomicBool, AtomicUsize};
use hearth_sync::primitive::{Arc, Condvar, Mutex, thread};
use shuttle::rand::Rng;

/// Runs `test` in `runs` random interleavings.
fn check(runs: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    // The checker runs everything as if sequentially consistent and says so each time.
    config.silence_warnings = true;
    let scheduler = shuttle::scheduler::RandomScheduler::new(runs);
    shuttle::Runner::new(scheduler, config).run(test);
}

fn build(workers: usize, external_workers: usize) -> Scheduler {
    let builder = Scheduler::builder()
        .workers(workers)
        .external_workers(external_workers);
    // Time stands still, so that a run depends on the interleaving alone.
    let scheduler = builder.clock(Clock::manual()).start();
    scheduler.expect("a few workers are no problem")
}

/// A flag that one task waits for and any thread raises.
#[derive(Default)]
struct Flag {
    raised: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Flag {
    async fn wait(&self) {
        poll_fn(|context| {
            *self.waker.lock() = Some(context.waker().clone());
            match self.raised.load(SeqCst) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    fn raise(&self) {
        self.raised.store(true, SeqCst);
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[test]
fn a_wake_up_from_anywhere_is_not_lost() {
    check(2_000, || {
        let scheduler = build(2, 0);
        let flags: Vec<_> = (0..3).map(|_| Arc::new(Flag::default())).collect();
        let tasks: Vec<_> = flags
            .iter()
            .map(|flag| {
                let flag = Arc::clone(flag);
                scheduler.spawn(Spec::default(), async move { flag.wait().await })
            })
            .collect();
        let external_task = Arc::clone(&flags[0]);
        let raiser = thread::spawn(move || external_task.raise());
        let (second, third) = (Arc::clone(&flags[1]), Arc::clone(&flags[2]));
        let inside = scheduler.spawn(Spec::default(), async move {
            second.raise();
            yield_now().await;
            third.raise();
        });
        for task in tasks {
            assert!(task.join().is_ok());
        }
        assert!(inside.join().is_ok());
        raiser.join().expect("the thread ends");
    });
}

#[test]
fn the_only_worker_does_not_sleep_through_a_task() {
    check(2_000, || {
        let scheduler = build(1, 0);
        let done = AtomicBool::new(false);
        for _ in 0..4 {
            // Time enough for the worker to search in vain, or nearly.
            for _ in 0..shuttle::rand::thread_rng().gen_range(0..80) {
                done.store(true, SeqCst);
            }
            assert!(scheduler.spawn_fn(Spec::default(), || ()).join().is_ok());
        }
    });
}

#[test]
fn a_task_never_runs_on_two_workers_and_each_wake_up_gives_one_step_at_most() {
    check(2_000, || {
        let scheduler = build(3, 0);
        let (inside, steps) = (Arc::new(AtomicUsize::new(0)), Arc::new(Plain::new(0)));
        let slot: Arc<Mutex<Option<Waker>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let task = scheduler.spawn(Spec::default(), {
            let (inside, steps) = (Arc::clone(&inside), Arc::clone(&steps));
            let (slot, stop) = (Arc::clone(&slot), Arc::clone(&stop));
            poll_fn(move |context| {
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "it runs twice at a time");
                steps.fetch_add(1, SeqCst);
                *slot.lock() = Some(context.waker().clone());
                let stopped = stop.load(SeqCst);
                assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                if stopped {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
        });
        let wakes = Arc::new(Plain::new(0));
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let (slot, wakes) = (Arc::clone(&slot), Arc::clone(&wakes));
                thread::spawn(move || {
                    for _ in 0..3 {
                        let waker = slot.lock().clone();
                        if let Some(waker) = waker {
                            wakes.fetch_add(1, SeqCst);
                            waker.wake_by_ref();
                        }
                        thread::yield_now();
                    }
                })
            })
            .collect();
        for waker in wakers {
            waker.join().expect("the thread ends");
        }
        stop.store(true, SeqCst);
        let last = slot.lock().clone();
        if let Some(waker) = last {
            wakes.fetch_add(1, SeqCst);
            waker.wake();
        }
        assert!(task.join().is_ok());
        // The first step needs no wake-up.
        assert!(steps.load(SeqCst) <= wakes.load(SeqCst) + 1);
    });
}

#[test]
fn a_drain_beside_thieves_runs_every_task_once() {
    check(2_000, || {
        let scheduler = build(3, 0);
        let ran: Arc<Vec<Plain>> = Arc::new((0..12).map(|_| Plain::new(0)).collect());
        for number in 0..6 {
            let (ran, handle) = (Arc::clone(&ran), scheduler.handle());
            let spec = if number % 2 == 0 {
                Spec::default()
            } else {
                Spec::idle()
            };
            drop(scheduler.spawn(spec, async move {
                let child = Arc::clone(&ran);
                drop(handle.spawn_fn(Spec::default(), move || {
                    child[6 + number].fetch_add(1, SeqCst)
                }));
                yield_now().await;
                ran[number].fetch_add(1, SeqCst);
            }));
        }
        assert!(scheduler.drain(None));
        assert!(ran.iter().all(|ran| ran.load(SeqCst) == 1));
        assert_eq!(scheduler.tasks(), 0);
        scheduler.shutdown();
    });
}

#[test]
fn a_drain_beside_a_pinned_worker_runs_every_task_once() {
    check(2_000, || {
        let clock = Clock::manual();
        let builder = Scheduler::builder().workers(1).external_workers(1);
        let scheduler = builder.clock(clock.clone()).start();
        let scheduler = scheduler.expect("a worker is no problem");
        let mut alone = scheduler
            .pinned_worker(None)
            .expect("the run queue is free");
        let spec = Spec::default().with_key(alone.run_queue() as u64);
        let ran: Arc<Vec<Plain>> = Arc::new((0..8).map(|_| Plain::new(0)).collect());
        for number in 0..8 {
            let ran = Arc::clone(&ran);
            drop(scheduler.spawn(spec, async move {
                yield_now().await;
                ran[number].fetch_add(1, SeqCst);
            }));
        }
        let owner = thread::spawn(move || {
            while !alone.is_stopped() {
                if !alone.tick() {
                    alone.park();
                }
            }
        });
        // It is behind now and then: the stealing worker may take its tasks.
        let behind = thread::spawn(move || {
            for _ in 0..4 {
                clock.advance(Duration::from_millis(2));
                thread::yield_now();
            }
        });
        assert!(scheduler.drain(None));
        assert!(ran.iter().all(|ran| ran.load(SeqCst) == 1));
        behind.join().expect("time ends");
        scheduler.shutdown();
        owner.join().expect("the worker ends");
    });
}

/// Time stands still, so only the change admits them.
#[test]
fn removing_a_rate_limit_admits_current_and_arriving_waiters() {
    check(2_000, || {
        let scheduler = build(1, 1);
        let ci = scheduler.tenant(1);
        let limits = Limits {
            ops: None,
            bytes: Some(1),
        };
        scheduler.set_limits(ci, limits).expect("it is sound");
        // A pinned run queue, like that of a mount's request queue, with nobody to steal from it.
        let mut worker = scheduler.pinned_worker(None).expect("there is a run queue");
        let spec = Spec::of(ci).with_key(worker.run_queue() as u64);
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 {
            let (handle, ended) = (scheduler.handle(), Arc::clone(&ended));
            drop(scheduler.spawn(spec, async move {
                if let Some(permit) = handle.charge(ci, 1, 1 << 20) {
                    handle.rate_limit(permit).await;
                }
                ended.fetch_add(1, SeqCst);
            }));
        }
        let handle = scheduler.handle();
        let lifts = thread::spawn(move || {
            let lifted = handle.set_limits(ci, Limits::default());
            lifted.expect("it is sound");
        });
        while ended.load(SeqCst) < 2 {
            if !worker.tick() {
                worker.park();
            }
        }
        drop(worker);
        lifts.join().expect("the thread ends");
    });
}

#[test]
fn the_end_of_a_scheduler_drops_every_task_whatever_it_does() {
    check(2_000, || {
        let scheduler = build(2, 0);
        let kept = std::sync::Arc::new(());
        let flags: Vec<_> = (0..2).map(|_| Arc::new(Flag::default())).collect();
        let tasks: Vec<_> = (0..4)
            .map(|number| {
                let (kept, flag) = (std::sync::Arc::clone(&kept), Arc::clone(&flags[number / 2]));
                scheduler.spawn(Spec::default(), async move {
                    let _kept = kept;
                    match number % 2 {
                        0 => flag.wait().await,
                        _ => {
                            yield_now().await;
                            yield_now().await;
                        }
                    }
                })
            })
            .collect();
        let raiser = thread::spawn(move || flags.iter().for_each(|flag| flag.raise()));
        scheduler.shutdown();
        raiser.join().expect("the thread ends");
        for task in tasks {
            let end = task.join();
            assert!(matches!(end, Ok(()) | Err(TaskError::Cancelled)));
        }
        assert_eq!(std::sync::Arc::strong_count(&kept), 1);
    });
}

#[test]
fn a_cancel_beside_a_wake_up_ends_the_task() {
    check(2_000, || {
        let scheduler = build(2, 0);
        let flag = Arc::new(Flag::default());
        let task = {
            let flag = Arc::clone(&flag);
            scheduler.spawn(Spec::default(), async move { flag.wait().await })
        };
        let raiser = {
            let flag = Arc::clone(&flag);
            thread::spawn(move || flag.raise())
        };
        let end = scheduler.spawn(Spec::default(), task.cancel()).join();
        assert!(matches!(end, Ok(Ok(()) | Err(TaskError::Cancelled))));
        raiser.join().expect("the thread ends");
        assert!(scheduler.drain(None));
    });
}

#[test]
fn blocked_tasks_hand_their_core_over() {
    check(2_000, || {
        let scheduler = build(1, 0);
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let blocked: Vec<_> = (0..2)
            .map(|_| {
                let gate = Arc::clone(&gate);
                scheduler.spawn(Spec::default(), async move {
                    block_in_place(|| {
                        let mut open = gate.0.lock();
                        while !*open {
                            gate.1.wait(&mut open);
                        }
                    });
                    yield_now().await;
                })
            })
            .collect();
        let opener = scheduler.spawn_fn(Spec::default(), move || {
            *gate.0.lock() = true;
            gate.1.notify_all();
        });
        assert!(opener.join().is_ok());
        for task in blocked {
            assert!(task.join().is_ok());
        }
    });
}

#[test]
fn an_external_worker_blocks_parks_and_gets_its_run_queue_back() {
    check(2_000, || {
        a_worker_blocks(Spec::default(), |handle| handle.worker(None))
    });
}

#[test]
fn a_pinned_worker_blocks_parks_and_gets_its_run_queue_back() {
    let spec = Spec::default().with_key(0);
    check(2_000, move || {
        a_worker_blocks(spec, |handle| handle.pinned_worker(None))
    });
}

/// One run queue with a worker, whose tasks block.
fn a_worker_blocks(spec: Spec, take: fn(&Handle) -> Result<Worker, SchedError>) {
    let scheduler = build(0, 1);
    let handle = scheduler.handle();
    let owner = thread::spawn(move || {
        let mut worker = take(&handle).expect("the run queue is free");
        while !worker.is_stopped() {
            if !worker.tick() {
                worker.park();
            }
        }
    });
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let blocked = {
        let gate = Arc::clone(&gate);
        scheduler.spawn_fn(spec, move || {
            block_in_place(|| {
                let mut open = gate.0.lock();
                while !*open {
                    gate.1.wait(&mut open);
                }
            });
        })
    };
    let opener = scheduler.spawn_fn(spec, move || {
        *gate.0.lock() = true;
        gate.1.notify_all();
    });
    assert!(opener.join().is_ok() && blocked.join().is_ok());
    assert!(scheduler.spawn_fn(spec, || 1).join().is_ok());
    scheduler.shutdown();
    owner.join().expect("the worker ends");
}
