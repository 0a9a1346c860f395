//! Tasks from spawn to end: results, panics, cancelling, blocking, draining.

use hearth_sched::{
    Class, Handle, SchedError, Scheduler, Spec, TaskError, block_in_place, yield_now,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn with_workers(workers: usize) -> Scheduler {
    let scheduler = Scheduler::builder().workers(workers).start();
    scheduler.expect("a few workers are no problem")
}

/// Runs everything on this thread until nothing is runnable.
fn run_all(handle: &Handle) -> usize {
    std::iter::repeat_with(|| handle.run_once())
        .take_while(|&ran| ran > 0)
        .sum()
}

#[test]
fn a_task_gives_its_value_and_may_wait_for_others() {
    let scheduler = with_workers(2);
    let handle = scheduler.handle();
    let sum = scheduler.spawn(Spec::default(), async move {
        let parts: Vec<_> = (0..100u64)
            .map(|part| {
                handle.spawn(Spec::default(), async move {
                    yield_now().await;
                    part
                })
            })
            .collect();
        let mut sum = 0;
        for part in parts {
            sum += part.await.expect("the part ends");
        }
        sum
    });
    assert_eq!(sum.join().expect("the task ends"), 4950);
    assert_eq!(scheduler.tasks(), 0);
}

#[test]
fn a_panic_ends_its_task_and_nothing_else() {
    let scheduler = with_workers(1);
    for round in 0..10 {
        let task = scheduler.spawn_fn(Spec::default(), move || {
            if round >= 0 {
                panic!("round {round}");
            }
        });
        let error = task.join().expect_err("it panicked");
        assert_eq!(error.message(), Some(&*format!("round {round}")));
    }
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    let bomb = Bomb;
    let task = scheduler.spawn(Spec::default(), async move {
        let _bomb = bomb;
        yield_now().await;
        5
    });
    assert!(matches!(task.join(), Err(TaskError::Panicked(_))));
    // A value that nobody waits for may panic when it is dropped.
    drop(scheduler.spawn_fn(Spec::default(), || Bomb));
    let after = scheduler.spawn_fn(Spec::default(), || 7).join();
    assert_eq!(after.expect("the worker is well"), 7);
    assert_eq!(scheduler.stats().panics, 11);
    assert!(scheduler.drain(Some(LONG)));
}

#[test]
fn a_cancelled_task_ends_and_drops_what_it_has() {
    let scheduler = with_workers(2);
    let kept = Arc::new(());
    let (begun, begin) = mpsc::channel();
    let task = scheduler.spawn(Spec::default(), {
        let kept = Arc::clone(&kept);
        async move {
            let _kept = kept;
            begun.send(()).expect("the test waits");
            std::future::pending::<()>().await;
        }
    });
    begin.recv().expect("the task begins");
    let end = scheduler.spawn(Spec::default(), task.cancel()).join();
    assert!(matches!(end, Ok(Err(TaskError::Cancelled))));
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(scheduler.tasks(), 0);
}

#[test]
fn realtime_runs_before_normal_and_normal_before_idle() {
    let scheduler = with_workers(0);
    let order = Arc::new(Mutex::new(Vec::new()));
    for class in [
        Class::Idle,
        Class::Normal,
        Class::Realtime,
        Class::Normal,
        Class::Idle,
    ] {
        let order = Arc::clone(&order);
        let spec = Spec {
            class,
            ..Spec::default()
        };
        drop(scheduler.spawn_fn(spec, move || order.lock().unwrap().push(class)));
    }
    assert_eq!(scheduler.run_once(), 5);
    let order = order.lock().unwrap();
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn without_workers_nothing_runs_by_itself() {
    let scheduler = with_workers(0);
    let ran = Arc::new(AtomicUsize::new(0));
    for spec in [Spec::default(), Spec::idle(), Spec::idle()] {
        let ran = Arc::clone(&ran);
        drop(scheduler.spawn(spec, async move {
            for _ in 0..3 {
                ran.fetch_add(1, SeqCst);
                yield_now().await;
            }
        }));
    }
    assert_eq!(ran.load(SeqCst), 0);
    // Each task takes one step; first background work alone, then everything.
    assert_eq!(scheduler.run_background_once(Duration::from_secs(1)), 2);
    assert_eq!(ran.load(SeqCst), 2);
    assert_eq!(scheduler.run_background_once(Duration::ZERO), 0);
    assert_eq!(scheduler.run_once(), 3);
    assert_eq!(ran.load(SeqCst), 5);
    run_all(&scheduler);
    assert_eq!((ran.load(SeqCst), scheduler.tasks()), (9, 0));
    assert_eq!(scheduler.run_once(), 0);
}

#[test]
fn a_task_that_blocks_does_not_block_its_core() {
    let scheduler = with_workers(1);
    let (open, gate) = mpsc::channel::<()>();
    let (begun, begin) = mpsc::channel();
    let blocked = scheduler.spawn(Spec::default(), async move {
        block_in_place(|| {
            begun.send(()).expect("the test waits");
            gate.recv().expect("the test opens the gate");
        });
        yield_now().await;
        "done"
    });
    begin.recv().expect("the task begins");
    // A substitute runs the only queue.
    let other = scheduler.spawn_fn(Spec::default(), || 3);
    assert_eq!(other.join().expect("it runs"), 3);
    assert!(!blocked.is_finished());
    open.send(()).expect("the task waits");
    assert_eq!(blocked.join().expect("it goes on"), "done");
}

#[test]
fn the_thread_start_hook_runs_on_the_starting_and_on_the_new_thread() {
    thread_local! {
        static BEGUN: Cell<u32> = const { Cell::new(0) };
    }
    let scheduler = with_workers(1);
    scheduler.on_thread_start(|| BEGUN.set(BEGUN.get() + 1));
    scheduler.on_thread_start(|| panic!("only the first counts"));
    let (open, gate) = mpsc::channel();
    let starts = scheduler.spawn_fn(Spec::default(), move || {
        // The worker may have begun before the hook was set.
        let before = BEGUN.get();
        block_in_place(|| gate.recv().expect("the other task opens the gate"));
        BEGUN.get() - before
    });
    // By a substitute.
    let begins = scheduler.spawn_fn(Spec::default(), move || {
        open.send(()).expect("the first task waits");
        BEGUN.get()
    });
    assert_eq!(begins.join().expect("it runs"), 1);
    assert_eq!(starts.join().expect("it goes on"), 1);
}

#[test]
fn many_tasks_may_block_at_once() {
    let scheduler = with_workers(2);
    let barrier = Arc::new(std::sync::Barrier::new(20));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            scheduler.spawn_fn(Spec::default(), move || {
                block_in_place(|| barrier.wait().is_leader())
            })
        })
        .collect();
    let leaders = tasks
        .into_iter()
        .filter(|_| true)
        .map(|task| task.join().expect("it ends"));
    assert_eq!(leaders.filter(|&leader| leader).count(), 1);
}

