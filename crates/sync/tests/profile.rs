//! The lock profile on real locks: injected waits and holds are measured.
//!
//! The profile covers the process, so the tests run one at a time.

#![cfg(not(any(feature = "loom", feature = "shuttle", feature = "unprofiled")))]
#![allow(clippy::unwrap_used)]

#[path = "profile/support.rs"]
mod support;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use hearth_sync::lock::{Condition, Lock, RawLock, Waited, Waiting, request};
use hearth_sync::lock_class;
use hearth_sync::object::{PerCpuRwLock, Table};
use hearth_sync::primitive::{LastCore, core};
use hearth_sync::profile::{self, Key, Recorder, Sampling, Side};
use hearth_sync::seq::{SeqCount, SeqLock};
use support::{ProfileTest, near, pin_to, spin_for};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_stopped_profile_records_nothing() {
    lock_class!(Quiet = "off", 1);
    let test = ProfileTest::off();
    let lock = Lock::<Quiet, ()>::new(());
    drop(lock.lock());
    profile::start(Sampling::All);
    profile::stop();
    drop(lock.lock());
    assert_eq!(test.sum("off", Side::Write).total(), 0);
}

#[test]
fn hold_times_are_added_up_and_the_longest_is_kept() {
    lock_class!(Held = "hold", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let lock = Lock::<Held, ()>::new(());
    for ms in [1, 5, 2] {
        let _held = lock.lock();
        test.advance(ms * MS);
    }
    test.advance(MS);
    let counts = test.sum("hold", Side::Write);
    assert_eq!((counts.free, counts.waited, counts.refused), (3, 0, 0));
    assert_eq!((counts.timed, counts.hold_ns), (3, 8_000_000));
    assert_eq!((counts.hold_ns_max, counts.wait_ns), (5_000_000, 0));
    assert_eq!(profile::snapshot().elapsed_ns, 9_000_000);
}

#[test]
fn each_call_site_has_a_row_of_its_own() {
    lock_class!(Sites = "sites", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let lock = Lock::<Sites, ()>::new(());
    let first = line!() + 1;
    drop(lock.lock());
    (0..4).for_each(|_| drop(lock.lock()));
    let rows = test.rows("sites");
    let seen: Vec<_> = rows.iter().map(|r| (r.line, r.counts.free)).collect();
    assert_eq!(seen, [(first, 1), (first + 1, 4)]);
    assert!(rows.iter().all(|row| row.file.ends_with("profile.rs")));
}

#[test]
fn a_scripted_wait_is_counted_and_timed_exactly() {
    lock_class!(Waits = "wait", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let lock = Lock::<Waits, ()>::new(());
    for ms in [2, 7] {
        std::thread::scope(|scope| {
            let held = lock.lock();
            let looks = test.looks();
            scope.spawn(|| drop(lock.lock()));
            // The waiter reads the clock when its wait begins.
            test.until_looks(looks + 1);
            test.advance(ms * MS);
            drop(held);
        });
    }
    let counts = test.sum("wait", Side::Write);
    assert_eq!((counts.free, counts.waited), (2, 2));
    assert_eq!((counts.wait_ns, counts.wait_ns_max), (9_000_000, 7_000_000));
    assert_eq!((counts.hold_ns, counts.timed), (9_000_000, 4));
}

#[test]
fn a_failed_try_counts_as_refused() {
    lock_class!(Tried = "tried", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let lock = RawLock::<Tried>::new();
    let held = lock.try_lock_guard().expect("free");
    assert!((0..3).all(|_| lock.try_lock_guard().is_none()));
    drop(held);
    let counts = test.sum("tried", Side::Write);
    assert_eq!((counts.free, counts.refused, counts.timed), (1, 3, 1));
    assert_eq!(counts.total(), 4);
}

#[test]
fn a_grant_bounces_when_another_core_had_the_lock_last() {
    lock_class!(Bounced = "bounce", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let (lock, barrier) = (
        Lock::<Bounced, Vec<usize>>::new(Vec::new()),
        Barrier::new(2),
    );
    // The thread that takes the lock in each step; each thread stays on its core.
    let script = [0, 0, 1, 0, 1, 1, 1, 0, 0, 1];
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (lock, barrier) = (&lock, &barrier);
            scope.spawn(move || {
                pin_to(me);
                for who in script {
                    barrier.wait();
                    if who == me {
                        lock.lock().push(core());
                    }
                }
            });
        }
    });
    let cores = lock.into_inner();
    let moved = cores.windows(2).filter(|two| two[0] != two[1]).count() as u64;
    let counts = test.sum("bounce", Side::Write);
    assert_eq!((counts.bounced, counts.free + counts.waited), (moved, 10));
    if cores.contains(&1) {
        assert_eq!(moved, 5);
    }
}

#[test]
fn waiting_on_a_condition_does_not_count_as_holding() {
    lock_class!(Conditional = "condition", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let (lock, changed) = (Lock::<Conditional, u32>::new(0), Condition::new());
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut value = lock.lock();
            *value = 1;
            while *value != 2 {
                value.wait(&changed);
            }
        });
        while *lock.lock() != 1 {}
        test.advance(50 * MS);
        *lock.lock() = 2;
        changed.notify_all();
        sleeper.join().unwrap();
    });
    let counts = test.sum("condition", Side::Write);
    assert_eq!((counts.hold_ns, counts.wait_ns), (0, 0));
    assert_eq!(counts.timed, counts.free + counts.waited);
}

