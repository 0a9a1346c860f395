//! What the background does by itself, seen from outside.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::backend::TestBackend;
use hearth::{Clock, Credentials, Errno, Event, OnError, Op, Process, QuotaId, Time, Volume};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Milliseconds that the test sets.
#[derive(Clone)]
struct Hand(Arc<AtomicU64>);

impl Clock for Hand {
    fn now(&self) -> Time {
        Time::from_nanos(1_700_000_000_000_000_000)
    }

    fn monotonic(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

fn file(process: &Process, name: &str, bytes: usize) {
    let fd = process.open(name, libc::O_CREAT | libc::O_WRONLY, 0o644);
    let fd = fd.unwrap();
    process.write(fd, &vec![7; bytes]).unwrap();
    process.close(fd).unwrap();
}

/// Bytes that count towards the memory budget.
fn budgeted(process: &Process) -> u64 {
    process.volume().gauges().budgeted_bytes
}

fn panics(process: &Process) -> u64 {
    process.volume().stats().events(Event::Panic)
}

#[test]
fn rates_of_operations_follow_the_operations() {
    let hand = Hand(Arc::new(AtomicU64::new(1000)));
    let volume = Volume::builder()
        .workers(0)
        .clock(hand.clone())
        .build()
        .unwrap();
    let process = volume.process(Credentials::root());
    let rate = |window: &str| {
        let rates = process.volume().stats().ops_per_second();
        let found = rates.iter().find(|(name, _)| *name == window);
        found.expect("a window").1
    };
    volume.run_background_once();
    assert_eq!(rate("1m"), 0.0);
    for _ in 0..600 {
        volume.stats().count(Op::Read, 300, true);
    }
    hand.0.fetch_add(60_000, SeqCst);
    volume.run_background_once();
    // Ten a second for a minute, of which a window of a minute has seen 1 - 1/e.
    assert!((rate("1m") - 6.32).abs() < 0.01, "{}", rate("1m"));
    assert!((rate("15m") - 0.64).abs() < 0.01, "{}", rate("15m"));
    hand.0.fetch_add(60_000, SeqCst);
    volume.run_background_once();
    assert!(rate("1m") < 2.4, "{}", rate("1m"));
}

#[test]
fn a_volume_without_workers_wins_memory_back_when_it_is_told_to() {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder()
        .workers(0)
        .backend(backend.clone())
        .build();
    let volume = volume.unwrap();
    let process = volume.process(Credentials::root());
    for number in 0..64 {
        file(&process, &format!("/{number}"), 128 << 10);
    }
    let before = budgeted(&process);
    assert!(before > 8_000_000, "{before}");
    let calls = Arc::new(AtomicU64::new(0));
    let count = calls.clone();
    backend.set_fault(Some(Box::new(move |_| {
        count.fetch_add(1, SeqCst);
        None
    })));
    volume.run_background_once();
    assert_eq!(calls.load(SeqCst), 0, "there is no budget yet");
    // A budget that is set now makes too much of what is there; no operation comes after it.
    set_budget(&process);
    assert_eq!(calls.load(SeqCst), 0, "nobody has come yet");
    volume.run_background_once();
    let calls = calls.load(SeqCst);
    assert!(calls >= 48, "{calls} calls to the backend for 64 files");
    let after = budgeted(&process);
    assert!(after <= BUDGET, "{after}");
    let fd = process.open("/63", libc::O_RDONLY, 0).unwrap();
    let mut text = vec![0; 128 << 10];
    assert_eq!(process.read(fd, &mut text).unwrap(), 128 << 10);
    assert!(text.iter().all(|byte| *byte == 7));
}

/// It won back everything that was too much, however long that took.
#[test]
fn a_call_of_the_background_has_an_end_and_the_next_goes_on() {
    let backend = Arc::new(TestBackend::new());
    let builder = Volume::builder().workers(0).backend(backend.clone());
    let volume = builder.build().unwrap();
    let process = volume.process(Credentials::root());
    for number in 0..160 {
        file(&process, &format!("/{number}"), 256 << 10);
    }
    set_budget(&process);
    // An operation would win back the rest by itself; a gauge does not.
    let mut seen = vec![budgeted(&process)];
    for _ in 0..5 {
        volume.run_background_once();
        seen.push(budgeted(&process));
    }
    // 16 MiB, as much again, and what is left of forty.
    let parts: Vec<bool> = seen.windows(2).map(|held| held[0] > held[1]).collect();
    assert_eq!(parts[..3], [true; 3], "{seen:?}");
    assert!(seen[1] > 20 << 20 && seen[2] > 4 << 20, "{seen:?}");
    assert_eq!(seen[4], seen[5], "{seen:?}");
    let after = budgeted(&process);
    assert!(after <= BUDGET, "{after}");
}

#[test]
fn a_volume_without_workers_calls_back_credit_that_nobody_uses() {
    let hand = Hand(Arc::new(AtomicU64::new(0)));
    let volume = Volume::builder().workers(0).clock(hand.clone()).build();
    let volume = volume.unwrap();
    let process = volume.process(Credentials::root());
    process.chmod("/", 0o777).unwrap();
    let user = volume.process(Credentials::user(1000, 1000));
    file(&user, "/file", 4096);
    let usage = || {
        let record = volume.quota().get(QuotaId::user(1000));
        let record = record.unwrap();
        (record.bytes.used, record.bytes.reserved)
    };
    let (used, reserved) = usage();
    assert!(used == 4096 && reserved > used, "{used} of {reserved}");
    // Credit is called back by the second pass that finds it as the one before left it.
    for _ in 0..2 {
        hand.0.fetch_add(29_000, SeqCst);
        volume.run_background_once();
        assert!(usage().1 > 4096, "too early");
        hand.0.fetch_add(1_000, SeqCst);
        volume.run_background_once();
    }
    assert_eq!(usage(), (4096, 4096));
}

/// Calls that write something to a backend, by the thread that `here` was made on and by others.
#[derive(Clone)]
struct Writers {
    here: ThreadId,
    own: Arc<AtomicU64>,
    others: Arc<AtomicU64>,
}

impl Writers {
    fn of(backend: &TestBackend) -> Writers {
        let writers = Writers {
            here: std::thread::current().id(),
            own: Arc::default(),
            others: Arc::default(),
        };
        let seen = writers.clone();
        backend.set_fault(Some(Box::new(move |call| {
            let by = match std::thread::current().id() == seen.here {
                true => &seen.own,
                false => &seen.others,
            };
            by.fetch_add(u64::from(call == "write_pages"), SeqCst);
            None
        })));
        writers
    }

    fn calls(&self) -> (u64, u64) {
        (self.own.load(SeqCst), self.others.load(SeqCst))
    }
}

const BUDGET: u64 = 1 << 20;

fn set_budget(process: &Process) {
    process.volume().set_memory_budget(BUDGET);
}

#[test]
fn what_comes_and_goes_leaves_nothing_under_the_budget_and_nothing_is_there_without_one() {
    let memory = Volume::memory();
    let evictable = Volume::builder()
        .backend(Arc::new(TestBackend::new()))
        .build();
    for (volume, counts) in [(memory, false), (evictable.unwrap(), true)] {
        let process = volume.process(Credentials::root());
        let before = budgeted(&process);
        file(&process, "/file", 64 << 10);
        let with = budgeted(&process);
        assert_eq!(with >= before + (64 << 10), counts, "{with}");
        process.unlink("/file").unwrap();
        assert_eq!(budgeted(&process), before);
    }
}

#[test]
fn a_lowered_budget_is_met_by_the_background_and_no_operation_pays_for_it() {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder()
        .workers(1)
        .backend(backend.clone())
        // What the operations record goes without their help as well.
        .commit_interval(Duration::from_millis(200))
        .build();
    let volume = volume.unwrap();
    let process = volume.process(Credentials::root());
    for number in 0..256 {
        file(&process, &format!("/{number}"), 128 << 10);
    }
    wait_for_the_background(&volume);
    let writers = Writers::of(&backend);
    set_budget(&process);
    let begin = Instant::now();
    while budgeted(&process) > BUDGET {
        // As busy as can be, and nothing of it stays.
        for _ in 0..100 {
            file(&process, "/scratch", 1);
            process.unlink("/scratch").unwrap();
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "no end");
    }
    let (own, others) = writers.calls();
    assert_eq!(own, 0, "files that an operation wrote; {others} by others");
    assert!(others >= 240, "{others} of 256 files");
}

#[test]
fn operations_that_bring_in_more_than_the_background_wins_back_pay_for_it() {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder()
        .workers(1)
        .backend(backend.clone())
        .build();
    let volume = volume.unwrap();
    let process = volume.process(Credentials::root());
    set_budget(&process);
    let writers = Writers::of(&backend);
    backend.set_delay(Duration::from_millis(1));
    let size = 128 << 10;
    for number in 0..64 {
        file(&process, &format!("/{number}"), size);
        let resident = budgeted(&process);
        let most = BUDGET + BUDGET / 8 + BUDGET / 64 + 2 * size as u64;
        assert!(resident <= most, "{resident} after {number}");
    }
    let (own, others) = writers.calls();
    assert!(own > 8, "{own} files by operations, {others} by others");
    assert!(others > 8, "{own} files by operations, {others} by others");
}

/// What others bring in meanwhile does not hide what a sweep won: nobody takes memory for stuck.
#[test]
fn memory_is_bounded_while_several_bring_in_more_than_anybody_wins_back() {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder()
        .workers(1)
        .backend(backend.clone())
        .build();
    let volume = volume.unwrap();
    let process = volume.process(Credentials::root());
    set_budget(&process);
    backend.set_delay(Duration::from_micros(100));
    const STREAMS: u64 = 4;
    let size = 64 << 10;
    std::thread::scope(|scope| {
        for stream in 0..STREAMS {
            let (process, volume) = (&process, &volume);
            scope.spawn(move || {
                let name = format!("/{stream}");
                let fd = process.open(&name, libc::O_CREAT | libc::O_WRONLY, 0o644);
                let fd = fd.unwrap();
                for _ in 0..48 {
                    process.write(fd, &vec![7; size]).unwrap();
                    let resident = volume.gauges().budgeted_bytes;
                    let slack = BUDGET / 8 + BUDGET / 64 + 3 * STREAMS * size as u64;
                    assert!(resident <= BUDGET + slack, "{resident}");
                }
                process.close(fd).unwrap();
            });
        }
    });
}

/// Before its first turn is over, operations win memory back themselves.
fn wait_for_the_background(volume: &Volume) {
    let has_begun = || {
        let tenants = volume.scheduler().stats().tenants;
        tenants.iter().any(|tenant| tenant.service.runs > 0)
    };
    until("the background has not begun", has_begun);
}

fn until(else_says: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < end, "{else_says}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The background's thread ends the volume's scheduler then, one of whose threads it is.
#[test]
fn a_volume_ends_that_is_dropped_while_its_background_writes_to_the_backend() {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder()
        .workers(1)
        .backend(backend.clone())
        .build();
    let volume = volume.unwrap();
    let process = volume.process(Credentials::root());
    file(&process, "/file", 2 << 20);
    wait_for_the_background(&volume);
    let (writes, written) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    backend.set_fault(Some(Box::new(move |call| {
        if call == "write_pages" {
            let _ = writes.send(std::fs::read_link("/proc/thread-self").unwrap());
            // At once when the test has gone on.
            let _ = goes_on.recv();
        }
        None
    })));
    set_budget(&process);
    let thread = written.recv_timeout(Duration::from_secs(60)).unwrap();
    drop(process);
    drop(volume);
    drop(go_on);
    let thread = Path::new("/proc").join(thread);
    until("the thread of the background stays", || !thread.exists());
    assert_eq!(Arc::strong_count(&backend), 1);
}

/// A volume with files whose backend panics so often when it is called by this name.
fn with_a_backend_that_panics(call: &'static str, panics: u64, errors: OnError) -> Volume {
    let backend = Arc::new(TestBackend::new());
    let builder = Volume::builder().workers(1).errors(errors);
    let volume = builder.backend(backend.clone()).build().unwrap();
    let process = volume.process(Credentials::root());
    for number in 0..64 {
        file(&process, &format!("/{number}"), 128 << 10);
    }
    wait_for_the_background(&volume);
    let mut left = panics;
    backend.set_fault(Some(Box::new(move |called| {
        if called == call && left > 0 {
            left -= 1;
            panic!("the backend breaks");
        }
        None
    })));
    volume
}

fn wait_for_the_budget(process: &Process) {
    let is_met = || budgeted(process) <= BUDGET;
    until("the background has ended", is_met);
}

#[test]
fn the_background_outlives_a_panic_and_meets_the_budget() {
    let volume = with_a_backend_that_panics("write_pages", 2, OnError::Continue);
    let process = volume.process(Credentials::root());
    let begin = Instant::now();
    set_budget(&process);
    wait_for_the_budget(&process);
    assert!(begin.elapsed() >= Duration::from_secs(1), "without a pause");
    assert_eq!(panics(&process), 2);
    assert!(!volume.read_only());
    for number in 0..64 {
        let fd = process
            .open(format!("/{number}"), libc::O_RDONLY, 0)
            .unwrap();
        let mut text = vec![0; 128 << 10];
        assert_eq!(process.read(fd, &mut text).unwrap(), 128 << 10);
        assert!(text.iter().all(|byte| *byte == 7), "{number}");
        process.close(fd).unwrap();
    }
}

#[test]
fn a_panic_in_the_background_makes_the_volume_read_only_as_any_other() {
    let volume = with_a_backend_that_panics("write_pages", 1, OnError::RemountRo);
    let process = volume.process(Credentials::root());
    set_budget(&process);
    wait_for_the_budget(&process);
    assert_eq!(panics(&process), 1);
    assert!(volume.read_only());
    assert_eq!(process.mkdir("/new", 0o755), Err(Errno::EROFS));
}

/// Nobody knows what such a backend has.
#[test]
fn a_panic_in_a_commit_latches_the_volume() {
    let volume = with_a_backend_that_panics("commit", 1, OnError::Continue);
    let process = volume.process(Credentials::root());
    set_budget(&process);
    until("nobody commits", || panics(&process) == 1);
    until("nothing is latched", || volume.read_only());
    assert_eq!(volume.sync(), Err(Errno::EIO));
    volume.set_read_only(false);
    assert!(volume.read_only(), "the backend takes nothing any more");
    assert_eq!(process.mkdir("/new", 0o755), Err(Errno::EROFS));
    let fd = process.open("/1", libc::O_RDONLY, 0).unwrap();
    let mut text = vec![0; 128 << 10];
    assert_eq!(process.read(fd, &mut text).unwrap(), 128 << 10);
    assert!(text.iter().all(|byte| *byte == 7));
}
