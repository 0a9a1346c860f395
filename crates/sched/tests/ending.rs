//! What becomes of tasks when their scheduler ends, and where it may end.

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

/// What a task gave, which ends soon.
fn join<T: Send + 'static>(handle: JoinHandle<T>) -> Result<T, TaskError> {
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(handle.join()));
    end.recv_timeout(LONG).expect("the task ends")
}

/// A tenant that waits for its rate limit whatever it does.
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
fn what_is_left_at_the_end_is_cancelled_and_dropped() {
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
                        handle.rate_limit(permit.expect("there is a ceiling")).await;
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

/// A task whose handle is kept is not cancelled by the drop of its wakers.
#[test]
fn who_joins_a_task_that_slept_at_the_end_is_told_that_it_was_cancelled() {
    let scheduler = with_workers(0);
    let held = held_back(&scheduler);
    let permit = scheduler.charge(held, 1000, 0);
    let turn = scheduler.rate_limit(permit.expect("there is a ceiling"));
    let sleeper = scheduler.spawn(Spec::default(), scheduler.sleep(LONG * 60));
    let waiting = scheduler.spawn(Spec::default(), turn);
    assert_eq!(scheduler.run_once(), 2);
    scheduler.shutdown();
    for handle in [sleeper, waiting] {
        assert!(matches!(join(handle), Err(TaskError::Cancelled)));
    }
}

/// Each ended inside of the end of the one that it awaited, on one stack.
#[test]
fn a_chain_of_tasks_that_await_one_another_ends_however_long_it_is() {
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
fn a_task_that_begins_to_sleep_after_the_end_is_cancelled() {
    let scheduler = with_workers(1);
    let handle = scheduler.handle();
    let own = handle.clone();
    let task = handle.spawn(Spec::default(), async move {
        drop(scheduler);
        own.sleep(LONG * 60).await;
    });
    assert!(matches!(join(task), Err(TaskError::Cancelled)));
}

/// A future that somebody else drives is woken once: were it woken at each poll, it would spin.
#[test]
fn who_sleeps_outside_of_a_scheduler_that_has_ended_is_woken_once() {
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
    // By the end, and by the first look after it.
    assert_eq!(woken.0.load(SeqCst), 2);
}

#[test]
fn a_scheduler_may_end_inside_of_a_task() {
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
fn a_scheduler_may_end_inside_of_a_task_that_blocks_or_has_blocked() {
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

/// The same where the thread drives another scheduler's run queue meanwhile.
#[test]
fn a_scheduler_may_end_inside_of_another_that_its_task_drives() {
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