#[test]
fn block_in_place_outside_of_a_task_just_calls() {
    assert_eq!(block_in_place(|| 5), 5);
}

#[test]
fn a_drain_waits_for_tasks_and_for_those_that_they_spawn() {
    for workers in [0, 1, 3] {
        let scheduler = with_workers(workers);
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..50 {
            let (count, handle) = (Arc::clone(&count), scheduler.handle());
            drop(scheduler.spawn(Spec::default(), async move {
                yield_now().await;
                let count2 = Arc::clone(&count);
                drop(handle.spawn(Spec::idle(), async move {
                    yield_now().await;
                    count2.fetch_add(1, SeqCst);
                }));
                handle.sleep(Duration::from_millis(2)).await;
                count.fetch_add(1, SeqCst);
            }));
        }
        assert!(scheduler.drain(Some(LONG)), "{workers} workers");
        assert_eq!(count.load(SeqCst), 100);
        let late = scheduler.spawn_fn(Spec::default(), || ());
        assert!(matches!(late.join(), Err(TaskError::Cancelled)));
    }
}

#[test]
fn a_drain_ends_at_its_time_limit() {
    let scheduler = with_workers(1);
    drop(scheduler.spawn(Spec::default(), std::future::pending::<()>()));
    assert!(!scheduler.drain(Some(Duration::from_millis(20))));
    assert_eq!(scheduler.tasks(), 1);
}

#[test]
fn tasks_woken_from_other_threads_run_once_per_wake_up() {
    let scheduler = with_workers(2);
    let (wakers, woken) = mpsc::channel::<std::task::Waker>();
    let waking = std::thread::spawn(move || woken.into_iter().for_each(std::task::Waker::wake));
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let wakers = wakers.clone();
            scheduler.spawn(Spec::default(), async move {
                for _ in 0..200 {
                    let woken = AtomicBool::new(false);
                    std::future::poll_fn(|context| {
                        if woken.swap(true, SeqCst) {
                            return std::task::Poll::Ready(());
                        }
                        wakers
                            .send(context.waker().clone())
                            .expect("the thread listens");
                        std::task::Poll::Pending
                    })
                    .await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.join().expect("no wake-up is lost");
    }
    drop(wakers);
    waking.join().expect("the waking thread ends");
}

#[test]
fn too_many_workers_are_refused_with_a_remedy() {
    for (workers, external_workers) in [(1025, 0), (0, 1025), (usize::MAX, 1)] {
        let error = Scheduler::builder()
            .workers(workers)
            .external_workers(external_workers)
            .start()
            .unwrap_err();
        assert!(matches!(error, SchedError::Workers { .. }));
        assert!(error.to_string().contains("at most 1,024"), "{error}");
    }
}
