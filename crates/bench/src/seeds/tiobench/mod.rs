//! tiobench: threads that write and read a file each, in order and at random.
//!
//! As tiotest does it: each of the 1, 2, 4, 8 threads has a file of its own, all files together
//! have one size; the phases are write, random write, read, random read; blocks of 4 KiB, one
//! `pwrite` or `pread` each; 4,000 random operations in all, at uniform block-aligned places; the
//! time of a phase includes the `fsync` of a write and the close. The size is fixed instead of
//! twice the memory, because what is compared is in memory.

mod thread;

pub use thread::Tio;

use super::Family;
use super::grid::Grid;
use super::session::Session;
use crate::activity::Activity;
use crate::chart::Chart;
use crate::histogram::Histogram;
use crate::measure::PhaseTime;
use crate::row::percent;
use crate::table::Table;
use thread::Block;

/// The test.
pub struct TioBench;

/// Bytes of a block.
const BLOCK: usize = 4096;
/// Random operations of all threads together.
const RANDOM: usize = 4_000;
/// Threads.
const THREADS: [usize; 4] = [1, 2, 4, 8];
const PHASES: [&str; 4] = ["write", "random write", "read", "random read"];

/// What is reported of a phase, in the order of tiobench's columns.
const COLUMNS: [(&str, &str); 7] = [
    ("rate", "MB/s"),
    ("cpu", "%"),
    ("latency", "ms"),
    ("latency_max", "ms"),
    ("above_2_s", "%"),
    ("above_10_s", "%"),
    ("cpu_efficiency", "MB/s/%"),
];
const WORKLOAD: &str = "tiobench";

/// The columns of one run of a phase.
fn columns(time: &PhaseTime, latencies: &Histogram) -> [f64; 7] {
    let rate = (time.operations as usize * BLOCK) as f64 / 1e6 / time.seconds;
    let cpu = time.cpu / time.seconds * 100.0;
    let part = |count: u64| count as f64 / latencies.count() as f64 * 100.0;
    [
        rate,
        cpu,
        latencies.mean() / 1e6,
        latencies.most() as f64 / 1e6,
        part(latencies.above(2_000_000_000)),
        part(latencies.above(10_000_000_000)),
        rate / cpu,
    ]
}

impl Family for TioBench {
    fn name(&self) -> &'static str {
        WORKLOAD
    }

    fn about(&self) -> String {
        "Threads with a file each, blocks of 4 KiB, 64 MiB in all (16 in a first look), 4,000 \
         random operations in\nall; fsync and close are in the time. CPU is that of the threads, \
         100 % is one core; a mount's daemon is\nnot in it."
            .to_owned()
    }

    fn workloads(&self) -> Vec<String> {
        vec![WORKLOAD.to_owned()]
    }

    fn counted(&self) -> Vec<Box<dyn Activity>> {
        (0..PHASES.len())
            .map(|n| Box::new(Block(n)) as Box<dyn Activity>)
            .collect()
    }

    fn run(&self, session: &mut Session) -> Result<(), String> {
        let blocks = (if session.is_quick() {
            16 << 20
        } else {
            64 << 20
        }) / BLOCK;
        let mut grids = COLUMNS.map(|_| Grid::default());
        for _ in 0..session.effort().runs {
            for threads in THREADS {
                for contender in session.contenders() {
                    let job = Tio::new(blocks);
                    let fresh = contender.fresh_for_threads();
                    let phases = session.job(contender, fresh, &job, (threads, 0))?;
                    for ((phase, time), seen) in PHASES.iter().zip(phases).zip(&job.latencies) {
                        let seen = seen.lock().map_err(|_| "a thread panicked")?;
                        for (grid, value) in grids.iter_mut().zip(columns(&time, &seen)) {
                            grid.push(phase, &contender.name, threads, value);
                        }
                    }
                }
            }
        }
        for phase in PHASES {
            println!("{}", table(phase, &grids, &session.names()));
            let mut chart = Chart::new(phase, "MB/s");
            for name in session.names() {
                let rate = |n| grids[0].median(phase, &name, n).map(|cell| cell.0);
                chart.curve(&name, THREADS.iter().map(|&n| (n, rate(n))).collect());
            }
            session.draw(&format!("tiobench-{}", phase.replace(' ', "-")), &chart)?;
        }
        println!("{}", session.table_of_facts(self.name()));
        for (grid, (metric, unit)) in grids.iter().zip(COLUMNS) {
            // What could not be measured has no row.
            let rows = grid.rows(WORKLOAD, metric, unit);
            session.keep(rows.into_iter().filter(|row| row.value.is_finite()));
        }
        Ok(())
    }
}

/// The report of a phase: a line for every target and number of threads.
fn table(phase: &str, grids: &[Grid; 7], targets: &[String]) -> String {
    let mut heading = vec![phase.to_owned(), "threads".to_owned()];
    let names = [
        "MB/s",
        "CPU %",
        "avg ms",
        "max ms",
        "> 2 s %",
        "> 10 s %",
        "MB/s per CPU %",
    ];
    heading.extend(names.map(str::to_owned));
    let mut table = Table::new(heading);
    for target in targets {
        for threads in THREADS {
            let mut line = vec![target.clone(), threads.to_string()];
            for (n, grid) in grids.iter().enumerate() {
                let digits = [0, 0, 5, 3, 4, 4, 2][n];
                let cell = grid.median(phase, target, threads);
                line.push(match cell.filter(|cell| cell.0.is_finite()) {
                    None => String::new(),
                    Some((value, ci95)) if n == 0 => {
                        format!("{value:.0} ±{}", percent(value, ci95))
                    }
                    Some((value, _)) => format!("{value:.digits$}"),
                });
            }
            table.row(line);
        }
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::thread::count;
    use super::*;
    use crate::measure::times;
    use crate::target::{Library, Sharing};

    #[test]
    fn every_thread_does_its_part_of_every_phase() {
        let target = Library::new(Sharing::Lowest).unwrap();
        let job = Tio::new(256);
        let phases = times(&target, &job, 4, 0).unwrap();
        let done: Vec<u64> = phases.iter().map(|phase| phase.operations).collect();
        assert_eq!(done, [256, 4_000, 256, 4_000]);
        assert_eq!(
            job.latencies.each_ref().map(count),
            [256, 4_000, 256, 4_000]
        );
    }

    #[test]
    fn the_columns_are_those_of_the_report() {
        let time = PhaseTime {
            seconds: 2.0,
            operations: 1_000,
            cpu: 1.5,
            per_core: 2.0,
        };
        let mut latencies = Histogram::new();
        (0..9).for_each(|_| latencies.add(1_000_000));
        latencies.add(3_000_000_000);
        let [rate, cpu, mean, most, above_2, above_10, efficiency] = columns(&time, &latencies);
        assert!((rate - 2.048).abs() < 1e-9 && (cpu - 75.0).abs() < 1e-9);
        assert!((mean - 300.9).abs() < 1e-9 && (most - 3000.0).abs() < 1e-9);
        assert_eq!((above_2, above_10), (10.0, 0.0));
        assert!((efficiency - 2.048 / 75.0).abs() < 1e-12);
    }
}
