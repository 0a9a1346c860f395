use super::super::lease::Reading;
use super::super::monitor::{excuse, has_work};
use super::super::phase::RESTS;
use super::*;
use crate::placement::cpu;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::thread;
use hearth_testing::threads::SetOnDrop;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

const MS: Duration = Duration::from_millis(1);
/// Nothing is readable there.
const NOWHERE: RawFd = -1;

/// A thread that has the policy, as far as it knows.
fn idle() -> ServingThread {
    let serving = ServingThread::join(&Arc::new(IdleMonitor::new()), NOWHERE);
    serving.shared.turn_to(IDLE);
    serving
}

/// Serves `requests`, each `after` the reply before.
fn answer(serving: &mut ServingThread, requests: u32, after: Duration) {
    for _ in 0..requests {
        let began = serving.ended + after;
        let ended = began + Duration::from_micros(1);
        serving.served(&Span { began, ended });
    }
}

fn excused(serving: &ServingThread) -> Duration {
    serving.shared.excused()
}

#[test]
fn a_thread_is_pressed_once_many_requests_came_at_once() {
    let mut serving = idle();
    answer(&mut serving, MANY - 1, PROMPT);
    assert!(!serving.is_pressed());
    answer(&mut serving, 1, PROMPT);
    assert!(serving.is_pressed());
    // Its client would not take its place.
    serving.shared.turn_to(RESTS);
    assert!(!serving.is_pressed());
    serving.shared.turn_to(IDLE);
    answer(&mut serving, 1, SOON * 2);
    answer(&mut serving, MANY - 1, PROMPT);
    assert!(!serving.is_pressed());
}

#[test]
fn a_late_request_among_many_prompt_ones_is_forgiven() {
    let mut serving = idle();
    for _ in 0..MANY {
        answer(&mut serving, LATE + 1, PROMPT);
        answer(&mut serving, 1, SOON);
    }
    assert!(serving.is_pressed());
    answer(&mut serving, 1000, PROMPT);
    answer(&mut serving, 2 * MANY / LATE, SOON);
    assert_eq!(serving.prompt, 0, "however many there were before");
}

#[test]
fn what_a_client_computes_in_a_threads_place_is_no_delay() {
    let mut serving = idle();
    let away = |serving: &mut ServingThread, time, most| {
        let ended = Instant::now() - time;
        serving.give_way(ended, most, || ());
        ended.elapsed()
    };
    let was_away = away(&mut serving, MS * 2, Duration::MAX);
    let first = excused(&serving);
    assert!(first >= MS * 2 - PROMPT && first <= was_away - PROMPT);
    let reading = excuse(&serving.shared, Reading::default());
    assert_eq!(reading.excused, first);
    away(&mut serving, MS * 2, MS);
    assert_eq!(excused(&serving), first, "so long it may have been another");
    serving.shared.turn_to(USUAL);
    away(&mut serving, MS * 2, Duration::MAX);
    assert_eq!(
        excused(&serving),
        first,
        "without the policy it waits like others"
    );
    serving.shared.turn_to(IDLE);
    away(&mut serving, MS * 3, Duration::MAX);
    assert!(excused(&serving) >= first + MS * 3 - PROMPT);
}

#[test]
fn a_thread_that_has_answered_has_nothing_to_do_until_a_request_comes() {
    let mut serving = idle();
    let (mut kernel, thread) = UnixStream::pair().unwrap();
    let shared = Arc::clone(&serving.shared);
    assert!(has_work(&shared, thread.as_raw_fd()));
    answer(&mut serving, 1, PROMPT);
    serving.give_way(Instant::now(), MS, || {
        assert!(!has_work(&shared, thread.as_raw_fd()));
        kernel.write_all(b"request").unwrap();
        assert!(has_work(&shared, thread.as_raw_fd()));
    });
    assert!(has_work(&shared, NOWHERE));
}

/// A watch at work, closed and joined at the end.
struct Watching(Arc<IdleMonitor>, Option<thread::JoinHandle<()>>);

impl Watching {
    fn new() -> Watching {
        let watch = Arc::new(IdleMonitor::new());
        let own = Arc::clone(&watch);
        Watching(watch, Some(thread::spawn(move || own.watch())))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.close();
        let _ = self.1.take().unwrap().join();
        assert!(self.0.is_empty());
    }
}

/// Waits, or serves, until the monitor has this thread in one of the phases.
fn until(serving: &mut ServingThread, phases: &[u32], mut wait: impl FnMut(&mut ServingThread)) {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let phase = serving.watch.at_rest(|| {
            let phase = serving.shared.phase();
            assert_eq!(cpu::is_idle(0), phase == IDLE);
            phase
        });
        if phases.contains(&phase) {
            return;
        }
        wait(serving);
        assert!(Instant::now() < limit, "{phase}, wanted: {phases:?}");
    }
}

fn serve_slowly(serving: &mut ServingThread) {
    let began = Instant::now();
    thread::sleep(Duration::from_micros(20));
    serving.served(&Span::since(began));
}

#[test]
fn a_thread_with_much_to_answer_gets_the_policy_and_loses_it_when_it_has_nothing_to_do() {
    let watching = Watching::new();
    let mut serving = ServingThread::join(&watching.0, NOWHERE);
    until(&mut serving, &[USUAL], |_| ());
    // It may have had it, and been delayed, where other tests compute.
    until(&mut serving, &[IDLE, RESTS], serve_slowly);
    until(&mut serving, &[USUAL], |_| {
        thread::sleep(Duration::from_millis(200));
    });
}

/// In one group with it: the thread would get 3 parts of 1,027 of the CPU.
#[test]
fn a_thread_beside_one_that_computes_gets_its_usual_policy_back() {
    let watching = Watching::new();
    let ends = Arc::new(AtomicBool::new(false));
    let cpu = cpu::online()[0];
    let watch = Arc::clone(&watching.0);
    let (begins, ended) = (Arc::clone(&ends), Arc::clone(&ends));
    let hog = thread::spawn(move || {
        cpu::pin(cpu);
        while !begins.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let serving = thread::spawn(move || {
        let _end = SetOnDrop(&ended);
        cpu::pin(cpu);
        let mut serving = ServingThread::join(&watch, NOWHERE);
        until(&mut serving, &[RESTS], serve_slowly);
    });
    serving.join().unwrap();
    hog.join().unwrap();
}

#[test]
fn a_watch_without_threads_ends_when_it_is_closed() {
    drop(Watching::new());
}
