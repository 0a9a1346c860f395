//! Which thread frees retired values.

use super::super::{account, pin, retire};
use super::BAG_SIZE;
use crate::primitive::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::primitive::{Arc, rounds, thread};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Drops by the thread that retired the value, and by others.
#[derive(Default)]
struct Drops([AtomicUsize; 2]);

struct Thing(Arc<Drops>, thread::ThreadId);

impl Drop for Thing {
    fn drop(&mut self) {
        let other = usize::from(thread::current().id() != self.1);
        self.0.0[other].fetch_add(1, SeqCst);
    }
}

fn retire_some(drops: &Arc<Drops>, some: usize) {
    for _ in 0..some {
        let thing = Thing(Arc::clone(drops), thread::current().id());
        retire(Box::new(thing), &pin());
    }
}

fn wait_until(met: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !met() {
        pin().flush();
        thread::yield_now();
        assert!(Instant::now() < limit, "nobody frees it");
    }
}

/// Whether a value that owns `bytes` is gone when the guard is that it was retired under.
fn is_gone_at_once(bytes: usize) -> bool {
    let drops = Arc::new(Drops::default());
    let thing = Thing(Arc::clone(&drops), thread::current().id());
    let g = pin();
    retire(Box::new(thing), &g);
    account(bytes, &g);
    drop(g);
    drops.0[0].load(SeqCst) == 1
}

/// Regression: a removed file of 1.5 GiB stayed in memory until somebody called again.
#[test]
fn much_does_not_wait_for_another_operation_of_its_thread() {
    // Concurrent tests pin too, and a guard of theirs may hold it back.
    let mut attempts = std::iter::repeat_with(|| is_gone_at_once(1 << 20)).take(1000);
    assert!(attempts.any(|is_gone| is_gone), "never in 1,000 attempts");
    // A little waits for a full bag, which costs less.
    assert!((0..BAG_SIZE / 2).any(|_| !is_gone_at_once(1)));
}

#[test]
#[cfg_attr(miri, ignore = "there a bag waits for longer than its thread is given")]
fn a_running_thread_frees_its_own_garbage() {
    // Concurrent tests may let so much wait that all threads free whatever they find.
    let mut attempts = std::iter::repeat_with(frees_of_a_running_thread).take(10);
    let is_own = attempts.any(|[own, others]| own > others);
    assert!(is_own, "others free more in ten attempts");
}

/// Frees by a thread that retires all the time, and by others.
fn frees_of_a_running_thread() -> [usize; 2] {
    let drops = Arc::new(Drops::default());
    let done = Arc::new(AtomicUsize::new(0));
    let (busy, last_epoch) = (Arc::clone(&drops), Arc::clone(&done));
    let busy = thread::spawn(move || {
        let by = || [0, 1].map(|whose| busy.0[whose].load(SeqCst));
        // Until much was dropped, because concurrent tests pin too.
        while by().iter().sum::<usize>() < 100 * BAG_SIZE {
            retire_some(&busy, BAG_SIZE);
        }
        last_epoch.store(1, SeqCst);
        by()
    });
    // Another thread collects all the time.
    wait_until(|| done.load(SeqCst) == 1);
    busy.join().unwrap()
}

/// A thread that is off its core for a moment keeps its memory.
#[test]
#[cfg_attr(miri, ignore = "there a bag waits for longer than its thread is given")]
fn a_short_pause_does_not_let_others_steal_bags() {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let drops = Arc::new(Drops::default());
        let (pauses, paused) = mpsc::channel();
        let (goes_on, go_on) = mpsc::channel::<()>();
        let thread = {
            let drops = Arc::clone(&drops);
            thread::spawn(move || {
                retire_some(&drops, BAG_SIZE);
                pauses.send(()).unwrap();
                go_on.recv().unwrap();
                while drops.0.iter().all(|by| by.load(SeqCst) == 0) {
                    retire_some(&drops, 1);
                    super::seal_soon();
                }
                [0, 1].map(|whose| drops.0[whose].load(SeqCst))
            })
        };
        paused.recv().unwrap();
        for _ in 0..3 {
            let later = Arc::new(Drops::default());
            retire_some(&later, 1);
            wait_until(|| later.0.iter().any(|by| by.load(SeqCst) > 0));
        }
        goes_on.send(()).unwrap();
        let [own, others] = thread.join().unwrap();
        if own >= BAG_SIZE && others == 0 {
            return;
        }
        assert!(
            Instant::now() < limit,
            "{own} by itself, {others} by others"
        );
    }
}

