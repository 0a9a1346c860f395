//! thread_perf: the same work by threads of one process and by processes. Threads share a table of
//! descriptors, and processes do not: the ratio shows what the sharing costs.

mod allocation;
mod test;

pub use allocation::{CHILD, run_child};
pub use test::{ALL, Again, Kind, Test};

use super::Family;
use super::ask::Ask;
use super::contender::Contender;
use super::grid::Grid;
use super::session::Session;
use crate::activity::{Activity, Job};
use crate::chart::Chart;
use crate::pinned::allowed_cores;
use crate::table::Table;

/// The test.
pub struct ThreadPerf;

/// Ends of the names of the two sides.
const THREADS: &str = "threads";
const PROCESSES: &str = "processes";

impl Family for ThreadPerf {
    fn name(&self) -> &'static str {
        "thread_perf"
    }

    fn about(&self) -> String {
        "Seconds for a fixed amount of work by N threads of one process (lowest free descriptor, \
         as POSIX has it)\nand by N processes: mean and half the range of the repeats, which \
         alternate. `malloc` touches no\nfilesystem: it is the allocator of this program, in \
         threads and in child processes."
            .to_owned()
    }

    fn workloads(&self) -> Vec<String> {
        let tests = ALL.iter().map(|(kind, _)| kind.name().to_owned());
        tests.chain([allocation::NAME.to_owned()]).collect()
    }

    fn counted(&self) -> Vec<Box<dyn Activity>> {
        ALL.map(|(kind, _)| Box::new(Again(kind)) as Box<dyn Activity>)
            .into()
    }

    fn run(&self, session: &mut Session) -> Result<(), String> {
        let cores = allowed_cores().len();
        let mut tasks = match session.is_quick() {
            true => vec![cores.max(2)],
            false => vec![1, cores.max(2), 8],
        };
        tasks.dedup();
        let repeats = if session.is_quick() { 3 } else { 10 };
        let mut grid = Grid::default();
        for test in test::wanted(session) {
            for repeat in 0..repeats {
                for &tasks in &tasks {
                    for contender in session
                        .contenders()
                        .iter()
                        .filter(|one| one.has_processes())
                    {
                        both(session, contender, &test, tasks, repeat, &mut grid)?;
                    }
                }
            }
            eprintln!("measured: thread_perf, {}", test.name());
        }
        if session.options().wants(self.name(), allocation::NAME) {
            for repeat in 0..repeats {
                for &tasks in &tasks {
                    allocation::both(tasks, repeat, &mut grid)?;
                }
            }
        }
        let rows = grid.rows(self.name(), "seconds", "s");
        session.keep(rows);
        println!("{}", table(&grid, &tasks));
        println!("{}", session.table_of_facts(self.name()));
        draw(session, &grid, &tasks)?;
        ask(session, &grid, cores.max(2));
        Ok(())
    }
}

/// One repeat by threads and by processes; every second time the other way round. On the library
/// it is made of several in turn, for the reason that a round of rates has.
fn both(
    session: &Session,
    contender: &Contender,
    test: &Test,
    tasks: usize,
    repeat: u32,
    grid: &mut Grid,
) -> Result<(), String> {
    let name = test.name();
    let mut seconds = [0.0; 2];
    for turn in 0..contender.turns() {
        for side in sides(repeat + turn) {
            let (fresh, seconds) = match side {
                THREADS => (contender.fresh_for_threads(), &mut seconds[0]),
                _ => (contender.fresh(), &mut seconds[1]),
            };
            let first = (repeat + turn / 2) as usize;
            let times = session.job(contender, fresh, test, (tasks, first))?;
            *seconds += times[0].seconds / f64::from(contender.turns());
        }
    }
    for (side, seconds) in [THREADS, PROCESSES].into_iter().zip(seconds) {
        grid.push(&name, &format!("{}-{side}", contender.name), tasks, seconds);
    }
    Ok(())
}

