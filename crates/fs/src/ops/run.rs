//! The loop that runs an operation until it has what it needs.
//!
//! An operation is a function of a [`Ctx`] and an epoch guard. When something that it needs is not
//! in memory it returns [`Stop::Miss`]; the loop drops the guard, fetches it and runs the operation
//! again. An operation therefore changes nothing before it has everything.

use super::ctx::Ctx;
use crate::caller::{Caller, Origin};
use crate::errno::{Errno, Result};
use crate::observer::FsEvent;
use crate::superblock::{Attempt, Fetch, Stop, Superblock};
use hearth_sync::epoch::{Guard, is_pinned, pin, throttle};
use hearth_sync::primitive::thread::yield_now;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// How long a change inside a callback waits for a cut, which waits for that callback if it began
/// before it.
const PATIENCE: Duration = Duration::from_secs(1);

/// One operation over all its attempts: what it has changed so far, for observers.
pub(crate) struct Run<'c> {
    sb: &'c Superblock,
    /// `None` unless anybody observes. In a box: mostly it is a word that stays 0.
    events: Option<Box<RefCell<Vec<FsEvent>>>>,
    allow_partial: bool,
}

impl Superblock {
    /// Runs an operation until it finishes, fetching what it misses, and notifies observers of what
    /// it changed.
    pub fn run<T>(
        &self,
        caller: &Caller<'_>,
        mut operation: impl FnMut(&Ctx<'_>, &Guard) -> Attempt<T>,
    ) -> Result<T> {
        self.keep_budget();
        throttle();
        let guard = pin();
        let run = Run::new(self, caller.origin, &guard);
        match run.attempt(caller, &mut operation, &guard) {
            Ok(value) => {
                run.end(guard);
                Ok(value)
            }
            Err(Stop::Errno(errno)) => {
                run.end(guard);
                Err(errno)
            }
            Err(stop) => {
                drop(guard);
                run.go_on(stop, caller, operation)
            }
        }
    }
}

impl Superblock {
    /// Runs an operation without waiting for the backend, and notifies observers of what it
    /// changed. Returns [`Stop::Errno`] or [`Stop::Miss`]; after a miss nothing has changed.
    pub fn try_run<T>(
        &self,
        caller: &Caller<'_>,
        mut operation: impl FnMut(&Ctx<'_>, &Guard) -> Attempt<T>,
    ) -> Attempt<T> {
        if let Some(bytes) = self.excess() {
            return Err(Stop::miss(Fetch::Room(bytes)));
        }
        throttle();
        let mut guard = pin();
        let run = Run::new(self, caller.origin, &guard);
        loop {
            match run.attempt(caller, &mut operation, &guard) {
                Ok(value) => {
                    run.end(guard);
                    return Ok(value);
                }
                Err(Stop::Restart) => {
                    drop(guard);
                    if self.is_durable() && is_pinned() {
                        // The caller has a guard too, and a cut that this waits for would wait for
                        // that one.
                        return Err(Stop::miss(Fetch::Turn));
                    }
                    yield_now();
                    guard = pin();
                }
                Err(Stop::Miss(miss)) => return Err(Stop::Miss(miss)),
                Err(stop) => {
                    run.end(guard);
                    return Err(stop);
                }
            }
        }
    }
}

impl<'c> Run<'c> {
    /// A run that has made no attempt. The memory budget is checked before, with nothing held.
    pub fn new(sb: &'c Superblock, origin: Origin, g: &Guard) -> Run<'c> {
        let is_observed = origin == Origin::Library && !sb.observers.load(g).is_empty();
        Run {
            sb,
            events: is_observed.then(Box::default),
            allow_partial: false,
        }
    }

    /// The caller accepts a partial result when the backend fails. A kernel does not: to it a short
    /// read is the end of the file.
    pub fn allowing_partial(mut self) -> Run<'c> {
        self.allow_partial = true;
        self
    }

    /// Runs the operation once.
    #[inline]
    pub fn attempt<T>(
        &self,
        caller: &Caller<'_>,
        operation: &mut impl FnMut(&Ctx<'_>, &Guard) -> Attempt<T>,
        g: &Guard,
    ) -> Attempt<T> {
        operation(&self.context(caller, false), g)
    }

    fn context<'a>(&'a self, caller: &'a Caller<'a>, allow_partial: bool) -> Ctx<'a> {
        Ctx {
            sb: self.sb,
            caller,
            events: self.events.as_deref(),
            allow_partial,
        }
    }

    /// Fetches what the last attempt missed and tries again until the end. Nothing may be pinned:
    /// the backend may block. If it fails to give a page, a last attempt may return a part, where
    /// that is [allowed](Self::allowing_partial). Observers also hear of what a failed operation
    /// changed. `EDEADLK` where the caller is pinned and a cut waits for that.
    #[cold]
    pub fn go_on<T>(
        self,
        mut stop: Stop,
        caller: &Caller<'_>,
        mut operation: impl FnMut(&Ctx<'_>, &Guard) -> Attempt<T>,
    ) -> Result<T> {
        let mut failed = None;
        let mut turned_back = None;
        let errno = loop {
            match stop {
                Stop::Miss(miss) => {
                    if let Some(errno) = failed {
                        break errno;
                    }
                    if let Err(errno) = self.sb.fetch(&miss) {
                        if !self.allow_partial || !matches!(*miss, Fetch::Page { .. }) {
                            break errno;
                        }
                        failed = Some(errno);
                    }
                }
                Stop::Restart if self.sb.is_durable() && is_pinned() => {
                    // In a callback of the library. A cut that began before it waits for its end.
                    let since = *turned_back.get_or_insert_with(Instant::now);
                    if since.elapsed() > PATIENCE {
                        break Errno::EDEADLK;
                    }
                    yield_now();
                }
                Stop::Restart => yield_now(),
                Stop::Errno(errno) => break errno,
            }
            let guard = pin();
            let cx = self.context(caller, failed.is_some());
            stop = match operation(&cx, &guard) {
                Ok(value) => {
                    self.end(guard);
                    return Ok(value);
                }
                Err(stop) => stop,
            };
        };
        self.end(pin());
        Err(errno)
    }

    /// Notifies observers. Neither the run nor the result is moved through here: that would cost
    /// more than everything else.
    #[inline(always)]
    pub fn end(&self, guard: Guard) {
        if let Some(events) = &self.events {
            self.sb.notify(&events.borrow(), guard);
        }
    }
}

impl Superblock {
    #[cold]
    fn notify(&self, events: &[FsEvent], guard: Guard) {
        let observers = self.observers.load(&guard).clone();
        drop(guard);
        for event in events {
            observers
                .iter()
                .for_each(|observer| event.notify(&**observer));
        }
    }
}
