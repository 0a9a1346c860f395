//! The side of a serving thread.

use super::be_usual;
use super::lease::USUAL as PROMPT;
use super::monitor::IdleMonitor;
use super::phase::{IDLE, ThreadShared, USUAL};
use crate::wait::outcome::Span;
use hearth_sync::primitive::Arc;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Requests that a thread handles before it asks for the policy, and prompt requests after which it
/// is pressed.
const MANY: u32 = 64;
/// A request that comes no later than this is soon, though not prompt.
const SOON: Duration = Duration::from_millis(1);
/// Prompt requests that one of those takes back.
const LATE: u32 = 4;

/// A serving thread's own state. Dropped by that thread.
pub(crate) struct ServingThread {
    watch: Arc<IdleMonitor>,
    shared: Arc<ThreadShared>,
    requests: u32,
    /// When the last reply was ready.
    ended: Instant,
    /// Requests, two times [`MANY`] at most, that came no later than a client takes who does
    /// nothing in between; less [`LATE`] for each that came later, all for one that came long
    /// after.
    prompt: u32,
}

impl ServingThread {
    /// Registers the calling thread, which serves requests. `source` is readable while one waits
    /// that nobody has taken, and stays open until this is dropped.
    pub fn join(watch: &Arc<IdleMonitor>, source: RawFd) -> ServingThread {
        ServingThread {
            shared: watch.join(source),
            watch: Arc::clone(watch),
            requests: 0,
            ended: Instant::now(),
            prompt: 0,
        }
    }

    /// The thread has replied, or is about to.
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

    /// Whether a client that gets a reply takes the processor of this thread, which has the policy,
    /// and clients have long sent their next requests at once.
    #[inline]
    pub fn is_pressed(&self) -> bool {
        self.prompt >= MANY && self.shared.phase() == IDLE
    }

    /// Calls `give`, which does nothing but send the reply that is ready since `ended`. With the
    /// policy, the kernel runs the client in the place of this thread, which is ready to run
    /// meanwhile and has nothing to do. If that took no longer than `most`, it does not count as
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
        // This much is never a delay, and covers what sending takes.
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
#[path = "thread_tests.rs"]
mod tests;
