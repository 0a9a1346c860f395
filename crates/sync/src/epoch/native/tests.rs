//! Who frees what a thread has retired.

use super::super::{pin, retire};
use super::BAG_SIZE;
use crate::primitive::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::primitive::{Arc, rounds, thread};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Drops: by the thread that retired it, by others.
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

#[test]
#[cfg_attr(miri, ignore = "there a bag waits for longer than its thread is given")]
fn who_goes_on_frees_what_it_retired_itself() {
    // Tests beside this one may let so much wait that all free whatever they find.
    let mut attempts = std::iter::repeat_with(frees_of_who_goes_on).take(10);
    let is_own = attempts.any(|[garbage, others]| garbage > others);
    assert!(is_own, "others free more in ten attempts");
}

/// Frees of a thread that retires all the time: by itself, by others.
fn frees_of_who_goes_on() -> [usize; 2] {
    let drops = Arc::new(Drops::default());
    let done = Arc::new(AtomicUsize::new(0));
    let (busy, last_epoch) = (Arc::clone(&drops), Arc::clone(&done));
    let busy = thread::spawn(move || {
        let by = || [0, 1].map(|whose| busy.0[whose].load(SeqCst));
        // Until much was dropped: tests beside this one pin as well.
        while by().iter().sum::<usize>() < 100 * BAG_SIZE {
            retire_some(&busy, BAG_SIZE);
        }
        last_epoch.store(1, SeqCst);
        by()
    });
    // Another one works at the collector all the time.
    wait_until(|| done.load(SeqCst) == 1);
    busy.join().unwrap()
}

/// A thread that is off its core for a moment keeps its memory.
#[test]
#[cfg_attr(miri, ignore = "there a bag waits for longer than its thread is given")]
fn who_pauses_for_a_moment_frees_what_it_left_itself() {
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
        let [garbage, others] = thread.join().unwrap();
        if garbage >= BAG_SIZE && others == 0 {
            return;
        }
        assert!(
            Instant::now() < limit,
            "{garbage} by itself, {others} by others"
        );
    }
}

/// Threads that pin once and end, with little stack.
#[test]
fn threads_that_begin_free_what_many_others_left() {
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
fn who_stops_leaves_its_bags_to_others_and_who_ends_leaves_all() {
    let drops = Arc::new(Drops::default());
    let (go, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let lazy = Arc::clone(&drops);
    let lazy = thread::spawn(move || {
        // A little more than two bags, so that the second one is closed too. What it frees of
        // others may retire more, or flush.
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
fn who_only_reads_frees_what_others_left() {
    let drops = Arc::new(Drops::default());
    let (go, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let stops = Arc::clone(&drops);
    let stops = thread::spawn(move || {
        // More than a bag: what it frees of others may flush, which closes one that is not full.
        retire_some(&stops, 2 * BAG_SIZE);
        tell.send(()).unwrap();
        wait.recv().unwrap();
    });
    told.recv().unwrap();
    let limit = Instant::now() + Duration::from_secs(60);
    // By itself, if other tests end epochs just then.
    let all = || drops.0.iter().map(|by| by.load(SeqCst)).sum::<usize>();
    while all() < BAG_SIZE {
        drop(pin());
        assert!(Instant::now() < limit, "{} are freed", all());
    }
    go.send(()).unwrap();
    stops.join().unwrap();
}

/// One is dropped before the thread's bags are, the other one after.
#[test]
fn what_a_thread_retires_while_it_ends_is_dropped() {
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

/// Once, a thread freed its bags while it ended, and what that ran had lost its own variables.
#[test]
fn a_thread_that_ends_runs_nothing_that_needs_what_it_has_lost() {
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

/// Once, what a drop retired was freed inside of it, as deep as there were bags.
#[test]
fn what_is_freed_does_not_free_other_bags_inside() {
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

/// Once, the rest of the bag was lost, and what it had counted was waited for ever after.
#[test]
fn a_panic_of_what_is_freed_leaves_the_rest_of_the_bag_to_be_freed() {
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
