//! What yields: tasks of this scheduler, of tokio's multi-thread scheduler, threads of the system.

use crate::failure::Context;
use crate::sched::executors::{self, Executor};
use crate::sched::gauge::{Counted, Gauge};
use hearth_sched::yield_now;
use std::time::Duration;

/// One column of the table.
pub struct Column {
    /// Its name in the table and in JSON.
    pub name: &'static str,
    /// More tasks than this it does not bear.
    pub most_tasks: usize,
    /// Lets tasks yield on so many cores for a window.
    pub run: RunYields,
}

type RunYields =
    fn(&Gauge, cores: usize, tasks: usize, window: Duration) -> Result<Counted, String>;

/// All columns, ours first.
pub const TARGETS: [Column; 3] = [
    Column {
        name: "lib",
        most_tasks: usize::MAX,
        run: library,
    },
    Column {
        name: "tokio",
        most_tasks: if cfg!(feature = "tokio") {
            usize::MAX
        } else {
            0
        },
        run: tokio,
    },
    Column {
        name: "threads",
        most_tasks: 4096,
        run: threads,
    },
];

fn library(gauge: &Gauge, cores: usize, tasks: usize, window: Duration) -> Result<Counted, String> {
    let task = |gauge: Gauge| async move {
        let mut tally = gauge.tally();
        while tally.go_on() {
            yield_now().await;
        }
        Ok(())
    };
    let (window, _) = executors::library(cores, |library| {
        (0..tasks).for_each(|_| library.spawn(task(gauge.clone())));
        warm_window(gauge, tasks, window)
    })?;
    Ok(gauge.counted(window))
}

#[cfg(feature = "tokio")]
fn tokio(gauge: &Gauge, cores: usize, tasks: usize, window: Duration) -> Result<Counted, String> {
    let task = |gauge: Gauge| async move {
        let mut tally = gauge.tally();
        while tally.go_on() {
            tokio::task::yield_now().await;
        }
        Ok(())
    };
    let (window, _) = executors::tokio(cores, |tokio| {
        (0..tasks).for_each(|_| tokio.spawn(task(gauge.clone())));
        warm_window(gauge, tasks, window)
    })?;
    Ok(gauge.counted(window))
}

#[cfg(not(feature = "tokio"))]
fn tokio(_: &Gauge, _: usize, _: usize, _: Duration) -> Result<Counted, String> {
    Err("built without tokio; `cargo xtask bench` builds with it".to_owned())
}

fn threads(gauge: &Gauge, cores: usize, tasks: usize, window: Duration) -> Result<Counted, String> {
    let allowed = crate::pinned::allowed_cores();
    let threads: Result<Vec<_>, _> = (0..tasks)
        .map(|number| {
            let (gauge, core) = (gauge.clone(), allowed[number % cores]);
            let thread = std::thread::Builder::new().stack_size(64 << 10);
            thread.spawn(move || {
                let pinned = crate::pinned::pin(core);
                let mut tally = gauge.tally();
                while tally.go_on() {
                    std::thread::yield_now();
                }
                pinned
            })
        })
        .collect();
    let window = match &threads {
        Ok(threads) => warm_window(gauge, threads.len(), window),
        Err(_) => gauge.window(Duration::ZERO),
    };
    for thread in threads.context(format_args!("{tasks} threads"))? {
        let pinned = thread.join().map_err(|_| "a thread panicked")?;
        pinned.context("pinning a thread")?;
    }
    Ok(gauge.counted(window))
}

/// A window that begins when all tasks have run for a quarter of its length.
fn warm_window(gauge: &Gauge, tasks: usize, length: Duration) -> Counted {
    gauge.warm_up(tasks, length / 4);
    gauge.window(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_of_every_target_yields() {
        for target in TARGETS.iter().filter(|target| target.most_tasks > 0) {
            for cores in [1, crate::pinned::allowed_cores().len()] {
                let gauge = Gauge::new();
                let window = Duration::from_millis(20);
                let yields = (target.run)(&gauge, cores, 3, window).unwrap();
                assert!(yields.count > 3, "{}: {}", target.name, yields.count);
                assert!(
                    yields.seconds >= 0.02 && yields.cpu > 0.0,
                    "{}",
                    target.name
                );
            }
        }
    }
}
