//! thread_perf: the same work by threads of one process and by processes. Threads share a table of
//! descriptors, and processes do not: the ratio shows what the sharing costs.
//!
//! The test `malloc` is 500 times a block of every size from 1 to 299 bytes.

use super::session::Session;
use super::{Family, boxed};
use crate::ask::Ask;
use crate::cells;
use crate::children::{Waiting, own, ready};
use crate::contender::Contender;
use crate::measure::side_by_side;
use crate::pinned::{allowed_cores, pin};
use crate::report::chart;
use crate::row::SECONDS;
use crate::runner;
use crate::script::Times;
use crate::stats::{Grid, mean, middle, range};
use crate::table::Table;
use crate::workload::Workload;
use crate::workloads::THREAD_PERF;
use std::sync::Barrier;

/// Ends of the names of the two sides.
const THREADS: &str = "threads";
const PROCESSES: &str = "processes";
/// The two tests whose ratio is asked for run longer than the original where it is for figures: on
/// the library 20,000 reads and writes are 10 ms.
const ASKED: [&str; 2] = ["readwrite", "stat"];
const LONGER: usize = 10;
/// The test without files, by its name in the original.
const MALLOC: &str = "malloc";
/// The verb by which this program is one of its processes.
pub const CHILD: &str = "seeds-malloc";

pub const FAMILY: Family = Family {
    name: "thread_perf",
    about: || {
        "Seconds for a fixed amount of work by N threads of one process (lowest free descriptor, \
         as POSIX has it)\nand by N processes: mean and half the range of the repeats, which \
         alternate. `malloc` touches no\nfilesystem: it is the allocator of this program, in \
         threads and in child processes."
            .to_owned()
    },
    scripts: Vec::new,
    others: || {
        let tests = THREAD_PERF.iter().map(|(script, _)| script.name);
        tests.chain([MALLOC]).collect()
    },
    also_counted: || boxed(THREAD_PERF.iter().map(|(script, _)| script)),
    run,
};

fn run(session: &mut Session) -> Result<(), String> {
    let (cores, quick) = (allowed_cores().len().max(2), session.options.quick);
    let mut tasks = session.options.pick(vec![cores], vec![1, cores, 8]);
    tasks.dedup();
    let repeats = session.options.pick(3, 10);
    let mut grid = Grid::default();
    for (script, times) in THREAD_PERF
        .iter()
        .filter(|(script, _)| session.wants(script.name))
    {
        let is_longer = ASKED.contains(&script.name) && !quick;
        let times = if is_longer { times * LONGER } else { *times };
        let test = script.times(times);
        let on = session.contenders.iter().filter(|one| one.has_processes());
        let on: Vec<&Contender> = on.collect();
        runner::rounds(repeats as usize, &tasks, &on, |&tasks, on, repeat| {
            both(session, on, &test, (tasks, repeat as u32), &mut grid)
        })?;
        eprintln!("measured: thread_perf, {}", script.name);
    }
    if session.wants(MALLOC) {
        for (repeat, &tasks) in (0..repeats).flat_map(|n| tasks.iter().map(move |t| (n, t))) {
            for side in sides(repeat) {
                let seconds = match side {
                    THREADS => by_threads(tasks)?,
                    _ => by_processes(tasks)?,
                };
                grid.push(MALLOC, &format!("allocator-{side}"), tasks, seconds);
            }
        }
    }
    session.report.add_grid(&grid, SECONDS);
    println!("{}", table(&grid));
    session.print_facts();
    for workload in grid.workloads() {
        let title = format!("{workload}: threads and processes");
        let targets = grid.targets(&workload, tasks[0]);
        let chart = chart((&title, "seconds"), (&grid, &workload), &targets, &tasks);
        session
            .report
            .draw(&format!("thread_perf-{workload}"), &chart)?;
    }
    for workload in ASKED {
        if !session.wants(workload) {
            continue;
        }
        let what = format!("lib, thread_perf {workload}: threads / processes, {cores} tasks");
        let ratios = ratios(&grid, workload, "lib", cores);
        let ask = Ask::within(what, 0.97, 1.03, &ratios);
        session.report.asks.push(ask);
    }
    Ok(())
}

/// One repeat by threads and by processes; every second time the other way round. On the library
/// it is made of several in turn.
fn both(
    session: &Session,
    contender: &Contender,
    test: &Times,
    (tasks, repeat): (usize, u32),
    grid: &mut Grid,
) -> Result<(), String> {
    let turns = session.effort.turns(contender);
    let mut seconds = [0.0; 2];
    for turn in 0..turns {
        for side in sides(repeat + turn) {
            let (fresh, seconds) = match side {
                THREADS => (contender.fresh_for_threads(), &mut seconds[0]),
                _ => (contender.fresh(), &mut seconds[1]),
            };
            let first = (repeat + turn / 2) as usize;
            let times = session.job(contender, fresh, test, (tasks, first))?;
            *seconds += times[0].seconds / f64::from(turns);
        }
    }
    for (side, seconds) in [THREADS, PROCESSES].into_iter().zip(seconds) {
        let target = format!("{}-{side}", contender.name);
        grid.push(&test.name(), &target, tasks, seconds);
    }
    Ok(())
}

