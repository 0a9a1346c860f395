//! What tasks do: one operation again and again, or a fixed amount of work in phases.

use crate::target::Client;
use std::ffi::CString;

/// One kind of operation that every task repeats for a while.
pub trait Activity: Sync {
    fn name(&self) -> String;

    /// Makes what all tasks need.
    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String>;

    /// What task number `task` of `tasks` does over and over.
    fn task<'c>(
        &self,
        client: &'c dyn Client,
        task: usize,
        tasks: usize,
    ) -> Result<Box<dyn Repeat + 'c>, String>;

    /// Whether the target is in the state that so many repetitions by each task leave behind.
    fn check(&self, _client: &dyn Client, _done: &[u64]) -> Result<(), String> {
        Ok(())
    }
}

/// One task of an [`Activity`].
pub trait Repeat {
    /// Does it so many times.
    fn repeat(&mut self, times: u32) -> Result<(), String>;

    /// Repetitions between two looks at the clock.
    fn stride(&self) -> u32 {
        32
    }
}

/// Any closure is a task that does it once per call.
impl<F: FnMut() -> Result<(), String>> Repeat for F {
    fn repeat(&mut self, times: u32) -> Result<(), String> {
        (0..times).try_for_each(|_| self())
    }
}

/// The number of a task, and how many there are.
pub type Place = (usize, usize);

/// A task of a [`Job`], or why the target refuses.
pub type Ready<'c> = Result<Box<dyn Phased + 'c>, String>;

/// A fixed amount of work for every task, in phases that all tasks begin together.
pub trait Job: Sync {
    fn name(&self) -> String;

    /// Names of its phases, in order.
    fn phases(&self) -> Vec<&'static str>;

    /// About how many bytes of new memory all tasks take.
    fn memory(&self, _tasks: usize) -> u64 {
        0
    }

    /// Makes what all tasks need.
    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String>;

    /// What task number `task` of `tasks` does. It owns its client, so that a phase can end it.
    fn task<'c>(&'c self, client: Box<dyn Client + 'c>, place: Place) -> Ready<'c>;

    /// What it counts of itself, for each phase, once it has run.
    fn figures(&self) -> Vec<Vec<f64>> {
        Vec::new()
    }

    /// Whether the target is in the state that the whole job by all tasks leaves behind.
    fn check(&self, _client: &dyn Client, _tasks: usize) -> Result<(), String> {
        Ok(())
    }
}

/// One task of a [`Job`].
pub trait Phased {
    /// Does phase number `phase`; returns how many operations it was.
    fn phase(&mut self, phase: usize) -> Result<u64, String>;
}

/// Bytes that a file without contents takes in memory, its name and its descriptor too.
const FILE: usize = 1 << 10;

/// Bytes that so many files without contents take.
pub fn of_files(files: usize) -> u64 {
    (files * FILE) as u64
}

/// `text` as a path.
pub fn path(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).expect("the paths of a benchmark have no NUL")
}

/// `Ok` if it holds, else an error that says which answer was wrong.
#[inline]
pub fn must(holds: bool, what: impl Fn() -> String) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(format!("{}: wrong answer", what()))
    }
}
