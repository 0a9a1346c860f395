//! A lock call under way, on a thread that shares everything with the process that made it.

#![allow(
    dead_code,
    reason = "not every suite that uses this file has calls that wait"
)]

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_model::{Op, Outcome};

use super::calls::call;
use super::lock_calls;

/// A limit for something that takes milliseconds unless it fails.
pub const LONG: Duration = Duration::from_secs(5);

/// A signal handler that only ends the wait of a call.
const SIGNAL: i32 = libc::SIGUSR1;

/// A call without a result so far.
pub struct Asked {
    thread: JoinHandle<()>,
    /// The kernel's number of the thread.
    id: usize,
    outcome: Receiver<Outcome>,
}

impl Asked {
    /// Begins a call of the process that the calling thread belongs to.
    pub fn begin(op: Op) -> Asked {
        be_interrupted();
        let (begins, begun) = channel();
        let (tells, outcome) = channel();
        let thread = std::thread::spawn(move || {
            let id = call(libc::SYS_gettid, &[]).expect("gettid never fails");
            let _ = begins.send(id);
            let _ = tells.send(lock_calls::wait(&op));
        });
        let id = begun.recv().expect("the thread begins");
        Asked {
            thread,
            id,
            outcome,
        }
    }

    /// Interrupts the call if it waits.
    pub fn interrupt(&self) {
        let process = std::process::id() as usize;
        let _ = call(libc::SYS_tgkill, &[process, self.id, SIGNAL as usize]);
    }

    /// Returns whether it has no result yet.
    pub fn is_under_way(&self) -> bool {
        matches!(self.outcome.try_recv(), Err(TryRecvError::Empty))
    }

    /// Returns its result; `None` if it does not come.
    pub fn answer(self) -> Option<Outcome> {
        let outcome = self.outcome.recv_timeout(LONG).ok()?;
        self.thread.join().ok()?;
        Some(outcome)
    }
}

/// Without `SA_RESTART` a signal ends a waiting call with `EINTR`.
fn be_interrupted() {
    extern "C" fn ignore(_: i32) {}
    // SAFETY: an all-zero sigaction has an empty mask and no flags, and the handler does nothing.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as extern "C" fn(i32) as usize;
        libc::sigaction(SIGNAL, &action, std::ptr::null_mut())
    };
    assert_eq!(done, 0, "a handler of {SIGNAL}");
}
