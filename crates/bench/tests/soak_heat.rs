//! Heat while everything happens to files on all threads: random scripts of the model's operations
//! (unlink, truncate, rename and all others) beside one thread that folds and ages, switches heat
//! off and on, and lets its memory shrink and grow. When all files are gone, so are all records.
//!
//! `cargo xtask soak` runs it as well, `HEARTH_SOAK_SECONDS` and `HEARTH_SEED` by hand.

#[path = "../../fs/tests/model/driver.rs"]
mod driver;
mod soaking;

use driver::Library;
use hearth::heat::ExportedHeat;
use hearth::{Credentials, Process, Volume};
use hearth_model::System;
use hearth_testing::threads::SetOnDrop;
use proptest::test_runner::TestRunner;
use soaking::{clear, next, number, runner};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Scripts that a thread runs in one round.
const ROUND: u32 = 100;
/// MiB: the least cap that there is.
const CAP: u64 = 1;
/// Ranges of a file whose records are imported again and again: twice as many as fit below the
/// cap.
const RANGES: u64 = 16_384;
/// No more rounds than that are made until records were evicted.
const PATIENCE: u32 = 50;

/// Runs scripts, and touches files and ranges enough that records are evicted.
fn work(volume: &Volume, runner: &mut TestRunner, thread: usize) {
    for turn in 0..ROUND {
        let mut library = Library::new(volume.clone());
        for (p, op) in next(runner) {
            library.apply(p, &op);
        }
        library.exit_all();
        if turn % 10 == 0 {
            touch_many(&volume.process(Credentials::root()), thread);
        }
    }
}

/// A large file that is read all over, cut, renamed and removed while it is open.
fn touch_many(process: &Process, thread: usize) {
    let (name, other) = (format!("/large-{thread}"), format!("/larger-{thread}"));
    let flags = libc::O_CREAT | libc::O_RDWR | libc::O_TRUNC;
    // Scripts change the root's mode and flags; what they forbid is not done.
    let Ok(fd) = process.open(&name, flags, 0o600) else {
        return;
    };
    let ranges = 2_000;
    if process.ftruncate(fd, ranges << 20).is_ok() {
        for range in 0..ranges {
            let _ = process.pread(fd, &mut [0], range << 20);
        }
        let _ = process.ftruncate(fd, (ranges / 2) << 20);
    }
    let _ = process.rename(&name, &other);
    for range in 0..ranges / 4 {
        let _ = process.pread(fd, &mut [0], range << 20);
    }
    let _ = process.unlink(&other);
    let _ = process.pread(fd, &mut [0], 0);
    process.close(fd).expect("it is open");
}

/// Makes a file that stays for a round; returns records for all of its ranges.
fn keep(volume: &Volume) -> Vec<ExportedHeat> {
    let process = volume.process(Credentials::root());
    let flags = libc::O_CREAT | libc::O_RDWR;
    let fd = process.open("/kept", flags, 0o600).expect("it is made");
    process.ftruncate(fd, RANGES << 20).expect("holes are free");
    // Heat may have seen so much that it lets some accesses pass.
    let range = loop {
        process.pread(fd, &mut [0], 0).expect("it is read");
        let exported = volume.heat().export(0, usize::MAX).expect("an export");
        let is_range = |record: &ExportedHeat| record.path == b"/kept" && record.start.is_some();
        if let Some(range) = exported.records.into_iter().find(is_range) {
            break range;
        }
    };
    let record = |n: u64| ExportedHeat {
        start: Some(n << 20),
        ..range.clone()
    };
    (0..RANGES).map(record).collect()
}

/// What the background and an administrator do, again and again; `evicted` counts how often records
/// went because of the cap.
fn stir(volume: &Volume, kept: &[ExportedHeat], done: &AtomicBool, evicted: &AtomicU64) {
    let heat = volume.heat();
    for turn in 0_u64.. {
        // Relaxed: it is seen soon enough.
        if done.load(Ordering::Relaxed) {
            break;
        }
        heat.switch(!turn.is_multiple_of(7));
        let cap = turn / 8 % 2 * CAP;
        if turn.is_multiple_of(16) {
            let imported = heat.import(kept);
            assert_eq!(imported.records as u64, RANGES);
        }
        if turn % 16 == 8 {
            // Relaxed: read when this thread has ended.
            let is_over = heat.gauges().record_bytes > CAP << 20;
            evicted.fetch_add(u64::from(is_over), Ordering::Relaxed);
        }
        heat.set_memory(cap).expect("a number that is allowed");
        match turn % 3 {
            0 => volume.run_background_once(),
            1 => heat.age(),
            _ => std::thread::yield_now(),
        }
        let gauges = heat.gauges();
        if cap > 0 {
            assert!(gauges.record_bytes <= cap << 20, "{gauges:?}");
        }
    }
    heat.switch(true);
    heat.set_memory(0).expect("no limit is allowed");
}

#[test]
fn no_record_is_left_of_files_that_are_gone() {
    let (seconds, seed) = (number("HEARTH_SOAK_SECONDS", 4), number("HEARTH_SEED", 1));
    let threads = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    let mut runners: Vec<_> = (0..threads).map(|n| runner(seed, n)).collect();
    let volume = Volume::builder().hot_track(true).build();
    let volume = &volume.expect("the defaults are a valid volume");
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut rounds, evicted) = (0, AtomicU64::new(0));
    // Relaxed: the thread that counts has ended.
    let was_evicted = || evicted.load(Ordering::Relaxed) > 0;
    while Instant::now() < end || !was_evicted() && rounds < PATIENCE {
        let kept = keep(volume);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let end = SetOnDrop(&done);
            let stirrer = scope.spawn(|| stir(volume, &kept, &done, &evicted));
            let spawn = |(n, runner)| scope.spawn(move || work(volume, runner, n));
            let workers: Vec<_> = runners.iter_mut().enumerate().map(spawn).collect();
            let worked: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            drop(end);
            stirrer.join().expect("the thread that stirs");
            worked
                .into_iter()
                .for_each(|worker| worker.expect("a thread"));
        });
        clear(&volume.process(Credentials::root()), b"/");
        volume.heat().age();
        let left = volume.heat().gauges();
        let left = (left.files, left.ranges, left.record_bytes);
        assert_eq!(left, (0, 0, 0), "round {rounds}, seed {seed}");
        rounds += 1;
    }
    println!("{rounds} rounds on {threads} threads, seed {seed}, evicted {evicted:?} times");
    assert!(was_evicted(), "the cap was never in the way");
}
