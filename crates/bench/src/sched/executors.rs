//! Tasks on this scheduler, and on tokio's.

use crate::failure::Context;
use hearth_sched::{JoinHandle, Scheduler, Spec};
use std::time::Instant;

/// Runs tasks. Each is taken as the type that it is: in a box it would be measured with an
/// allocation and an indirect call that nobody asked for.
pub trait Executor {
    /// Begins a task.
    fn spawn(&mut self, task: impl Future<Output = Result<(), String>> + Send + 'static);
}

/// This scheduler, and what it runs.
pub struct Library<'s> {
    scheduler: &'s Scheduler,
    tasks: Vec<JoinHandle<Result<(), String>>>,
}

impl Executor for Library<'_> {
    fn spawn(&mut self, task: impl Future<Output = Result<(), String>> + Send + 'static) {
        let task = self.scheduler.spawn(Spec::default(), task);
        self.tasks.push(task);
    }
}

/// Does `work`, which spawns, on this scheduler with so many workers; returns what that returns,
/// and the seconds from its begin until all tasks have ended.
pub fn library<T>(
    cores: usize,
    work: impl FnOnce(&mut Library<'_>) -> T,
) -> Result<(T, f64), String> {
    let scheduler = Scheduler::builder().workers(cores).start().text()?;
    let begin = Instant::now();
    let mut library = Library {
        scheduler: &scheduler,
        tasks: Vec::new(),
    };
    let result = work(&mut library);
    for task in library.tasks {
        task.join().text()??;
    }
    Ok((result, begin.elapsed().as_secs_f64()))
}

/// Tokio's multi-thread scheduler, and what it runs.
#[cfg(feature = "tokio")]
pub struct Tokio<'r> {
    runtime: &'r tokio::runtime::Runtime,
    tasks: Vec<tokio::task::JoinHandle<Result<(), String>>>,
}

#[cfg(feature = "tokio")]
impl Executor for Tokio<'_> {
    fn spawn(&mut self, task: impl Future<Output = Result<(), String>> + Send + 'static) {
        self.tasks.push(self.runtime.spawn(task));
    }
}

/// As [`library`], on tokio's multi-thread scheduler.
#[cfg(feature = "tokio")]
pub fn tokio<T>(cores: usize, work: impl FnOnce(&mut Tokio<'_>) -> T) -> Result<(T, f64), String> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(cores).build().text()?;
    let begin = Instant::now();
    let mut tokio = Tokio {
        runtime: &runtime,
        tasks: Vec::new(),
    };
    let result = work(&mut tokio);
    runtime.block_on(async {
        for task in tokio.tasks {
            task.await.text()??;
        }
        Ok::<_, String>(())
    })?;
    Ok((result, begin.elapsed().as_secs_f64()))
}
