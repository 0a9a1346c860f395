//! Running a workload on a target.

use crate::patience::beat;
use crate::pinned::{allowed_cores, pin};
use crate::target::Target;
use crate::workload::Workload;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Length of one run.
    pub run: Duration,
    /// Runs of each cell.
    pub runs: u32,
}

impl Effort {
    /// Enough for figures, or for a first look.
    pub fn new(quick: bool) -> Effort {
        match quick {
            true => Effort {
                run: Duration::from_millis(60),
                runs: 3,
            },
            false => Effort {
                run: Duration::from_millis(300),
                runs: 7,
            },
        }
    }
}

/// Runs `workload` with `tasks` tasks, each on a core of its own, for about `length`; answers the
/// operations per second of all together.
///
/// # Errors
/// The target refuses, or there are fewer cores than tasks.
pub fn rate(
    target: &dyn Target,
    workload: Workload,
    tasks: usize,
    length: Duration,
) -> Result<f64, String> {
    beat();
    let cores = allowed_cores();
    if cores.len() < tasks {
        return Err(format!(
            "{tasks} tasks need as many cores, there are {}",
            cores.len()
        ));
    }
    let start = Barrier::new(tasks);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..tasks)
            .map(|task| {
                let (start, core) = (&start, cores[task]);
                scope.spawn(move || one_task(target, workload, task, core, start, length))
            })
            .collect();
        let mut sum = 0.0;
        for thread in threads {
            sum += thread.join().map_err(|_| "a task panicked")??;
        }
        Ok(sum)
    })
}

/// Prepares `target` for the workload, from a thread of its own.
///
/// # Errors
/// The target refuses.
pub fn prepare(target: &dyn Target, workload: Workload, tasks: usize) -> Result<(), String> {
    let done = std::thread::scope(|scope| scope.spawn(|| workload.prepare(target, tasks)).join());
    done.map_err(|_| "the preparation panicked".to_owned())?
}

fn one_task(
    target: &dyn Target,
    workload: Workload,
    task: usize,
    core: usize,
    start: &Barrier,
    length: Duration,
) -> Result<f64, String> {
    let ready = pin(core).map_err(|error| format!("core {core}: {error}"));
    let client = target.client();
    let ready = ready
        .and_then(|()| workload.task(&*client, task))
        .and_then(|mut task| {
            // Warm: what is made on first use is there.
            task.step()?;
            task.step()?;
            Ok(task)
        });
    // Every task gets here, so that none waits for one that failed.
    start.wait();
    let mut task = ready?;
    let stride = task.stride();
    let (begin, mut steps) = (Instant::now(), 0u64);
    loop {
        for _ in 0..stride {
            task.step()?;
        }
        steps += u64::from(stride);
        let passed = begin.elapsed();
        if passed >= length {
            return Ok(steps as f64 / passed.as_secs_f64());
        }
    }
}
