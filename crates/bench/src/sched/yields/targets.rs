//! What yields: tasks of this scheduler, of tokio's multi-thread scheduler, threads of the system.

use super::gauge::{Gauge, Yields};
use hearth_sched::{Scheduler, Spec, yield_now};
use std::time::Duration;

/// One column of the table.
pub struct Executor {
    /// Its name in the table and in JSON.
    pub name: &'static str,
    /// More tasks than this it does not bear.
    pub most_tasks: usize,
    /// Lets tasks yield on so many cores for a window.
    pub run: RunYields,
}

type RunYields = fn(&Gauge, cores: usize, tasks: usize, window: Duration) -> Result<Yields, String>;

/// All columns, ours first.
pub const TARGETS: [Executor; 3] = [
    Executor {
        name: "lib",
        most_tasks: usize::MAX,
        run: library,
    },
    Executor {
        name: "tokio",
        most_tasks: if cfg!(feature = "tokio") {
            usize::MAX
        } else {
            0
        },
        run: tokio,
    },
    Executor {
        name: "threads",
        most_tasks: 4096,
        run: threads,
    },
];

fn library(gauge: &Gauge, cores: usize, tasks: usize, window: Duration) -> Result<Yields, String> {
    let scheduler = Scheduler::builder().workers(cores).start();
    let scheduler = scheduler.map_err(|error| error.to_string())?;
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let gauge = gauge.clone();
            scheduler.spawn(Spec::default(), async move {
                let mut tally = gauge.tally();
                while tally.go_on() {
                    yield_now().await;
                }
            })
        })
        .collect();
    let window = gauge.window(tasks.len(), window);
    for task in tasks {
        task.join().map_err(|error| error.to_string())?;
    }
    Ok(gauge.yields(window))
}

#[cfg(feature = "tokio")]
fn tokio(gauge: &Gauge, cores: usize, tasks: usize, window: Duration) -> Result<Yields, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores)
        .build()
        .map_err(|error| error.to_string())?;
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let gauge = gauge.clone();
            runtime.spawn(async move {
                let mut tally = gauge.tally();
                while tally.go_on() {
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let window = gauge.window(tasks.len(), window);
    runtime.block_on(async {
        for task in tasks {
            task.await.map_err(|error| error.to_string())?;
        }
        Ok::<_, String>(())
    })?;
    Ok(gauge.yields(window))
}

#[cfg(not(feature = "tokio"))]
fn tokio(_: &Gauge, _: usize, _: usize, _: Duration) -> Result<Yields, String> {
    Err("built without tokio; `cargo xtask bench` builds with it".to_owned())
}

fn threads(gauge: &Gauge, cores: usize, tasks: usize, window: Duration) -> Result<Yields, String> {
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
        Ok(threads) => gauge.window(threads.len(), window),
        Err(_) => gauge.window(0, Duration::ZERO),
    };
    for thread in threads.map_err(|error| format!("{tasks} threads: {error}"))? {
        let pinned = thread.join().map_err(|_| "a thread panicked")?;
        pinned.map_err(|error| format!("pinning a thread: {error}"))?;
    }
    Ok(gauge.yields(window))
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
