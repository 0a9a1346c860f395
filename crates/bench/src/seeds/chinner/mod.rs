//! Chinner's test: every thread makes a fixed number of empty files in a directory of its own,
//! walks them, changes their modes and removes them (the script around fs_mark with which he
//! measured XFS: create, `find -ctime`, chmod, `rm -rf`).
//!
//! The number of files per thread is fixed, so N threads do N times the work of one: ideally in the
//! same time.

mod files;

pub use files::Files;

use super::Family;
use super::grid::Grid;
use super::session::{CROWD, Session};
use crate::activity::Activity;
use crate::chart::Chart;
use crate::measure::PhaseTime;
use crate::pinned::allowed_cores;
use crate::row::percent;
use crate::table::{Table, short};
use files::Phase;

/// The test.
pub struct Chinner;

const PHASES: [&str; 4] = ["create", "walk", "chmod", "unlink"];
const WORKLOAD: &str = "create/walk/chmod/unlink";
/// Files in one directory; a thread has as many directories as it needs.
const IN_DIRECTORY: usize = 1_000;
/// Times that a thread does all of it before it counts: afterwards the memory is there, as it is
/// for a kernel, and so is what is made on first use.
const WARM: usize = 2;
/// Permissions after the change.
const MODE: u16 = 0o600;

/// Files per second, by phase.
#[derive(Default)]
struct Rates {
    /// Over the mean time of a core.
    by_core: Grid,
    by_cpu: Grid,
}

/// One kind of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    threads: usize,
    /// So many times the usual number of files for each.
    times: usize,
}

/// Every number of threads with the usual number of files; and on two cores, where it is asked what
/// a crowd keeps, two threads with as many files in all as that has. With fewer they would be
/// compared for the sizes of their caches.
fn cells(tasks: &[usize]) -> Vec<Cell> {
    let usual = tasks.iter().map(|&threads| Cell { threads, times: 1 });
    let is_asked = tasks.contains(&CROWD) && allowed_cores().len() == 2;
    let as_many = is_asked.then_some(Cell {
        threads: 2,
        times: CROWD / 2,
    });
    usual.chain(as_many).collect()
}

impl Rates {
    /// Nothing if there were no turns.
    fn push(&mut self, name: &str, threads: usize, turns: &[Vec<PhaseTime>]) {
        if turns.is_empty() {
            return;
        }
        for (n, phase) in PHASES.iter().enumerate() {
            let time = PhaseTime::together(turns.iter().map(|phases| phases[n]));
            let files = time.operations as f64;
            self.by_core
                .push(phase, name, threads, files / time.per_core);
            self.by_cpu.push(phase, name, threads, files / time.cpu);
        }
    }

    fn keep(&self, session: &mut Session, by_core: &'static str, by_cpu: &'static str) {
        session.keep(self.by_core.rows(Chinner.name(), by_core, "1/s"));
        session.keep(self.by_cpu.rows(Chinner.name(), by_cpu, "1/s"));
    }
}

impl Family for Chinner {
    fn name(&self) -> &'static str {
        "chinner"
    }

    fn about(&self) -> String {
        format!(
            "Each thread makes, walks, chmods and unlinks its own empty files, a fixed number of \
             them ({} on the\nlibrary, {} elsewhere; in a first look {} and {}), {IN_DIRECTORY} in \
             a directory, after it has done so {WARM} times.\nFiles per second of all threads, \
             over the mean time of a core. What {CROWD} threads keep is asked of two that\nhave as \
             many files in all, {} times as many each.",
            each(true, false),
            each(false, false),
            each(true, true),
            each(false, true),
            CROWD / 2
        )
    }

    fn workloads(&self) -> Vec<String> {
        vec![WORKLOAD.to_owned()]
    }

    fn counted(&self) -> Vec<Box<dyn Activity>> {
        PHASES
            .map(|phase| Box::new(Phase(phase)) as Box<dyn Activity>)
            .into()
    }

    fn run(&self, session: &mut Session) -> Result<(), String> {
        let tasks = if session.is_quick() {
            vec![1, 2]
        } else {
            session.tasks()
        };
        let cells = cells(&tasks);
        let (mut usual, mut as_many) = (Rates::default(), Rates::default());
        for round in 0..session.effort().runs {
            let all = session.in_turns(&cells, round, |contender, cell, first| {
                if cell.times > 1 && !contender.is_library() {
                    return Ok(None);
                }
                let each = cell.times * each(contender.is_library(), session.is_quick());
                let at = (cell.threads, first);
                let done = session.job(contender, contender.fresh(), &Files { each }, at);
                done.map(Some)
            })?;
            for ((name, cell), turns) in all {
                let turns: Vec<Vec<PhaseTime>> = turns.into_iter().flatten().collect();
                if cell.times == 1 {
                    usual.push(name, cell.threads, &turns);
                }
                if cell.times > 1 || cell.threads == CROWD {
                    as_many.push(name, cell.threads, &turns);
                }
            }
        }
        println!("{}", table(&usual.by_core, &session.names(), &tasks));
        println!("{}", session.table_of_facts(self.name()));
        usual.keep(session, "files_per_s", "files_per_cpu_s");
        as_many.keep(session, "files_per_s_as_many", "files_per_cpu_s_as_many");
        session.by_cpu(as_many.by_cpu);
        for phase in PHASES {
            session.ask_of_a_crowd(&as_many.by_core, phase);
        }
        let grid = usual.by_core;
        session.by_cpu(usual.by_cpu);
        for phase in PHASES {
            let mut chart = Chart::new(phase, "files per second");
            for name in session.names() {
                let median = |n| grid.median(phase, &name, n).map(|cell| cell.0);
                chart.curve(&name, tasks.iter().map(|&n| (n, median(n))).collect());
            }
            session.draw(&format!("chinner-{phase}"), &chart)?;
            session.ask_of_two(&grid, phase);
        }
        Ok(())
    }
}

/// Files of each thread.
fn each(is_library: bool, quick: bool) -> usize {
    match (is_library, quick) {
        (true, true) => 4_000,
        (true, false) => 40_000,
        (false, true) => 200,
        (false, false) => 2_000,
    }
}

fn table(grid: &Grid, targets: &[String], tasks: &[usize]) -> String {
    let mut heading = vec!["files per second".to_owned(), "threads".to_owned()];
    heading.extend(PHASES.map(str::to_owned));
    let mut table = Table::new(heading);
    for target in targets {
        for &tasks in tasks {
            let cell = |phase| {
                let cell = grid.median(phase, target, tasks);
                cell.map_or(String::new(), |(value, ci95)| {
                    format!("{} ±{}", short(value), percent(value, ci95))
                })
            };
            let line = [target.clone(), tasks.to_string()];
            table.row(line.into_iter().chain(PHASES.map(cell)));
        }
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::times;
    use crate::target::{Library, Sharing};

    #[test]
    fn every_phase_is_about_every_file() {
        for each in [1, 1_000, 1_001] {
            let target = Library::new(Sharing::Processes).unwrap();
            let job = Files { each };
            let phases = times(&target, &job, 2, 0).unwrap();
            let done: Vec<u64> = phases.iter().map(|phase| phase.operations).collect();
            assert_eq!(done, [2 * each as u64; 4]);
        }
    }
}
