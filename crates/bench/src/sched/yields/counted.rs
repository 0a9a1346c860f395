//! Instructions of a yield and the switch after it, which a busy machine does not change: flat in
//! the number of tasks.

use crate::callgrind::totals;
use crate::options::Options;
use crate::pinned::pin_first;
use crate::report::Report;
use hearth_sched::{JoinHandle, Scheduler, Source, Spec, Worker, yield_now};
use std::time::Duration;

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "sched-yields";
/// The function that is counted, as callgrind demangles it.
const COUNTED: &str = "hearth_bench::sched::yields::counted::counted";
/// Numbers of tasks.
const SIZES: [usize; 2] = [16, 4096];
/// Yields that are counted at each: several turns of the most tasks.
const YIELDS: usize = 8 * 4096;
/// Times as many instructions with the most tasks as with the fewest are let pass.
const MOST: f64 = 1.1;

pub fn check(_options: &Options, _report: &mut Report) -> Result<(), String> {
    let counts = totals(COUNTED, &[LOOPS.to_owned()], SIZES.len())?;
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
        let scheduler = Scheduler::builder().external_workers(1).start();
        let scheduler = scheduler.map_err(|error| error.to_string())?;
        let tasks: Vec<JoinHandle<()>> = (0..tasks)
            .map(|_| {
                scheduler.spawn(Spec::default(), async {
                    loop {
                        yield_now().await;
                    }
                })
            })
            .collect();
        let worker = scheduler.worker(None);
        let mut worker = worker.map_err(|error| error.to_string())?;
        // All have run: the rings have grown.
        run(&mut worker, 2 * SIZES[1]);
        counted(&mut worker);
        drop(worker);
        scheduler.shutdown();
        drop(tasks);
    }
    Ok(())
}

/// Callgrind knows this function by its name.
#[inline(never)]
fn counted(worker: &mut Worker) {
    run(worker, YIELDS);
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
