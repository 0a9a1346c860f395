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

/// How long an operation inside a callback waits for what may wait for that callback: a change for
/// a cut that began before it, a call for an offset or a file lock of another thread.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// One operation over all its attempts: what it has changed so far, for observers, and what has
/// come between them.
// Goes by value: an operation that needs one attempt keeps it in registers.
pub(crate) struct Run<'c> {
    sb: &'c Superblock,
    /// `None` unless anybody observes. In a box: mostly it is a word that stays 0.
    events: Option<Box<RefCell<Vec<FsEvent>>>>,
    allow_partial: bool,
    /// The next attempt may return a part: the backend could not give a page.
    is_partial: bool,
    /// `None` until an attempt has missed something.
    missed: Option<Box<Missed>>,
}

/// What has come between the attempts of an operation.
#[derive(Default)]
struct Missed {
    /// Why the backend could not give a page.
    failed: Option<Errno>,
    /// Since when a cut has turned the operation back, in a callback.
    turned_back: Option<Instant>,
}

impl Superblock {
    /// Runs an operation until it finishes, fetching what it misses, and notifies observers of what
    /// it changed.
    // Like `Process::run`, it has the operation once in its code: only so is it inlined.
    pub fn run<T>(
        &self,
        caller: &Caller<'_>,
        mut operation: impl FnMut(&Ctx<'_>, &Guard) -> Attempt<T>,
    ) -> Result<T> {
        self.keep_budget();
        throttle();
        let mut guard = pin();
        let mut run = Run::new(self, caller.origin, &guard);
        loop {
            match operation(&run.context(caller), &guard) {
                Ok(value) => {
                    run.end(guard);
                    return Ok(value);
                }
                Err(Stop::Errno(errno)) => {
                    run.end(guard);
                    return Err(errno);
                }
                Err(stop) => (run, guard) = run.after(stop, guard)?,
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
            match operation(&run.context(caller), &guard) {
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
            is_partial: false,
            missed: None,
        }
    }

    /// The caller accepts a partial result when the backend fails. A kernel does not: to it a short
    /// read is the end of the file.
    pub fn allowing_partial(mut self) -> Run<'c> {
        self.allow_partial = true;
        self
    }

    /// The context of the next attempt.
    #[inline]
    pub fn context<'a>(&'a self, caller: &'a Caller<'a>) -> Ctx<'a> {
        Ctx {
            sb: self.sb,
            caller,
            events: self.events.as_deref(),
            allow_partial: self.is_partial,
        }
    }

    /// Fetches what the last attempt missed; returns a guard for the next one. Nothing else may be
    /// pinned: the backend may block. If it fails to give a page, a last attempt may return a part,
    /// where that is [allowed](Self::allowing_partial). Observers also hear of what a failed
    /// operation changed. `EDEADLK` where the caller is pinned and a cut waits for that.
    #[cold]
    #[inline(never)]
    pub fn after(mut self, stop: Stop, guard: Guard) -> Result<(Run<'c>, Guard)> {
        drop(guard);
        match self.get_ready(stop) {
            Ok(()) => Ok((self, pin())),
            Err(errno) => {
                self.end(pin());
                Err(errno)
            }
        }
    }

    fn get_ready(&mut self, stop: Stop) -> Result<()> {
        let missed = self.missed.get_or_insert_default();
        match stop {
            Stop::Errno(errno) => return Err(errno),
            Stop::Miss(miss) => {
                if let Some(errno) = missed.failed {
                    return Err(errno);
                }
                if let Err(errno) = self.sb.fetch(&miss) {
                    if !self.allow_partial || !matches!(*miss, Fetch::Page { .. }) {
                        return Err(errno);
                    }
                    missed.failed = Some(errno);
                    self.is_partial = true;
                }
            }
            Stop::Restart => {
                if self.sb.is_durable() && is_pinned() {
                    // In a callback of the library. A cut that began before it waits for its end.
                    let since = *missed.turned_back.get_or_insert_with(Instant::now);
                    if since.elapsed() > PATIENCE {
                        return Err(Errno::EDEADLK);
                    }
                }
                yield_now();
            }
        }
        Ok(())
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
