//! File locks. A wait for one can be ended by a signal.

use super::PyProcess;
use crate::error;
use hearth::{Errno, Interrupt, Process};
use hearth_sync::primitive::{Condvar, Mutex, thread};
use pyo3::prelude::*;
use std::time::Duration;

/// How often a wait asks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

#[pymethods]
impl PyProcess {
    /// Locks an open file: operation is fcntl.LOCK_SH, LOCK_EX or LOCK_UN, with LOCK_NB to raise
    /// BlockingIOError instead of waiting. Control-C ends a wait, and so does close() of the
    /// volume, with EBADF.
    fn flock(&self, py: Python<'_>, fd: i32, operation: i32) -> PyResult<()> {
        self.opened()?;
        let process = self.process.get();
        // The usual case needs no other thread.
        let at_once = py.detach(|| process.flock(fd, operation | libc::LOCK_NB));
        if at_once != Err(Errno::EAGAIN) || operation & libc::LOCK_NB != 0 {
            return at_once.map_err(error::of);
        }
        wait(py, process, fd, operation, || self.opened().map(drop))
    }
}

/// Waits in a thread of its own, and asks meanwhile for signals, which only the main thread may
/// handle, and whether the volume `is_open`: once it is closed nobody can unlock the file any more.
fn wait(
    py: Python<'_>,
    process: &Process,
    fd: i32,
    operation: i32,
    is_open: impl Fn() -> PyResult<()> + Send + Sync,
) -> PyResult<()> {
    let interrupt = Interrupt::new();
    let (done, changed) = (Mutex::new(None), Condvar::new());
    let waited = py.detach(|| {
        thread::scope(|scope| {
            let waiter = || {
                let result = process.flock_interruptible(fd, operation, &interrupt);
                *done.lock() = Some(result);
                changed.notify_all();
            };
            if let Err(failed) = thread::spawn_scoped(scope, "hearth-flock", waiter) {
                return Err(error::of(failed.into()));
            }
            loop {
                {
                    let mut done = done.lock();
                    if done.is_none() {
                        changed.wait_for(&mut done, SIGNALS);
                    }
                    if let Some(result) = *done {
                        return result.map_err(error::of);
                    }
                }
                let signals = Python::attach(|py| py.check_signals());
                if let Err(raised) = signals.and_then(|()| is_open()) {
                    interrupt.trigger();
                    return Err(raised);
                }
            }
        })
    });
    if waited.is_err() && *done.lock() == Some(Ok(())) {
        // Granted in the moment of the signal: the caller believes that it has no lock.
        let _ = process.flock(fd, libc::LOCK_UN);
    }
    waited
}
