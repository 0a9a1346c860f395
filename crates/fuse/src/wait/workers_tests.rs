//! Workers: what waits for what, and what is done where no thread can be started.

use super::*;
use crate::placement::cpu;
use crate::wait::outcome::InlineReply;
use hearth::sched::Scheduler;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering::SeqCst};
use hearth_sync::primitive::{Condvar, Mutex};

fn offload(class: BlockingClass, work: impl FnOnce() + Send + 'static) -> Offload {
    Offload::Blocks {
        class,
        work: Box::new(move || {
            work();
            Ok(InlineReply::default())
        }),
    }
}

#[test]
fn an_fsync_is_done_while_many_locks_wait() {
    let scheduler = Scheduler::builder().start().unwrap();
    let workers = Workers::new(&scheduler, usize::MAX);
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..64 {
        let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
        let wait = move || {
            let mut open = gate.0.lock();
            while !*open {
                gate.1.wait(&mut open);
            }
            done.fetch_add(1, SeqCst);
        };
        workers.submit(offload(BlockingClass::Wait, wait), Box::new(|_| {}));
    }
    // The gate is opened by the work that must not queue behind the waiting ones.
    let opener = Arc::clone(&gate);
    let open = move || {
        *opener.0.lock() = true;
        opener.1.notify_all();
    };
    workers.submit(offload(BlockingClass::Io, open), Box::new(|_| {}));
    workers.close();
    assert_eq!(done.load(SeqCst), 64);
}

/// Regression: one user who waited for 4,096 locks had all others' refused with `ENOLCK`, and 256
/// searches that a rate limit delayed kept everybody's from beginning.
#[test]
fn a_tenant_whose_work_does_not_end_leaves_threads_to_others() {
    for queues in [false, true] {
        let scheduler = Scheduler::builder().start().unwrap();
        let pool = Arc::new(Pool::new(&scheduler, "hearth-test", 4, queues));
        // How much has begun, and whether it may end.
        let gate = Arc::new((Mutex::new((0, false)), Condvar::new()));
        let replies = Arc::new(Mutex::new(Vec::new()));
        let submit = |tenant, work: Work| {
            let replies = Arc::clone(&replies);
            let finish = move |reply: Result<_, _>| replies.lock().push((tenant, reply.is_ok()));
            pool.submit(TenantId::User(tenant), work, Box::new(finish));
        };
        for _ in 0..12 {
            let gate = Arc::clone(&gate);
            let wait = move || {
                let mut inside = gate.0.lock();
                inside.0 += 1;
                while !inside.1 {
                    gate.1.wait(&mut inside);
                }
                Ok(InlineReply::default())
            };
            submit(1, Box::new(wait));
        }
        while gate.0.lock().0 < 4 {
            thread::yield_now();
        }
        let opener = Arc::clone(&gate);
        let open = move || {
            opener.0.lock().1 = true;
            opener.1.notify_all();
            Ok(InlineReply::default())
        };
        submit(2, Box::new(open));
        assert!(
            !replies.lock().contains(&(2, false)),
            "the other is refused"
        );
        pool.close();
        let replies = replies.lock();
        let count = |reply| replies.iter().filter(|&&it| it == reply).count();
        let expected = if queues { 12 } else { 4 };
        assert_eq!((count((2, true)), count((1, true))), (1, expected));
        assert_eq!(replies.len(), 13);
    }
}

