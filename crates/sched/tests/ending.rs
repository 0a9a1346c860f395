//! Shutdown: what becomes of tasks, and where a scheduler may be dropped.

use hearth_sched::{
    Handle, JoinHandle, Limits, Scheduler, Spec, TaskError, Tenant, block_in_place, yield_now,
};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn with_workers(workers: usize) -> Scheduler {
    let scheduler = Scheduler::builder().workers(workers).start();
    scheduler.expect("a few workers are no problem")
}

/// Returns the result of a task that ends soon.
fn join<T: Send + 'static>(handle: JoinHandle<T>) -> Result<T, TaskError> {
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(handle.join()));
    end.recv_timeout(LONG).expect("the task ends")
}

/// Returns a tenant that must wait for its rate limit whatever it does.
fn held_back(scheduler: &Handle) -> Tenant {
    let held = scheduler.tenant(7);
    let limits = Limits {
        ops: Some(1),
        bytes: None,
    };
    scheduler.set_limits(held, limits).expect("it is sound");
    assert_eq!(scheduler.charge(held, 1000, 0), None);
    held
}

#[test]
fn shutdown_cancels_and_drops_the_tasks_that_are_left() {
    let scheduler = with_workers(2);
    let kept = Arc::new(());
    let held = held_back(&scheduler);
    let handles: Vec<_> = (0..100)
        .map(|number| {
            let (kept, handle) = (Arc::clone(&kept), scheduler.handle());
            scheduler.spawn(Spec::default(), async move {
                let _kept = kept;
                match number % 3 {
                    0 if number % 2 == 0 => {
                        let permit = handle.charge(held, 1000, 0);
                        handle
                            .rate_limit(permit.expect("there is a rate limit"))
                            .await;
                    }
                    0 => handle.sleep(LONG * 60).await,
                    1 => loop {
                        yield_now().await;
                    },
                    _ => std::future::pending().await,
                }
            })
        })
        .collect();
    scheduler.shutdown();
    for (number, handle) in handles.into_iter().enumerate() {
        if number % 3 < 2 {
            assert!(
                matches!(join(handle), Err(TaskError::Cancelled)),
                "{number}"
            );
        }
    }
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// Regression: a task whose handle is kept is not cancelled by the drop of its wakers.
#[test]
fn joining_a_task_that_slept_at_shutdown_returns_cancelled() {
    let scheduler = with_workers(0);
    let held = held_back(&scheduler);
    let permit = scheduler.charge(held, 1000, 0);
    let admission = scheduler.rate_limit(permit.expect("there is a rate limit"));
    let sleeper = scheduler.spawn(Spec::default(), scheduler.sleep(LONG * 60));
    let waiting = scheduler.spawn(Spec::default(), admission);
    assert_eq!(scheduler.run_once(), 2);
    scheduler.shutdown();
    for handle in [sleeper, waiting] {
        assert!(matches!(join(handle), Err(TaskError::Cancelled)));
    }
}

/// Regression: each was dropped inside the drop of the one it awaited, on one stack.
#[test]
fn shutdown_ends_a_chain_of_100000_tasks_that_await_one_another() {
    let scheduler = with_workers(0);
    let mut last = scheduler.spawn(Spec::default(), scheduler.sleep(LONG * 60));
    for _ in 0..100_000 {
        let before = last;
        last = scheduler.spawn(Spec::default(), async move {
            let end = before.await;
            assert!(end.is_err(), "nobody wakes the first");
        });
    }
    while scheduler.run_once() > 0 {}
    assert!(!last.is_finished());
    scheduler.shutdown();
    assert!(matches!(join(last), Err(TaskError::Cancelled)));
}

#[test]
fn a_task_that_begins_to_sleep_after_shutdown_is_cancelled() {
    let scheduler = with_workers(1);
    let handle = scheduler.handle();
    let own = handle.clone();
    let task = handle.spawn(Spec::default(), async move {
        drop(scheduler);
        own.sleep(LONG * 60).await;
    });
    assert!(matches!(join(task), Err(TaskError::Cancelled)));
}

/// A future that another executor polls is woken once: woken at each poll it would spin.
#[test]
fn a_sleep_polled_elsewhere_after_shutdown_is_woken_once() {
    #[derive(Default)]
    struct Woken(AtomicUsize);
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let scheduler = with_workers(0);
    let mut sleep = std::pin::pin!(scheduler.sleep(LONG * 60));
    let woken = Arc::new(Woken::default());
    let waker = std::task::Waker::from(Arc::clone(&woken));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    scheduler.shutdown();
    for _ in 0..3 {
        assert!(sleep.as_mut().poll(&mut context).is_pending());
    }
    // Woken by shutdown, and by the first poll after it.
    assert_eq!(woken.0.load(SeqCst), 2);
}

#[test]
fn a_scheduler_may_be_dropped_inside_its_task() {
    let scheduler = with_workers(1);
    let (ended, end) = mpsc::channel();
    let handle = scheduler.handle();
    drop(handle.spawn_fn(Spec::default(), move || {
        drop(scheduler);
        ended.send(()).expect("the test waits");
    }));
    end.recv_timeout(LONG).expect("the task ends");
}

#[test]
fn a_scheduler_may_be_dropped_inside_a_task_that_blocks_or_has_blocked() {
    for drops_while_it_blocks in [true, false] {
        let scheduler = with_workers(1);
        let (ended, end) = mpsc::channel();
        let handle = scheduler.handle();
        drop(handle.spawn_fn(Spec::default(), move || {
            let rest = block_in_place(|| match drops_while_it_blocks {
                true => {
                    drop(scheduler);
                    None
                }
                false => Some(scheduler),
            });
            drop(rest);
            ended.send(()).expect("the test waits");
        }));
        end.recv_timeout(LONG).expect("the task ends");
    }
}

/// The thread runs a queue of another scheduler meanwhile.
#[test]
fn a_scheduler_may_be_dropped_inside_another_that_its_task_runs() {
    let (scheduler, other) = (with_workers(1), with_workers(0));
    let (ended, end) = mpsc::channel();
    let handle = scheduler.handle();
    drop(handle.spawn_fn(Spec::default(), move || {
        drop(other.spawn_fn(Spec::default(), move || drop(scheduler)));
        assert_eq!(other.run_once(), 1);
        ended.send(()).expect("the test waits");
    }));
    end.recv_timeout(LONG).expect("the task ends");
}
