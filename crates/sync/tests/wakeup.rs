//! Threads that sleep for a lock are woken, each time. A model checker does not sleep, so this test
//! uses real threads: a thread that loses its wake-up sleeps for good.
#![cfg(not(any(feature = "loom", feature = "shuttle")))]

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{sleep, spawn};
use std::time::Duration;

lock_class!(Handed = "test.handed", 1);

const THREADS: usize = 6;
const ROUNDS: usize = 1_500;

#[test]
fn every_thread_that_sleeps_for_a_lock_is_woken() {
    let lock = Arc::new(Lock::<Handed, usize>::new(0));
    let (tell, told) = channel();
    for thread in 0..THREADS {
        let (lock, tell) = (lock.clone(), tell.clone());
        spawn(move || {
            for round in 0..ROUNDS {
                let mut rounds = lock.lock();
                *rounds += 1;
                // Some holds are so long that waiters go to sleep, others end while a waiter is
                // about to sleep or to wake up.
                if (thread + round) % 3 == 0 {
                    sleep(Duration::from_micros(20));
                }
            }
            tell.send(()).expect("somebody waits for this");
        });
    }
    for _ in 0..THREADS {
        let ended = told.recv_timeout(Duration::from_secs(120));
        assert!(
            ended.is_ok(),
            "after {:?} rounds all sleep",
            lock.try_lock().map(|n| *n)
        );
    }
    assert_eq!(*lock.lock(), THREADS * ROUNDS);
}