/// Regression: the thread that ended a tenant's only piece took one of another, and what the first
/// had queued waited until something else ended, though threads were to spare for it.
#[test]
fn what_ends_lets_all_begin_that_may() {
    let scheduler = Scheduler::builder().start().unwrap();
    // Two threads are to spare.
    let pool = Arc::new(Pool::new(&scheduler, "hearth-test", 9, true));
    // The tenants in the order of their begins, and of whom pieces may end.
    let turns = Arc::new((Mutex::new((Vec::new(), Vec::new())), Condvar::new()));
    let (lock, changed) = &*turns;
    let submit = |tenant| {
        let turns = Arc::clone(&turns);
        let work = move || {
            let mut inside = turns.0.lock();
            inside.0.push(tenant);
            turns.1.notify_all();
            while !inside.1.contains(&tenant) {
                turns.1.wait(&mut inside);
            }
            Ok(InlineReply::default())
        };
        pool.submit(TenantId::User(tenant), Box::new(work), Box::new(|_| {}));
    };
    let have_begun = |pieces: usize| {
        let mut inside = lock.lock();
        while inside.0.len() < pieces {
            changed.wait(&mut inside);
        }
    };
    let may_end = |tenants: &[u32]| {
        lock.lock().1.extend(tenants);
        changed.notify_all();
    };
    [1; 8].into_iter().for_each(submit);
    have_begun(8);
    [2, 3].into_iter().for_each(submit);
    have_begun(10);
    // Both have as much begun as threads are left.
    [3, 2].into_iter().for_each(submit);
    assert_eq!(pool.state.lock().queue.len(), 2);
    may_end(&[2]);
    have_begun(11);
    // Whoever takes a piece sees to the next one before it begins.
    let left = pool.state.lock().threads;
    may_end(&[1, 3]);
    pool.close();
    assert_eq!((left, lock.lock().0.len()), (11, 12));
}

#[test]
fn a_worker_takes_over_no_policy_from_the_thread_that_starts_it() {
    let scheduler = Scheduler::builder().start().unwrap();
    scheduler.on_thread_start(crate::placement::idle_policy::be_usual);
    let workers = Workers::new(&scheduler, usize::MAX);
    let policies = thread::spawn(move || {
        cpu::be_idle(0).unwrap();
        let own = Arc::new(Mutex::new(None));
        let workers_own = Arc::clone(&own);
        let look = move || *workers_own.lock() = Some(cpu::is_idle(0));
        workers.submit(offload(BlockingClass::Io, look), Box::new(|_| {}));
        workers.close();
        (cpu::is_idle(0), *own.lock())
    });
    assert_eq!(policies.join().unwrap(), (false, Some(false)));
}

#[test]
fn all_queued_work_is_done_before_the_threads_end() {
    let scheduler = Scheduler::builder().start().unwrap();
    let workers = Workers::new(&scheduler, usize::MAX);
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..10_000 {
        let count = Arc::clone(&done);
        let finish = Box::new(move |_| {
            count.fetch_add(1, SeqCst);
        });
        workers.submit(offload(BlockingClass::Io, || {}), finish);
    }
    workers.close();
    assert_eq!(done.load(SeqCst), 10_000);
    let refused = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&refused);
    workers.submit(
        offload(BlockingClass::Io, || {}),
        Box::new(move |r| *seen.lock() = Some(r)),
    );
    assert_eq!(*refused.lock(), Some(Err(Errno(libc::ENOMEM))));
}

#[test]
fn a_quiet_tenant_does_not_wait_for_all_that_another_has_queued() {
    for (class, threads) in [
        (BlockingClass::Io, IO_THREADS),
        (BlockingClass::Fetch, LOAD_THREADS),
        (BlockingClass::Room, ROOM_THREADS),
    ] {
        let scheduler = Scheduler::builder().start().unwrap();
        let workers = Workers::new(&scheduler, usize::MAX);
        // The tenants in the order of their begins, and how many works may end.
        let turns = Arc::new((Mutex::new((Vec::new(), 0)), Condvar::new()));
        let total = 20 * threads + 1;
        for (tenant, works) in [(1, total - 1), (2, 1)] {
            for _ in 0..works {
                let turns = Arc::clone(&turns);
                let work = move || {
                    let (lock, changed) = &*turns;
                    let mut inside = lock.lock();
                    inside.0.push(tenant);
                    changed.notify_all();
                    while inside.1 == 0 {
                        changed.wait(&mut inside);
                    }
                    inside.1 -= 1;
                };
                let workers = workers.of(TenantId::User(tenant));
                workers.submit(offload(class, work), Box::new(|_| {}));
            }
        }
        let (lock, changed) = &*turns;
        for ended in 0..total {
            // One after the other: whoever has taken something and not begun it is waited for.
            let mut inside = lock.lock();
            while inside.0.len() < total.min(threads + ended) {
                changed.wait(&mut inside);
            }
            inside.1 += 1;
            changed.notify_all();
        }
        workers.close();
        let place = lock.lock().0.iter().position(|&tenant| tenant == 2);
        // Each thread may have taken something before, and one more since.
        assert!(place.unwrap() <= 3 * threads, "{class:?}: {place:?}");
    }
}

