//! An answering thread's own side of the watch.

use super::be_usual;
use super::lease::USUAL as PROMPT;
use super::monitor::IdleMonitor;
use super::phase::{IDLE, ThreadShared, USUAL};
use crate::wait::outcome::Span;
use hearth_sync::primitive::Arc;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Requests that a thread answers before it asks, and that come promptly before it is pressed.
const MANY: u32 = 64;
/// A request that comes no later than this is soon, though not prompt.
const SOON: Duration = Duration::from_millis(1);
/// Prompt requests that one of those takes back.
const LATE: u32 = 4;

/// An answering thread's own side. Dropped by that thread.
pub(crate) struct ServingThread {
    watch: Arc<IdleMonitor>,
    shared: Arc<ThreadShared>,
    requests: u32,
    /// When the last answer was ready.
    ended: Instant,
    /// Requests, two times [`MANY`] at most, that came no later than a client takes who does
    /// nothing in between; less [`LATE`] for each that came later, all for one that came long
    /// after.
    prompt: u32,
}

impl ServingThread {
    /// The calling thread answers requests. `source` is readable while one waits that nobody has
    /// taken, and stays open until this is dropped.
    pub fn join(watch: &Arc<IdleMonitor>, source: RawFd) -> ServingThread {
        ServingThread {
            shared: watch.join(source),
            watch: Arc::clone(watch),
            requests: 0,
            ended: Instant::now(),
            prompt: 0,
        }
    }

    /// The thread has answered, or is about to.
    #[inline]
    pub fn served(&mut self, span: &Span) {
        let came = span.began.saturating_duration_since(self.ended);
        self.prompt = if came <= PROMPT {
            (self.prompt + 1).min(2 * MANY)
        } else if came <= SOON {
            self.prompt.saturating_sub(LATE)
        } else {
            0
        };
        self.ended = span.ended;
        self.requests += 1;
        if self.requests == MANY {
            self.requests = 0;
            // Nobody but this thread leaves that phase.
            if self.shared.phase() == USUAL {
                self.watch.ask(&self.shared);
            }
        }
    }

    /// Whether whoever is answered takes the processor of this thread, which has the policy, and
    /// clients have long been coming with their next requests at once.
    #[inline]
    pub fn is_pressed(&self) -> bool {
        self.prompt >= MANY && self.shared.phase() == IDLE
    }

    /// Calls `give`, which does nothing but give the answer that is ready since `ended`. With the
    /// policy, the kernel lets whoever gets it go on in the place of this thread, which is ready to
    /// run meanwhile and has nothing to do: if that was no longer than `most`, it does not count as
    /// waiting.
    #[inline]
    pub fn give_way<R>(&mut self, ended: Instant, most: Duration, give: impl FnOnce() -> R) -> R {
        if self.shared.phase() != IDLE {
            return give();
        }
        self.shared.set_free(true);
        let given = give();
        self.shared.set_free(false);
        let away = ended.elapsed();
        // So much is nobody's delay anyway, and covers what giving takes.
        if away > PROMPT && away <= most {
            self.shared.add_excused(away - PROMPT);
        }
        given
    }
}

impl Drop for ServingThread {
    fn drop(&mut self) {
        be_usual();
        self.watch.leave(&self.shared);
        // If it had asked, and was given it since.
        be_usual();
    }
}

#[cfg(test)]
mod tests {
    use super::super::lease::Reading;
    use super::super::monitor::{excuse, has_work};
    use super::super::phase::RESTS;
    use super::*;
    use crate::placement::cpu;
    use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
    use hearth_sync::primitive::thread;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    const MS: Duration = Duration::from_millis(1);
    /// Nothing is readable there.
    const NOWHERE: RawFd = -1;

    /// A thread that has the policy, as far as it knows.
    fn idle() -> ServingThread {
        let answering = ServingThread::join(&Arc::new(IdleMonitor::new()), NOWHERE);
        answering.shared.turn_to(IDLE);
        answering
    }

    /// Answers `requests`, each so long after the answer before.
    fn answer(answering: &mut ServingThread, requests: u32, after: Duration) {
        for _ in 0..requests {
            let began = answering.ended + after;
            let ended = began + Duration::from_micros(1);
            answering.served(&Span { began, ended });
        }
    }

    fn excused(answering: &ServingThread) -> Duration {
        answering.shared.excused()
    }

