//! An answering thread's own side of the watch.

use super::be_usual;
use super::stay::{Reading, USUAL as PROMPT};
use super::watch::IdleWatch;
use crate::service::Span;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Requests that a thread answers before it asks, and that come promptly before it is pressed.
const MANY: u32 = 64;
/// A request that comes no later than this is soon, though not prompt.
const SOON: Duration = Duration::from_millis(1);
/// Prompt requests that one of those takes back.
const LATE: u32 = 4;

pub(super) const USUAL: u32 = 0;
pub(super) const WANTS: u32 = 1;
pub(super) const IDLE: u32 = 2;
pub(super) const RESTS: u32 = 3;
pub(super) const NEVER: u32 = 4;

/// What a thread and the watch share, on cache lines of its own. Relaxed: each word is looked at by
/// itself; of the phase each step is made by one of both sides, and the thread alone writes the
/// others.
#[repr(align(128))]
pub(super) struct Shared {
    phase: AtomicU32,
    /// It has answered what it took, and may be ready to run though it has nothing to do.
    rests: AtomicBool,
    /// Nanoseconds that it was ready to run in vain, since it joined.
    excused: AtomicU64,
}

impl Shared {
    pub fn new() -> Shared {
        Shared {
            phase: AtomicU32::new(USUAL),
            rests: AtomicBool::new(false),
            excused: AtomicU64::new(0),
        }
    }

    pub fn phase(&self) -> u32 {
        self.phase.load(Relaxed)
    }

    pub fn turn_to(&self, phase: u32) {
        self.phase.store(phase, Relaxed);
    }

    /// Whether it works on a request, or one waits at `source`.
    pub fn has_work(&self, source: RawFd) -> bool {
        !self.rests.load(Relaxed) || is_readable(source)
    }

    /// A reading with what kept nobody waiting.
    pub fn excuse(&self, reading: Reading) -> Reading {
        Reading {
            excused: Duration::from_nanos(self.excused.load(Relaxed)),
            ..reading
        }
    }
}

/// An answering thread's own side. Dropped by that thread.
pub(crate) struct Answering {
    pub(super) watch: Arc<IdleWatch>,
    pub(super) shared: Arc<Shared>,
    requests: u32,
    /// When the last answer was ready.
    ended: Instant,
    /// Requests, two times [`MANY`] at most, that came no later than a client takes who does nothing
    /// in between; less [`LATE`] for each that came later, all of them for one that came long after.
    prompt: u32,
}

impl Answering {
    pub(super) fn new(watch: Arc<IdleWatch>, shared: Arc<Shared>) -> Answering {
        Answering {
            watch,
            shared,
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
        self.shared.rests.store(true, Relaxed);
        let given = give();
        self.shared.rests.store(false, Relaxed);
        let away = ended.elapsed();
        // So much is nobody's delay anyway, and covers what giving takes.
        if away > PROMPT && away <= most {
            let more = (away - PROMPT).as_nanos() as u64;
            let excused = self.shared.excused.load(Relaxed) + more;
            self.shared.excused.store(excused, Relaxed);
        }
        given
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        be_usual();
        self.watch.leave(&self.shared);
        // If it had asked, and was given it since.
        be_usual();
    }
}

/// Whether a descriptor has something to read.
fn is_readable(source: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd: source,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, which is written to; it does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    const MS: Duration = Duration::from_millis(1);

    /// A thread that has the policy, as far as it knows.
    fn idle() -> Answering {
        let answering = Arc::new(IdleWatch::new()).join(-1);
        answering.shared.turn_to(IDLE);
        answering
    }

    /// Answers `requests`, each so long after the answer before.
    fn answer(answering: &mut Answering, requests: u32, after: Duration) {
        for _ in 0..requests {
            let began = answering.ended + after;
            let ended = began + Duration::from_micros(1);
            answering.served(&Span { began, ended });
        }
    }

    fn excused(answering: &Answering) -> Duration {
        Duration::from_nanos(answering.shared.excused.load(Relaxed))
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
        let away = |answering: &mut Answering, time, most| {
            let ended = Instant::now() - time;
            answering.give_way(ended, most, || ());
            ended.elapsed()
        };
        let was_away = away(&mut answering, MS * 2, Duration::MAX);
        let first = excused(&answering);
        assert!(first >= MS * 2 - PROMPT && first <= was_away - PROMPT);
        let reading = answering.shared.excuse(Reading::default());
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
        assert!(shared.has_work(thread.as_raw_fd()));
        answer(&mut answering, 1, PROMPT);
        answering.give_way(Instant::now(), MS, || {
            assert!(!shared.has_work(thread.as_raw_fd()));
            kernel.write_all(b"request").unwrap();
            assert!(shared.has_work(thread.as_raw_fd()));
        });
        assert!(shared.has_work(-1));
    }
}