#[test]
fn a_percpu_rwlock_has_a_read_and_a_write_side() {
    lock_class!(Sides = "rwlock", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let table: Table<PerCpuRwLock<Sides>> = Table::new(1);
    let rwlock = table.insert(|_, _| PerCpuRwLock::new());
    {
        let _one = rwlock.read(rwlock.percpu());
        test.advance(MS);
        let _two = rwlock.read(rwlock.percpu());
        test.advance(MS);
    }
    std::thread::scope(|scope| {
        let writing = rwlock.write(rwlock.percpu());
        let looks = test.looks();
        scope.spawn(|| drop(rwlock.read(rwlock.percpu())));
        test.until_looks(looks + 1);
        test.advance(4 * MS);
        drop(writing);
    });
    std::thread::scope(|scope| {
        let reading = rwlock.read(rwlock.percpu());
        let looks = test.looks();
        scope.spawn(|| drop(rwlock.write(rwlock.percpu())));
        test.until_looks(looks + 1);
        test.advance(6 * MS);
        drop(reading);
    });
    let (read, write) = (
        test.sum("rwlock", Side::Read),
        test.sum("rwlock", Side::Write),
    );
    assert_eq!((read.free, read.waited, read.wait_ns), (3, 1, 4_000_000));
    assert_eq!((write.free, write.waited, write.wait_ns), (1, 1, 6_000_000));
    assert_eq!((write.hold_ns, write.timed), (4_000_000, 2));
    // Two read holds of one thread share a counter here, so the time of the first is counted as
    // that of the second.
    assert!(read.hold_ns >= 7_000_000 && read.timed >= 3, "{read:?}");
}

#[test]
fn a_seqlock_counts_writers_and_waiting_readers() {
    lock_class!(Sequence = "seq", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let (lock, last) = (SeqLock::<Sequence>::new(), LastCore::new());
    let reads_wait = |write: bool| {
        std::thread::scope(|scope| {
            let writing = lock.write(&last);
            let looks = test.looks();
            scope.spawn(|| match write {
                true => drop(lock.write(&last)),
                false => lock.read(|| ()),
            });
            test.until_looks(looks + 1);
            test.advance(3 * MS);
            drop(writing);
        });
    };
    reads_wait(false);
    reads_wait(true);
    lock.read(|| ());
    let (write, wait) = (test.sum("seq", Side::Write), test.sum("seq", Side::Wait));
    assert_eq!((write.free, write.waited, write.timed), (2, 1, 3));
    assert_eq!((write.hold_ns, write.wait_ns), (6_000_000, 3_000_000));
    assert_eq!((wait.free, wait.waited), (0, 1));
    assert_eq!((wait.wait_ns, wait.timed), (3_000_000, 0));
}

#[test]
fn a_reader_that_meets_a_seqcount_writer_counts_as_waiting() {
    lock_class!(Counted = "count", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let count = SeqCount::<Counted>::new();
    std::thread::scope(|scope| {
        let writing = count.write();
        let looks = test.looks();
        scope.spawn(|| count.read(|| ()));
        test.until_looks(looks + 1);
        test.advance(2 * MS);
        drop(writing);
    });
    let wait = test.sum("count", Side::Wait);
    assert_eq!((wait.total(), wait.wait_ns_max), (1, 2_000_000));
}

#[test]
fn explicit_requests_and_waits_are_recorded() {
    lock_class!(Told = "told", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    request::<Told, _>(|| ((), Some(Waited::No)));
    request::<Told, _>(|| ((), None));
    request::<Told, _>(|| (test.advance(8 * MS), Some(Waited::Yes)));
    {
        let _waiting = Waiting::<Told>::begin();
        test.advance(2 * MS);
    }
    let (write, wait) = (test.sum("told", Side::Write), test.sum("told", Side::Wait));
    assert_eq!((write.free, write.waited, write.refused), (1, 1, 1));
    assert_eq!((write.wait_ns, wait.wait_ns), (8_000_000, 2_000_000));
}

#[test]
fn a_reset_discards_records_and_continues() {
    lock_class!(Again = "reset", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let lock = Lock::<Again, ()>::new(());
    drop(lock.lock());
    let across = lock.lock();
    test.advance(MS);
    profile::reset();
    assert_eq!(test.sum("reset", Side::Write).total(), 0);
    test.advance(MS);
    drop(across);
    drop(lock.lock());
    let counts = test.sum("reset", Side::Write);
    assert_eq!((counts.free, counts.timed, counts.hold_ns), (1, 1, 0));
    assert_eq!(profile::snapshot().elapsed_ns, 1_000_000);
}

#[test]
fn a_hold_is_counted_up_to_the_stop_of_the_profile() {
    lock_class!(Outlives = "outlives", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let lock = Lock::<Outlives, ()>::new(());
    let held = lock.lock();
    test.advance(3 * MS);
    profile::stop();
    test.advance(9 * MS);
    drop(held);
    let counts = test.sum("outlives", Side::Write);
    assert_eq!((counts.hold_ns, counts.timed), (3_000_000, 1));
    let snapshot = profile::snapshot();
    assert_eq!((snapshot.elapsed_ns, snapshot.running), (3_000_000, false));
}

#[test]
fn starting_a_running_profile_changes_nothing() {
    lock_class!(Twice = "twice", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let lock = Lock::<Twice, ()>::new(());
    drop(lock.lock());
    profile::start(Sampling::All);
    assert_eq!(test.sum("twice", Side::Write).free, 1);
    profile::start(Sampling::Adaptive);
    assert_eq!(test.sum("twice", Side::Write).free, 0);
}

#[test]
fn records_of_exited_threads_are_kept() {
    lock_class!(Gone = "gone", 1);
    let test = ProfileTest::stopped_clock(Sampling::All);
    let lock = Lock::<Gone, ()>::new(());
    for _ in 0..100 {
        std::thread::scope(|scope| {
            scope.spawn(|| drop(lock.lock()));
        });
    }
    assert_eq!(test.sum("gone", Side::Write).free, 100);
}

#[test]
fn a_busy_thread_samples_few_locks_and_the_sums_still_hold() {
    lock_class! {
        Busy = "busy", 1;
        Calm = "calm", 1;
    }
    const ROUNDS: u64 = 20_000_000;
    let test = ProfileTest::real_clock(Sampling::Adaptive);
    let (busy, calm) = (Lock::<Busy, u64>::new(0), Lock::<Calm, ()>::new(()));
    for step in 0..ROUNDS {
        *busy.lock() += 1;
        // A pattern that equal distances between samples would miss or hit every time.
        if step % 16 == 0 {
            drop(calm.lock());
        }
    }
    let (busy, calm) = (test.sum("busy", Side::Write), test.sum("calm", Side::Write));
    assert!(busy.timed < ROUNDS / 4, "{} of {ROUNDS} drawn", busy.timed);
    let all = busy.free + calm.free;
    assert!(near(all, ROUNDS + ROUNDS / 16, 0.05), "{all}");
    assert!(near(calm.free * 16, ROUNDS, 0.3), "{}", calm.free);
}

#[test]
fn every_contention_is_counted_however_few_locks_are_sampled() {
    lock_class!(Fought = "fought", 1);
    const ROUNDS: u64 = 100;
    let test = ProfileTest::real_clock(Sampling::Adaptive);
    let lock = Lock::<Fought, u64>::new(0);
    // Busy first, so that the thread samples one in many.
    (0..500_000).for_each(|_| *lock.lock() += 1);
    let waited = || test.sum("fought", Side::Write).waited;
    assert_eq!(waited(), 0);
    let asks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for ask in 1..=ROUNDS {
                while asks.load(SeqCst) != ask {
                    std::thread::yield_now();
                }
                asks.store(0, SeqCst);
                *lock.lock() += 1;
            }
        });
        for ask in 1..=ROUNDS {
            let held = lock.lock();
            asks.store(ask, SeqCst);
            while asks.load(SeqCst) != 0 {
                std::thread::yield_now();
            }
            // The other thread requests the lock now. It is held for much longer than the request
            // takes.
            spin_for(MS);
            drop(held);
            while *lock.lock() < 500_000 + ask {
                std::thread::yield_now();
            }
        }
    });
    // Fewer than scripted only if the requesting thread was off its core for a whole hold; more if
    // the polling thread contends with it.
    assert!(waited() >= ROUNDS * 9 / 10, "{}", waited());
}

/// A thread may be preempted between any two reads of a clock, so the measured time has a lower and
/// an upper bound: from inside of the hold or wait, and from around it.
#[test]
fn real_hold_and_wait_times_are_measured_within_5_percent() {
    lock_class!(Real = "real", 1);
    let test = ProfileTest::real_clock(Sampling::Adaptive);
    let lock = Lock::<Real, ()>::new(());
    let (mut held, mut waited) = ([0; 2], [0; 2]);
    let add = |to: &mut [u64; 2], inside: Duration, around: Duration| {
        to[0] += inside.as_nanos() as u64;
        to[1] += around.as_nanos() as u64;
    };
    for _ in 0..20 {
        let begin = Barrier::new(2);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                begin.wait();
                let asked = Instant::now();
                let got = lock.lock();
                let taken = Instant::now();
                spin_for(2 * MS);
                let inside = taken.elapsed();
                drop(got);
                (asked, taken, inside, Instant::now())
            });
            let before = Instant::now();
            let got = lock.lock();
            let taken = Instant::now();
            begin.wait();
            spin_for(5 * MS);
            let inside = taken.elapsed();
            let giving = Instant::now();
            drop(got);
            add(&mut held, inside, before.elapsed());
            let (asked, second, inside, ended) = waiter.join().unwrap();
            add(
                &mut waited,
                giving.saturating_duration_since(asked),
                second - asked,
            );
            // The second hold begins after `giving` and ends before `ended`.
            add(&mut held, inside, ended.saturating_duration_since(giving));
        });
    }
    let counts = test.sum("real", Side::Write);
    assert_eq!((counts.free + counts.waited, counts.timed), (40, 40));
    let is_between = |is: u64, [inside, around]: [u64; 2]| {
        is as f64 >= 0.95 * inside as f64 && is as f64 <= 1.05 * around as f64
    };
    assert!(is_between(counts.hold_ns, held), "{counts:?} {held:?}");
    assert!(is_between(counts.wait_ns, waited), "{counts:?} {waited:?}");
    assert!(
        held[0] >= 140_000_000 && waited[0] > 0,
        "{held:?} {waited:?}"
    );
}

#[test]
fn requests_without_a_free_cell_are_counted_as_lost() {
    let recorder = Recorder::new();
    recorder.begin(7);
    let site = std::panic::Location::caller();
    let side = Side::Write;
    let mut found = 0;
    for number in 0..300_u32 {
        let class: &'static str = Box::leak(number.to_string().into_boxed_str());
        found += u64::from(recorder.site(&Key { class, side, site }, 2).is_some());
    }
    let (_, lost) = recorder.copy(7).expect("the session goes on");
    assert_eq!((found, lost), (256, 2 * (300 - 256)));
    assert!(recorder.copy(8).is_none());
}
