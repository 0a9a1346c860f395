//! The side of a serving thread.

use super::be_usual;
use super::lease::USUAL as PROMPT;
use super::monitor::IdleMonitor;
use super::phase::{IDLE, ThreadShared, USUAL};
use crate::wait::outcome::Span;
use hearth_sync::primitive::Arc;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Requests that a thread handles before it asks for the policy. Also the value of `prompt` from
/// which on it is pressed.
const MANY: u32 = 64;
/// The longest time after a reply at which a request that is not prompt still counts as soon.
const SOON: Duration = Duration::from_millis(1);
/// Prompt requests that one such request cancels.
const LATE: u32 = 4;

/// A serving thread's own state. Dropped by that thread.
pub(crate) struct ServingThread {
    watch: Arc<IdleMonitor>,
    shared: Arc<ThreadShared>,
    requests: u32,
    /// When the last reply was ready.
    ended: Instant,
    /// Prompt requests, two times [`MANY`] at most. A prompt request comes within the time that a
    /// client takes that does nothing in between. A request that comes a little later subtracts
    /// [`LATE`]. One that comes long after sets this to 0.
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
            // Only this thread leaves that phase.
            if self.shared.phase() == USUAL {
                self.watch.ask(&self.shared);
            }
        }
    }

    /// Whether this thread has the policy, so that a client that gets a reply takes its processor,
    /// and clients have sent their next requests at once for a while.
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
        // A wait of `PROMPT` is never a delay, and covers what sending takes.
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
        // The thread may have asked before, and may have been given the policy since.
        be_usual();
    }
}

#[cfg(test)]
#[path = "thread_tests.rs"]
mod tests;