fn sides(repeat: u32) -> [&'static str; 2] {
    match repeat % 2 {
        0 => [THREADS, PROCESSES],
        _ => [PROCESSES, THREADS],
    }
}

/// Where something was measured: the names without the side.
fn places(grid: &Grid, workload: &str, tasks: usize) -> Vec<String> {
    let targets = grid.targets(workload, tasks);
    let place = |target: &String| Some(target.strip_suffix("-threads")?.to_owned());
    targets.iter().filter_map(place).collect()
}

fn ratios(grid: &Grid, workload: &str, place: &str, tasks: usize) -> Vec<f64> {
    let cell = (&*format!("{place}-{THREADS}"), tasks);
    grid.ratios(workload, cell, (&format!("{place}-{PROCESSES}"), tasks))
}

fn table(grid: &Grid, tasks: &[usize]) -> String {
    let heading = [
        "seconds",
        "tasks",
        "on",
        THREADS,
        PROCESSES,
        "threads / processes",
    ];
    let mut table = Table::new(heading.map(str::to_owned));
    for workload in grid.workloads() {
        for &tasks in tasks {
            for place in places(grid, &workload, tasks) {
                let mut line = vec![workload.clone(), tasks.to_string(), place.clone()];
                for side in [THREADS, PROCESSES] {
                    let runs = grid.runs(&workload, &format!("{place}-{side}"), tasks);
                    line.push(mean_and_half_range(runs));
                }
                let ratio = Ask::at_least("", 0.0, &ratios(grid, &workload, &place, tasks)).got;
                line.push(ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")));
                table.row(line);
            }
        }
    }
    table.text()
}

/// As the seed prints it.
fn mean_and_half_range(runs: &[f64]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let mean = runs.iter().sum::<f64>() / runs.len() as f64;
    let most = runs.iter().copied().fold(f64::MIN, f64::max);
    let least = runs.iter().copied().fold(f64::MAX, f64::min);
    format!("{mean:.4} +/- {:.4}", (most - least) / 2.0)
}

fn draw(session: &Session, grid: &Grid, tasks: &[usize]) -> Result<(), String> {
    for workload in grid.workloads() {
        let title = format!("{workload}: threads and processes");
        let mut chart = Chart::new(title, "seconds");
        for target in grid.targets(&workload, tasks[0]) {
            let point = |&tasks| (tasks, grid.median(&workload, &target, tasks).map(|at| at.0));
            chart.curve(&target, tasks.iter().map(point).collect());
        }
        session.draw(&format!("thread_perf-{workload}"), &chart)?;
    }
    Ok(())
}

fn ask(session: &mut Session, grid: &Grid, tasks: usize) {
    for workload in ["readwrite", "stat"] {
        if session.options().wants("thread_perf", workload) {
            let what = format!("lib, thread_perf {workload}: threads / processes, {tasks} tasks");
            let ratios = ratios(grid, workload, "lib", tasks);
            session.ask(Ask::within(what, 0.97, 1.03, &ratios));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_stands_beside_half_the_range() {
        assert_eq!(mean_and_half_range(&[1.0, 2.0, 4.5]), "2.5000 +/- 1.7500");
        assert_eq!(mean_and_half_range(&[]), "");
    }

    #[test]
    fn the_table_has_a_line_for_each_place_with_the_ratio() {
        let mut grid = Grid::default();
        for (threads, processes) in [(2.0, 1.0), (3.0, 1.0), (9.0, 1.0)] {
            grid.push("stat", "lib-threads", 2, threads);
            grid.push("stat", "lib-processes", 2, processes);
        }
        let text = table(&grid, &[2]);
        assert_eq!(text.lines().count(), 3);
        let line: Vec<&str> = text
            .lines()
            .nth(2)
            .unwrap()
            .split('|')
            .map(str::trim)
            .collect();
        let wanted = [
            "stat",
            "2",
            "lib",
            "4.6667 +/- 3.5000",
            "1.0000 +/- 0.0000",
            "3.00",
        ];
        assert_eq!(line[1..7], wanted);
    }
}
