//! What is measured: what every task does on a target.

use crate::target::Client;
use std::ffi::CString;

/// Number of a task, and how many there are.
pub type Place = (usize, usize);

/// A task of a [`Workload`], or why the target refuses.
pub type Ready<'c> = Result<Box<dyn Task + 'c>, String>;

/// What all tasks do at once: a fixed amount of work in phases that all begin together, or one kind
/// of operation that is repeated for a while.
pub trait Workload: Sync {
    fn name(&self) -> String;

    /// Names of its phases, in order.
    fn phases(&self) -> Vec<&'static str> {
        vec!["work"]
    }

    /// About how many bytes of new memory all tasks take.
    fn memory(&self, _tasks: usize) -> u64 {
        0
    }

    /// Makes what all tasks need.
    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String>;

    /// What one task does. It owns its client, so that a phase can end it.
    fn task<'c>(&'c self, client: Box<dyn Client + 'c>, place: Place) -> Ready<'c>;

    /// What it counts of itself, for each phase, once it has run.
    fn figures(&self) -> Vec<Vec<f64>> {
        Vec::new()
    }

    /// Whether the target is in the state that the operations of each task in the last phase leave
    /// behind.
    fn check(&self, _client: &dyn Client, _done: &[u64]) -> Result<(), String> {
        Ok(())
    }
}

/// One task of a [`Workload`].
pub trait Task {
    /// Does phase number `phase`, or of what is repeated as much as is done between two looks at
    /// the clock; returns how many operations it was.
    fn run(&mut self, phase: usize) -> Result<u64, String>;

    /// Does one operation of what is repeated.
    fn once(&mut self) -> Result<(), String> {
        self.run(0).map(drop)
    }
}

/// Any closure is a task that is repeated: it does one operation a call.
impl<F: FnMut() -> Result<(), String>> Task for F {
    fn run(&mut self, _phase: usize) -> Result<u64, String> {
        (0..STRIDE).try_for_each(|_| self())?;
        Ok(STRIDE)
    }

    fn once(&mut self) -> Result<(), String> {
        self()
    }
}

/// Operations between two looks at the clock, where one takes microseconds.
pub const STRIDE: u64 = 32;

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
