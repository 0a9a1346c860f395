//! The idle monitor: decides which serving threads have the policy `SCHED_IDLE`.
//!
//! A thread with many requests asks for the policy; the monitor, a thread of its own with the
//! usual one, gives it, and takes it back as soon as others keep the thread from its work, or when
//! it has nothing to do.
//!
//! | from | to | who | when |
//! |---|---|---|---|
//! | `USUAL` | `WANTS` | the thread | it has handled 64 requests since it asked last |
//! | `WANTS` | `IDLE` | the monitor | at once; `NEVER` if the kernel refuses |
//! | `IDLE` | `USUAL` | the monitor | the thread was idle for a while, or gave the policy up |
//! | `IDLE` | `RESTS` | the monitor | the thread was delayed |
//! | `RESTS` | `USUAL` | the monitor | its rest is over |
//!
//! Lock order: the lock of the monitor is a leaf. A thread that has the policy does not take it:
//! the monitor would wait for a thread that may be kept from running.

use super::lease::{Files, Lease, Reading, Rest, Verdict};
use super::phase::{IDLE, NEVER, RESTS, ThreadShared, USUAL, WANTS};
use crate::placement::cpu;
use crate::transport::event::is_readable;
use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// The pause between two looks: `SHORT` after a thread got the policy, `LONG` after many looks that
/// found all well. The kernel counts how long a thread has run at its ticks, every 1 to 10 ms.
const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_millis(16);

lock_class!(WatchLock = "fuse.policy", 991);

/// The serving threads of a session, and the monitor's side of them.
pub(crate) struct IdleMonitor {
    state: Lock<WatchLock, MonitorState>,
    wake: Condition,
}

#[derive(Default)]
struct MonitorState {
    threads: Vec<Monitored>,
    is_woken: bool,
    is_closed: bool,
}

/// One thread, as the monitor sees it.
struct Monitored {
    thread: libc::pid_t,
    shared: Arc<ThreadShared>,
    /// Readable while a request waits that nobody has taken.
    source: RawFd,
    /// Present while the thread has the policy.
    lease: Option<(Lease, Files)>,
    rest: Rest,
    /// The end of the rest; present while the thread rests.
    until: Option<Instant>,
}

impl IdleMonitor {
    /// No threads yet.
    pub fn new() -> IdleMonitor {
        IdleMonitor {
            state: Lock::new(MonitorState::default()),
            wake: Condition::new(),
        }
    }

    /// Registers the calling thread, which serves requests. `source` is readable while one waits
    /// that nobody has taken, and stays open until the thread leaves.
    pub(super) fn join(&self, source: RawFd) -> Arc<ThreadShared> {
        let shared = Arc::new(ThreadShared::new());
        let thread = Monitored {
            thread: cpu::this_thread(),
            shared: Arc::clone(&shared),
            source,
            lease: None,
            rest: Rest::default(),
            until: None,
        };
        self.state.lock().threads.push(thread);
        shared
    }

    /// Asks for `SCHED_IDLE` on behalf of the calling thread, which has the usual policy.
    pub(super) fn ask(&self, shared: &ThreadShared) {
        let mut state = self.state.lock();
        // All of this happens under the lock: a thread that holds this lock, or the condition's,
        // must not be given the policy.
        shared.turn_to(WANTS);
        state.is_woken = true;
        self.wake.notify_one();
    }

    /// Unregisters a thread that is about to end.
    pub(super) fn leave(&self, shared: &Arc<ThreadShared>) {
        // The number of a thread that has ended may soon be another's.
        let threads = &mut self.state.lock().threads;
        threads.retain(|thread| !Arc::ptr_eq(&thread.shared, shared));
    }

    /// Calls `look` while the monitor does nothing.
    #[cfg(test)]
    pub(super) fn at_rest<R>(&self, look: impl FnOnce() -> R) -> R {
        let _state = self.state.lock();
        look()
    }

    /// Whether no thread is watched.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().threads.is_empty()
    }

    /// Looks at the threads until the monitor is closed.
    pub fn watch(&self) {
        let mut pause = SHORT;
        let mut state = self.state.lock();
        while !state.is_closed {
            let now = Instant::now();
            let mut is_close = false;
            for thread in &mut state.threads {
                is_close |= thread.look(now);
            }
            pause = if is_close { SHORT } else { LONG.min(pause * 2) };
            let limits = state
                .threads
                .iter()
                .filter_map(|thread| thread.limit(now, pause));
            if let Some(limit) = limits.min() {
                if !state.is_woken {
                    state.wait_for(&self.wake, limit);
                }
            } else {
                while !state.is_woken && !state.is_closed {
                    state.wait(&self.wake);
                }
            }
            state.is_woken = false;
        }
    }

    /// Ends the monitor. Threads that have the policy keep it: they end as well.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake.notify_one();
    }
}

impl Monitored {
    /// Does what is due for the thread now. Returns whether the next look should be soon.
    fn look(&mut self, now: Instant) -> bool {
        match self.shared.phase() {
            WANTS => {
                let begun = self.begin(now).is_ok();
                self.shared.turn_to(if begun { IDLE } else { NEVER });
                begun
            }
            IDLE => self.look_closer(now),
            RESTS if self.until.is_none_or(|until| until <= now) => {
                self.shared.turn_to(USUAL);
                false
            }
            _ => false,
        }
    }

    fn begin(&mut self, now: Instant) -> io::Result<()> {
        // This thread first: the program may have given up its right to take the policy back.
        cpu::be_idle(0)?;
        cpu::be_other(0)?;
        let files = Files::of(self.thread)?;
        let lease = Lease::begin(now, excuse(&self.shared, files.read()?));
        cpu::be_idle(self.thread)?;
        self.lease = Some((lease, files));
        Ok(())
    }

    fn look_closer(&mut self, now: Instant) -> bool {
        let Some((lease, files)) = &mut self.lease else {
            return false;
        };
        let found = match files.read() {
            // The thread gave the policy up to start another thread.
            _ if !cpu::is_idle(self.thread) => Verdict::Quiet,
            Ok(reading) => {
                let is_kept =
                    || files.is_runnable().unwrap_or(true) && has_work(&self.shared, self.source);
                lease.look(now, excuse(&self.shared, reading), is_kept)
            }
            // The thread's counts can no longer be read.
            Err(_) => Verdict::Delayed,
        };
        let next = match found {
            Verdict::Well => return false,
            Verdict::Stuck => return true,
            Verdict::Quiet => USUAL,
            Verdict::Delayed => {
                self.until = Some(self.rest.begin(now));
                RESTS
            }
        };
        self.lease = None;
        // If the program has given up its right to do so, the thread at least never asks again.
        let left = cpu::be_other(self.thread).is_ok();
        self.shared.turn_to(if left { next } else { NEVER });
        false
    }

    /// The time until the monitor has to look again if no thread asks.
    fn limit(&self, now: Instant, pause: Duration) -> Option<Duration> {
        match self.shared.phase() {
            IDLE => Some(pause),
            RESTS => self.until.map(|until| until.saturating_duration_since(now)),
            // The thread has just asked, and that wakes the monitor.
            _ => None,
        }
    }
}

/// `reading` with the time that, by the thread's own account, kept nobody waiting.
pub(super) fn excuse(shared: &ThreadShared, reading: Reading) -> Reading {
    Reading {
        excused: shared.excused(),
        ..reading
    }
}

/// Whether the thread works on a request, or one waits at `source`.
pub(super) fn has_work(shared: &ThreadShared, source: RawFd) -> bool {
    !shared.is_free() || is_readable(source)
}