#[test]
fn what_a_thread_uses_counts_in_the_share_of_who_asked_for_it() {
    let scheduler = Scheduler::builder().start().unwrap();
    let workers = Workers::new(&scheduler.handle(), usize::MAX);
    let used = || thread_time().unwrap_or_default();
    let work = move || {
        let begin = used();
        while used() < begin + 1_000_000 {}
    };
    let of = workers.of(TenantId::User(7));
    of.submit(offload(BlockingClass::Whole, work), Box::new(|_| {}));
    workers.close();
    let tenants = scheduler.stats().tenants;
    let seen = tenants.iter().find(|tenant| tenant.id == 7).unwrap();
    assert_eq!(seen.service.runs, 1);
    assert!(seen.service.run_ns >= 1_000_000, "{seen:?}");
    assert_eq!(seen.share, 1.0);
}

/// Regression: of two pieces whose threads could not be started one stayed in the queue for ever,
/// and its caller hung. Those that were refused got `EAGAIN`.
#[test]
fn all_that_no_thread_can_be_started_for_is_refused() {
    for (queues, errno) in [(true, libc::ENOMEM), (false, libc::ENOLCK)] {
        let scheduler = Scheduler::builder().start().unwrap();
        let pool = Arc::new(Pool {
            // More than the machine has addresses for.
            stack: 1 << 52,
            ..Pool::new(&scheduler, "hearth-never", 4, queues)
        });
        let replies = Arc::new(Mutex::new(Vec::new()));
        // Both have queued their work before either starts a thread.
        for _ in 0..2 {
            let replies = Arc::clone(&replies);
            let work = Box::new(|| Ok(InlineReply::default()));
            let finish = Box::new(move |reply| replies.lock().push(reply));
            assert!(pool.push(TenantId::System, work, finish));
        }
        pool.spawn();
        pool.spawn();
        assert_eq!(*replies.lock(), [Err(Errno(errno)); 2], "{queues}");
        pool.close();
    }
}

/// Regression: the end of a session waited for threads only, and never replied to work without one.
#[test]
fn what_is_left_in_a_queue_at_the_end_is_refused() {
    let scheduler = Scheduler::builder().start().unwrap();
    let pool = Pool::new(&scheduler, "hearth-never", 4, true);
    let reply = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&reply);
    let work = Box::new(|| Ok(InlineReply::default()));
    let finish = Box::new(move |reply| *seen.lock() = Some(reply));
    // Its thread is not started yet.
    assert!(pool.push(TenantId::System, work, finish));
    pool.close();
    assert_eq!(*reply.lock(), Some(Err(Errno(libc::ENOMEM))));
}

/// A reader that makes a call by itself counts as a thread of the pool, and what waits for its end
/// begins then.
#[test]
fn a_call_on_another_thread_takes_its_place_in_the_pool() {
    let scheduler = Scheduler::builder().start().unwrap();
    // One for all, and one to spare.
    let pool = Arc::new(Pool::new(&scheduler, "hearth-test", 1, true));
    let [one, two] = [1, 2].map(TenantId::User);
    let first = pool.begin_here(one).unwrap();
    assert!(
        pool.begin_here(one).is_none(),
        "one has what there is for all"
    );
    let second = pool.begin_here(two).unwrap();
    assert!(pool.begin_here(TenantId::User(3)).is_none());
    let (done, replies) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&pool));
    let counted = Arc::clone(&done);
    let work = Box::new(|| Ok(InlineReply::default()));
    let finish = Box::new(move |_| _ = counted.fetch_add(1, SeqCst));
    pool.submit(one, work, finish);
    thread::sleep(Duration::from_millis(20));
    assert_eq!(done.load(SeqCst), 0, "both threads are taken");
    assert!(replies.begin_here(two).is_none(), "work waits");
    drop(first);
    let begun = std::time::Instant::now();
    while done.load(SeqCst) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "it never begins");
        thread::sleep(Duration::from_millis(1));
    }
    drop(second);
    pool.close();
    assert!(pool.begin_here(one).is_none(), "the session ends");
    assert_eq!(pool.state.lock().threads, 0);
}
