//! Running an operation until it has what it needs.

use super::core::Core;
use super::request::Ctx;
use super::stop::{Step, Stop};
use crate::caller::{Caller, Origin};
use crate::errno::Result;
use crate::observer::Note;
use hearth_sync::epoch::{Guard, pace, pin};
use std::cell::RefCell;

impl Core {
    /// Runs an operation until it finishes, loading what it lacks, and tells observers what it
    /// changed.
    pub fn run<T>(
        &self,
        caller: &Caller<'_>,
        mut operation: impl FnMut(&Ctx<'_>, &Guard) -> Step<T>,
    ) -> Result<T> {
        self.keep_budget();
        pace();
        let mut guard = pin();
        let observed = caller.origin == Origin::Library && !self.observers.load(&guard).is_empty();
        let cx = Ctx {
            core: self,
            caller,
            notes: RefCell::new(Vec::new()),
            observed,
        };
        let result = loop {
            match operation(&cx, &guard) {
                Ok(value) => break Ok(value),
                Err(Stop::Errno(errno)) => break Err(errno),
                Err(Stop::Again) => {
                    drop(guard);
                    hearth_sync::primitive::thread::yield_now();
                }
                Err(Stop::Load(load)) => {
                    drop(guard);
                    self.load(&load)?;
                }
            }
            guard = pin();
        };
        if observed {
            self.tell(&cx.notes.take(), guard);
        }
        result
    }

    #[cold]
    fn tell(&self, notes: &[Note], guard: Guard) {
        let observers = self.observers.load(&guard).clone();
        drop(guard);
        for note in notes {
            observers.iter().for_each(|observer| note.tell(&**observer));
        }
    }
}
