//! Operations for threads that may not wait.
//!
//! A library thread that lacks something waits for the backend. A thread that serves a queue must
//! not: it runs its request inside of [`without_waiting`], and when something is absent the
//! operation ends with [`Errno::ABSENT`], having changed nothing, and what it lacked is handed out.
//! Whoever may wait brings it with [`Volume::bring`]; then the request runs again from the start.

use super::Volume;
use crate::errno::{Errno, Result};
use crate::superblock::Fetch;
use hearth_sync::primitive::thread_local;
use std::cell::{Cell, RefCell};

/// What an operation lacked.
#[derive(Debug)]
pub struct Absent(Fetch);

thread_local! {
    static HERE: Here = Here::default();
}

#[derive(Default)]
struct Here {
    waits_not: Cell<bool>,
    /// The last thing that was absent.
    absent: RefCell<Option<Fetch>>,
}

/// Runs `work` without waiting for the backend. If it answers [`Errno::ABSENT`], the other part of
/// the result is what it lacked.
#[inline]
pub fn without_waiting<T>(work: impl FnOnce() -> Result<T>) -> (Result<T>, Option<Absent>) {
    let _inside = Inside(HERE.with(|here| here.waits_not.replace(true)));
    match work() {
        Err(Errno::ABSENT) => {
            let absent = HERE.with(|here| here.absent.take());
            (Err(Errno::ABSENT), absent.map(Absent))
        }
        result => (result, None),
    }
}

/// Whether operations on this thread may wait for the backend now.
pub fn may_wait() -> bool {
    HERE.with(|here| !here.waits_not.get())
}

/// Leaves something to be brought by somebody who may wait.
#[cold]
pub(crate) fn leave(load: Fetch) -> Errno {
    HERE.with(|here| here.absent.replace(Some(load)));
    Errno::ABSENT
}

struct Inside(bool);

impl Drop for Inside {
    fn drop(&mut self) {
        HERE.with(|here| here.waits_not.set(self.0));
    }
}

impl Volume {
    /// Brings what an operation lacked; may wait for the backend. Then the operation is to be run
    /// again.
    ///
    /// # Errors
    /// What the backend answers, and then the operation's answer as well.
    pub fn bring(&self, absent: &Absent) -> Result<()> {
        // Before, so that what is brought is not won back at once. This thread's core is not the
        // one whose operations look at the budget.
        if !matches!(absent.0, Fetch::Room(_)) {
            self.sb.keep_budget()?;
        }
        self.sb.fetch(&absent.0)
    }
}
