//! Running an operation until it has what it needs.

use super::absent::{self, may_wait};
use super::core::Core;
use super::request::Ctx;
use super::stop::{Load, Step, Stop};
use crate::caller::{Caller, Origin};
use crate::errno::Result;
use crate::observer::Note;
use hearth_sync::epoch::{Guard, pin, throttle};
use std::cell::RefCell;

/// One operation on its way: what it has changed so far for others to know, over all attempts.
pub(crate) struct Run<'c> {
    core: &'c Core,
    /// Whether somebody wants to know.
    observed: bool,
    notes: RefCell<Vec<Note>>,
    settles: bool,
}

impl Core {
    /// Runs an operation until it finishes, loading what it lacks, and tells observers what it
    /// changed.
    pub fn run<T>(
        &self,
        caller: &Caller<'_>,
        mut operation: impl FnMut(&Ctx<'_>, &Guard) -> Step<T>,
    ) -> Result<T> {
        self.keep_budget()?;
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

impl<'c> Run<'c> {
    /// A run that has made no attempt. The budget is kept before, with nothing held.
    pub fn new(core: &'c Core, origin: Origin, g: &Guard) -> Run<'c> {
        Run {
            core,
            observed: origin == Origin::Library && !core.observers.load(g).is_empty(),
            notes: RefCell::new(Vec::new()),
            settles: false,
        }
    }

    /// The caller takes a part for an answer when the home fails. A kernel does not: it takes a
    /// short read for the end of the file.
    pub fn settling(mut self) -> Run<'c> {
        self.settles = true;
        self
    }

    /// Runs the operation once.
    #[inline]
    pub fn attempt<T>(
        &self,
        caller: &Caller<'_>,
        operation: &mut impl FnMut(&Ctx<'_>, &Guard) -> Step<T>,
        g: &Guard,
    ) -> Step<T> {
        operation(&self.context(caller, false), g)
    }

    fn context<'a>(&'a self, caller: &'a Caller<'a>, settles: bool) -> Ctx<'a> {
        Ctx {
            core: self.core,
            caller,
            notes: &self.notes,
            observed: self.observed,
            settles,
        }
    }

    /// Gets what the last attempt lacked and tries again until the end. Nothing may be pinned: a
    /// home takes its time. When it fails a page, a last attempt may answer a part to who
    /// [takes it](Self::settling). Observers are told also of what an error leaves behind.
    #[cold]
    pub fn go_on<T>(
        self,
        mut stop: Stop,
        caller: &Caller<'_>,
        mut operation: impl FnMut(&Ctx<'_>, &Guard) -> Step<T>,
    ) -> Result<T> {
        let mut failed = None;
        let errno = loop {
            match stop {
                Stop::Load(load) if !may_wait() => return Err(absent::leave(load)),
                Stop::Load(load) => {
                    if let Some(errno) = failed {
                        break errno;
                    }
                    if let Err(errno) = self.core.load(&load) {
                        if !self.settles || !matches!(load, Load::Page { .. }) {
                            break errno;
                        }
                        failed = Some(errno);
                    }
                }
                Stop::Again => hearth_sync::primitive::thread::yield_now(),
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

    /// Tells observers. Neither run nor answer pass through here: moving them costs more than all
    /// else.
    #[inline(always)]
    pub fn end(&self, guard: Guard) {
        if self.observed {
            self.core.tell(&self.notes.borrow(), guard);
        }
    }
}

impl Core {
    #[cold]
    fn tell(&self, notes: &[Note], guard: Guard) {
        let observers = self.observers.load(&guard).clone();
        drop(guard);
        for note in notes {
            observers.iter().for_each(|observer| note.tell(&**observer));
        }
    }
}