fn sides(repeat: u32) -> [&'static str; 2] {
    match repeat % 2 {
        0 => [THREADS, PROCESSES],
        _ => [PROCESSES, THREADS],
    }
}

fn ratios(grid: &Grid, workload: &str, place: &str, tasks: usize) -> Vec<f64> {
    let [of, to] = [THREADS, PROCESSES].map(|side| format!("{place}-{side}"));
    grid.ratios(workload, (&of, tasks), (&to, tasks))
}

fn table(grid: &Grid) -> String {
    let heading = [
        "seconds",
        "tasks",
        "on",
        THREADS,
        PROCESSES,
        "threads / processes",
    ];
    let mut table = Table::new(heading);
    for workload in grid.workloads() {
        for tasks in grid.tasks(&workload) {
            for target in grid.targets(&workload, tasks) {
                let Some(place) = target.strip_suffix("-threads") else {
                    continue;
                };
                let [threads, processes] = [THREADS, PROCESSES].map(|side| {
                    let runs = grid.runs(&workload, &format!("{place}-{side}"), tasks);
                    let ((low, high), (mean, _)) = (range(runs), mean(runs));
                    // As the seed prints it.
                    format!("{mean:.4} +/- {:.4}", (high - low) / 2.0)
                });
                let ratio = middle(&ratios(grid, &workload, place, tasks));
                let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
                table.row(cells![workload, tasks, place, threads, processes, ratio]);
            }
        }
    }
    table.text()
}

/// What each task of `malloc` does; returns when it began and ended, by the clock that all
/// processes have in common.
fn allocate() -> (f64, f64) {
    let begin = monotonic();
    for _ in 0..500 {
        let blocks: Vec<Vec<u8>> = (1..300).map(Vec::with_capacity).collect();
        std::hint::black_box(blocks);
    }
    (begin, monotonic())
}

/// Seconds from the first task's begin to the last one's end.
fn together(times: &[(f64, f64)]) -> f64 {
    let begins: Vec<f64> = times.iter().map(|times| times.0).collect();
    let ends: Vec<f64> = times.iter().map(|times| times.1).collect();
    range(&ends).1 - range(&begins).0
}

fn by_threads(tasks: usize) -> Result<f64, String> {
    let start = Barrier::new(tasks);
    let times = side_by_side(tasks, |_| {
        start.wait();
        Ok(allocate())
    });
    times.map(|times| together(&times))
}

fn by_processes(tasks: usize) -> Result<f64, String> {
    let cores = allowed_cores();
    let program = |task: usize| {
        let mut program = own(CHILD)?;
        program.arg(cores[task % cores.len()].to_string());
        Ok(program)
    };
    let programs: Result<Vec<_>, String> = (0..tasks).map(program).collect();
    let mut waiting = Waiting::start(programs?)?;
    let times: Result<Vec<(f64, f64)>, String> = waiting.go()?.iter().map(times_of).collect();
    waiting.end()?;
    times.map(|times| together(&times))
}

fn times_of(line: &String) -> Result<(f64, f64), String> {
    let times: Vec<f64> = line.split(' ').flat_map(str::parse).collect();
    match times[..] {
        [begin, end] => Ok((begin, end)),
        _ => Err(format!("a child process says '{line}', not two times")),
    }
}

/// One of the processes: prints when it began and ended.
pub fn run_child(args: &[String]) -> Result<(), String> {
    let core = args.first().and_then(|core| core.parse().ok());
    let _ = pin(core.ok_or("which core?")?);
    ready()?;
    let (begin, end) = allocate();
    println!("{begin:.9} {end:.9}");
    Ok(())
}

/// Seconds on the clock that all processes have in common.
fn monotonic() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::cells_of;

    #[test]
    fn the_table_has_a_line_for_each_place_with_the_ratio() {
        let mut grid = Grid::default();
        for (threads, processes) in [(2.0, 1.0), (3.0, 1.0), (9.0, 1.0)] {
            grid.push("stat", "lib-threads", 2, threads);
            grid.push("stat", "lib-processes", 2, processes);
        }
        let text = table(&grid);
        assert_eq!(text.lines().count(), 3);
        let wanted = [
            "stat",
            "2",
            "lib",
            "4.6667 +/- 3.5000",
            "1.0000 +/- 0.0000",
            "3.00",
        ];
        assert_eq!(cells_of(&text, 2), wanted);
    }

    #[test]
    fn threads_take_some_time_and_a_child_needs_a_core() {
        let seconds = by_threads(2).unwrap();
        assert!(seconds > 0.0 && seconds < 60.0, "{seconds}");
        assert!(run_child(&[]).unwrap_err().contains("core"));
    }
}