    #[test]
    fn a_thread_is_pressed_once_many_requests_came_at_once() {
        let mut answering = idle();
        answer(&mut answering, MANY - 1, PROMPT);
        assert!(!answering.is_pressed());
        answer(&mut answering, 1, PROMPT);
        assert!(answering.is_pressed());
        // Its client would not take its place.
        answering.shared.turn_to(RESTS);
        assert!(!answering.is_pressed());
        answering.shared.turn_to(IDLE);
        answer(&mut answering, 1, SOON * 2);
        answer(&mut answering, MANY - 1, PROMPT);
        assert!(!answering.is_pressed());
    }

    #[test]
    fn a_late_request_among_many_prompt_ones_is_forgiven() {
        let mut answering = idle();
        for _ in 0..MANY {
            answer(&mut answering, LATE + 1, PROMPT);
            answer(&mut answering, 1, SOON);
        }
        assert!(answering.is_pressed());
        answer(&mut answering, 1000, PROMPT);
        answer(&mut answering, 2 * MANY / LATE, SOON);
        assert_eq!(answering.prompt, 0, "however many there were before");
    }

    #[test]
    fn what_a_client_computes_in_a_threads_place_is_no_delay() {
        let mut answering = idle();
        let away = |answering: &mut ServingThread, time, most| {
            let ended = Instant::now() - time;
            answering.give_way(ended, most, || ());
            ended.elapsed()
        };
        let was_away = away(&mut answering, MS * 2, Duration::MAX);
        let first = excused(&answering);
        assert!(first >= MS * 2 - PROMPT && first <= was_away - PROMPT);
        let reading = excuse(&answering.shared, Reading::default());
        assert_eq!(reading.excused, first);
        away(&mut answering, MS * 2, MS);
        assert_eq!(
            excused(&answering),
            first,
            "so long it may have been another"
        );
        answering.shared.turn_to(USUAL);
        away(&mut answering, MS * 2, Duration::MAX);
        assert_eq!(
            excused(&answering),
            first,
            "without the policy it waits like others"
        );
        answering.shared.turn_to(IDLE);
        away(&mut answering, MS * 3, Duration::MAX);
        assert!(excused(&answering) >= first + MS * 3 - PROMPT);
    }

    #[test]
    fn a_thread_that_has_answered_has_nothing_to_do_until_a_request_comes() {
        let mut answering = idle();
        let (mut kernel, thread) = UnixStream::pair().unwrap();
        let shared = Arc::clone(&answering.shared);
        assert!(has_work(&shared, thread.as_raw_fd()));
        answer(&mut answering, 1, PROMPT);
        answering.give_way(Instant::now(), MS, || {
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

    /// Waits, or answers, until the watch has this thread in one of the phases.
    fn until(
        answering: &mut ServingThread,
        phases: &[u32],
        mut wait: impl FnMut(&mut ServingThread),
    ) {
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            let phase = answering.watch.at_rest(|| {
                let phase = answering.shared.phase();
                assert_eq!(cpu::is_idle(0), phase == IDLE);
                phase
            });
            if phases.contains(&phase) {
                return;
            }
            wait(answering);
            assert!(Instant::now() < limit, "{phase}, wanted: {phases:?}");
        }
    }

    fn answer_slowly(answering: &mut ServingThread) {
        let began = Instant::now();
        thread::sleep(Duration::from_micros(20));
        answering.served(&Span::since(began));
    }

    #[test]
    fn a_thread_with_much_to_answer_gets_the_policy_and_loses_it_when_it_has_nothing_to_do() {
        let watching = Watching::new();
        let mut answering = ServingThread::join(&watching.0, NOWHERE);
        until(&mut answering, &[USUAL], |_| ());
        // It may have had it, and been delayed, where other tests compute.
        until(&mut answering, &[IDLE, RESTS], answer_slowly);
        until(&mut answering, &[USUAL], |_| {
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
        let answering = thread::spawn(move || {
            let _ends = Ends(ended);
            cpu::pin(cpu);
            let mut answering = ServingThread::join(&watch, NOWHERE);
            until(&mut answering, &[RESTS], answer_slowly);
        });
        answering.join().unwrap();
        hog.join().unwrap();
    }

    /// Ends the hog however the test ends.
    struct Ends(Arc<AtomicBool>);

    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_watch_without_threads_ends_when_it_is_closed() {
        drop(Watching::new());
    }
}
