//! Instructions of a yield and the switch after it, which a busy machine does not change: flat in
//! the number of tasks.

use crate::callgrind::{counted, totals};
use crate::failure::Context;
use crate::options::Options;
use crate::pinned::pin_first;
use crate::report::Report;
use hearth_sched::{JoinHandle, Scheduler, Source, Spec, Worker, yield_now};
use std::time::Duration;

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "sched-yields";
/// Numbers of tasks.
const SIZES: [usize; 2] = [16, 4096];
/// Yields that are counted at each: several turns of the most tasks.
const YIELDS: usize = 8 * 4096;
/// Times as many instructions with the most tasks as with the fewest are let pass.
const MOST: f64 = 1.1;

pub fn check(_options: &Options, _report: &mut Report) -> Result<(), String> {
    let counts = totals(&[LOOPS.to_owned()], SIZES.len())?;
    let [few, many] = [0, 1].map(|size| counts[size] as f64 / YIELDS as f64);
    println!(
        "instructions per yield and switch: {few:.0} with {} tasks, {many:.0} with {}",
        SIZES[0], SIZES[1]
    );
    // A switch takes dozens.
    if few < 10.0 {
        return Err("callgrind saw no switches".to_owned());
    }
    match many <= MOST * few {
        true => Ok(()),
        false => Err(format!(
            "a yield takes {:.2} times as many instructions; wanted {MOST} at most",
            many / few
        )),
    }
}

/// Lets tasks yield; callgrind counts what `counted` does.
pub fn run_loops() -> Result<(), String> {
    pin_first()?;
    for tasks in SIZES {
        let scheduler = Scheduler::builder().external_workers(1).start().text()?;
        let tasks: Vec<JoinHandle<()>> = (0..tasks)
            .map(|_| {
                scheduler.spawn(Spec::default(), async {
                    loop {
                        yield_now().await;
                    }
                })
            })
            .collect();
        let mut worker = scheduler.worker(None).text()?;
        // All have run: the rings have grown.
        run(&mut worker, 2 * SIZES[1]);
        counted(&mut || {
            run(&mut worker, YIELDS);
            Ok(())
        })?;
        drop(worker);
        scheduler.shutdown();
        drop(tasks);
    }
    Ok(())
}

fn run(worker: &mut Worker, yields: usize) {
    // A worker runs eight tasks between two looks at its source.
    worker.run_source(&mut Looks(yields / 8));
}

/// Brings nothing, so often.
struct Looks(usize);

impl Source for Looks {
    fn poll(&mut self, _worker: &mut Worker) -> bool {
        self.0 -= 1;
        false
    }

    fn wait(&mut self, _limit: Option<Duration>) {}

    fn is_finished(&self) -> bool {
        self.0 == 0
    }
}