/// Threads that pin once and exit, with a small stack.
#[test]
fn new_threads_free_bags_of_exited_threads() {
    let drops = Arc::new(Drops::default());
    let reader = pin();
    let (threads, bags) = (8, rounds(200) as usize);
    let writers: Vec<_> = (0..threads)
        .map(|_| {
            let drops = Arc::clone(&drops);
            thread::spawn(move || {
                for _ in 0..bags {
                    retire_some(&drops, BAG_SIZE);
                    super::seal_soon();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    drop(reader);
    let all = || drops.0[0].load(SeqCst) + drops.0[1].load(SeqCst);
    let limit = Instant::now() + Duration::from_secs(60);
    while all() < threads * bags * BAG_SIZE {
        let pins = thread::Builder::new().stack_size(128 << 10);
        pins.spawn(|| drop(pin())).unwrap().join().unwrap();
        assert!(Instant::now() < limit, "{} are dropped", all());
    }
}

#[test]
fn bags_of_stopped_and_exited_threads_are_freed_by_others() {
    let drops = Arc::new(Drops::default());
    let (go, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let lazy = Arc::clone(&drops);
    let lazy = thread::spawn(move || {
        // A little more than two bags, so that the second one is sealed too. What the thread frees
        // of others may retire more, or flush.
        retire_some(&lazy, 2 * BAG_SIZE + BAG_SIZE / 2);
        tell.send(()).unwrap();
        wait.recv().unwrap();
    });
    told.recv().unwrap();
    let all = || drops.0[0].load(SeqCst) + drops.0[1].load(SeqCst);
    wait_until(|| all() >= BAG_SIZE + BAG_SIZE / 2);
    go.send(()).unwrap();
    lazy.join().unwrap();
    wait_until(|| all() == 2 * BAG_SIZE + BAG_SIZE / 2);
}

#[test]
fn a_thread_that_only_reads_frees_abandoned_bags() {
    let drops = Arc::new(Drops::default());
    let (go, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let stops = Arc::clone(&drops);
    let stops = thread::spawn(move || {
        // More than a bag: what the thread frees of others may flush, which seals a bag that is not
        // full.
        retire_some(&stops, 2 * BAG_SIZE);
        tell.send(()).unwrap();
        wait.recv().unwrap();
    });
    told.recv().unwrap();
    let limit = Instant::now() + Duration::from_secs(60);
    // The retiring thread may free it itself, if other tests advance the epoch just then.
    let all = || drops.0.iter().map(|by| by.load(SeqCst)).sum::<usize>();
    while all() < BAG_SIZE {
        drop(pin());
        assert!(Instant::now() < limit, "{} are freed", all());
    }
    go.send(()).unwrap();
    stops.join().unwrap();
}

/// One is dropped before the thread's open bag is, the other one after.
#[test]
fn values_retired_by_thread_local_destructors_are_dropped() {
    struct Retires(Arc<Drops>);

    impl Drop for Retires {
        fn drop(&mut self) {
            retire_some(&self.0, 1);
        }
    }

    thread_local! {
        static FIRST: std::cell::OnceCell<Retires> = const { std::cell::OnceCell::new() };
        static LAST: std::cell::OnceCell<Retires> = const { std::cell::OnceCell::new() };
    }

    let drops = Arc::new(Drops::default());
    let ends = Arc::clone(&drops);
    let ends = thread::spawn(move || {
        FIRST.with(|it| _ = it.set(Retires(Arc::clone(&ends))));
        drop(pin());
        LAST.with(|it| _ = it.set(Retires(Arc::clone(&ends))));
    });
    ends.join().unwrap();
    wait_until(|| drops.0.iter().map(|by| by.load(SeqCst)).sum::<usize>() == 2);
}

/// Regression: a thread freed its bags while it exited, and the destructors used thread-local
/// variables that were gone.
#[test]
fn an_exiting_thread_runs_no_deferred_destructor() {
    thread_local! {
        static NEEDED: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    struct Needs {
        _counts: Thing,
    }

    impl Drop for Needs {
        fn drop(&mut self) {
            NEEDED.with_borrow_mut(|needed| needed.push(1));
        }
    }

    let drops = Arc::new(Drops::default());
    for early in [true, false] {
        let ends = Arc::clone(&drops);
        let ends = thread::spawn(move || {
            if early {
                NEEDED.with_borrow_mut(|needed| needed.push(0));
            }
            for _ in 0..4 * BAG_SIZE {
                let _counts = Thing(Arc::clone(&ends), thread::current().id());
                retire(Box::new(Needs { _counts }), &pin());
            }
            NEEDED.with_borrow_mut(|needed| needed.push(0));
        });
        ends.join().unwrap();
    }
    let all = || drops.0.iter().map(|by| by.load(SeqCst)).sum::<usize>();
    wait_until(|| all() == 8 * BAG_SIZE);
}

/// Regression: what a destructor retired was freed inside of it, as deep as there were bags.
#[test]
fn a_destructor_does_not_free_further_bags_recursively() {
    thread_local! {
        static DEPTH: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
        static MAX_STOLEN: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    struct Nests(Arc<Drops>);

    impl Drop for Nests {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() + 1);
            MAX_STOLEN.set(MAX_STOLEN.get().max(DEPTH.get()));
            retire_some(&self.0, BAG_SIZE);
            (0..4).for_each(|_| drop(pin()));
            DEPTH.set(DEPTH.get() - 1);
        }
    }

    let drops = Arc::new(Drops::default());
    let most = thread::spawn(move || {
        let reader = pin();
        for _ in 0..100 {
            retire(Box::new(Nests(Arc::clone(&drops))), &reader);
            super::seal_soon();
            reader.flush();
        }
        drop(reader);
        let limit = Instant::now() + Duration::from_secs(60);
        while MAX_STOLEN.get() == 0 {
            pin().flush();
            assert!(Instant::now() < limit, "nobody frees it");
        }
        MAX_STOLEN.get()
    });
    assert_eq!(most.join().unwrap(), 1);
}

/// Regression: the rest of the bag was lost, and its count was waited for ever after.
#[test]
fn a_panicking_destructor_does_not_stop_the_rest_of_its_bag() {
    struct Panics;

    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("a drop that goes wrong"));
        }
    }

    let drops = Arc::new(Drops::default());
    let bad = Arc::clone(&drops);
    let bad = thread::spawn(move || {
        let g = pin();
        retire(Box::new(Panics), &g);
        for _ in 0..BAG_SIZE {
            let thing = Thing(Arc::clone(&bad), thread::current().id());
            retire(Box::new(thing), &g);
        }
        drop(g);
        let limit = Instant::now() + Duration::from_secs(60);
        while std::panic::catch_unwind(|| pin().flush()).is_ok() {
            assert!(Instant::now() < limit, "nobody frees it");
        }
    });
    bad.join().unwrap();
    assert_eq!(drops.0[0].load(SeqCst), BAG_SIZE);
}
