//! FxMark's 19 micro-benchmarks (Min, Kashyap, Maass, Kang, Kim: "Understanding Manycore
//! Scalability of File Systems", USENIX ATC 2016, table 1).
//!
//! A name is four letters: data or metadata (D, M), read or write (R, W), the operation, and how
//! much the tasks share: low, everything is private; medium, one file or directory, each task its
//! own part of it; high, the very same block or path. Differences to the program of the paper:
//! those that use up their files do a fixed number of operations instead of running until a full
//! disk stops them, and a listing is one operation, not each of its entries.

mod place;
mod scales;
mod steady;
mod used_up;

pub use steady::Steady;
pub use used_up::{Kind, OneByOne, UsedUp};

use super::Family;
use super::contender::Contender;
use super::counted::OPERATIONS;
use super::grid::Grid;
use super::session::{CROWD, Session};
use crate::activity::{Activity, Job};
use crate::chart::Chart;
use crate::pinned::allowed_cores;
use scales::Scales;

/// The test.
pub struct FxMark;

/// The names, in the order of the paper.
pub const NAMES: [&str; 19] = [
    "DWAL", "DWOL", "DWOM", "DWSL", "DWTL", "DRBL", "DRBM", "DRBH", "MRPL", "MRPM", "MRPH", "MRDL",
    "MRDM", "MWCL", "MWCM", "MWUL", "MWUM", "MWRL", "MWRM",
];
/// What two tasks on two cores must do of what one does.
const SCALES: f64 = 1.6;
/// By how many of the 19.
const MANY: f64 = 17.0;
/// Operations of each task where a crowd is asked what it keeps: each is at work for some turns on
/// its core, so that what counts is how they share it and not how a thread begins.
const OF_A_CROWD: usize = 40_000;
/// The same where each operation has a page of contents: it takes as long, and what all of them
/// take stays below what a small machine has at hand.
const PAGES_OF_A_CROWD: usize = 20_000;
/// Branches of the tree of MRPM.
const BRANCHES: usize = 8;

impl Family for FxMark {
    fn name(&self) -> &'static str {
        "fxmark"
    }

    fn about(&self) -> String {
        let steady = Steady::all(BRANCHES).map(|one| (Activity::name(&one), one.about()));
        let times = 1;
        let used_up = Kind::ALL.map(|kind| (Job::name(&UsedUp { kind, times }), kind.about()));
        let line = |name: &&str| {
            let mut all = steady.iter().chain(&used_up);
            let about = all.find(|one| one.0 == **name).map_or("", |one| one.1);
            format!("- {name}: {about}")
        };
        let lines: Vec<String> = NAMES.iter().map(line).collect();
        format!(
            "FxMark's micro-benchmarks, each task on its own core (ATC 2016). In a first look the \
             tree of MRPM has 4\nbranches a directory instead of {BRANCHES}. Those that use up \
             their files do so once, undo it, and do it\nagain, which is measured; the rate is \
             the operations of all over the mean time of a core, as in the\nprogram of the \
             paper.\nIn all 19 the tasks commute, so what {CROWD} tasks keep of what 2 do is \
             asked of each; of those that use up their\nfiles with {} each ({} where an operation \
             has a page), and as many files in all: two tasks have\n{} times as many each \
             then.\n\n{}",
            OF_A_CROWD,
            PAGES_OF_A_CROWD,
            CROWD / 2,
            lines.join("\n")
        )
    }

    fn workloads(&self) -> Vec<String> {
        NAMES.map(str::to_owned).to_vec()
    }

    fn activities(&self) -> Vec<Box<dyn Activity>> {
        activities(4)
    }

    fn counted(&self) -> Vec<Box<dyn Activity>> {
        let times = OPERATIONS;
        let used_up = Kind::ALL.map(|kind| OneByOne(UsedUp { kind, times }));
        let used_up = used_up.map(|one| Box::new(one) as Box<dyn Activity>);
        self.activities().into_iter().chain(used_up).collect()
    }

    fn run(&self, session: &mut Session) -> Result<(), String> {
        let quick = session.is_quick();
        let tasks = if quick { vec![1, 2] } else { session.tasks() };
        let branches = if quick { 4 } else { BRANCHES };
        let mut grid = session.rates(self.name(), &activities(branches), &tasks)?;
        let used_up = UsedUpRates::measure(session, &tasks)?;
        session.keep(used_up.usual.rows(self.name(), "ops_per_s", "1/s"));
        let as_many = &used_up.as_many;
        session.keep(as_many.rows(self.name(), "ops_per_s_as_many_files", "1/s"));
        grid.absorb(used_up.usual);
        grid.sort_workloads(&NAMES);
        println!("{}", session.table_of_rates(self.name(), &grid, &tasks));
        println!("{}", scales::table(&grid, &session.names()));
        for workload in grid.workloads() {
            let mut chart = Chart::new(&*workload, "operations per second");
            for name in session.names() {
                let median = |tasks| grid.median(&workload, &name, tasks).map(|cell| cell.0);
                chart.curve(&name, tasks.iter().map(|&n| (n, median(n))).collect());
            }
            session.draw(&format!("fxmark-{workload}"), &chart)?;
        }
        judge(session, &grid, &used_up.as_many);
        Ok(())
    }
}

fn activities(branches: usize) -> Vec<Box<dyn Activity>> {
    let boxed = |one| Box::new(one) as Box<dyn Activity>;
    Steady::all(branches).map(boxed).into()
}

/// One kind of run of those that use up their files.
struct Cell {
    tasks: usize,
    /// Operations of each.
    times: usize,
    /// It is in the table, and not one of the two that tell what a crowd keeps.
    is_usual: bool,
}

/// Operations per second of the seven that use up their files.
#[derive(Default)]
struct UsedUpRates {
    /// With the usual number of files for each task.
    usual: Grid,
    /// With as many files in all as [`CROWD`] tasks have, on the library.
    as_many: Grid,
}

impl UsedUpRates {
    fn measure(session: &Session, tasks: &[usize]) -> Result<UsedUpRates, String> {
        let mut rates = UsedUpRates::default();
        for kind in Kind::ALL {
            let name = Job::name(&UsedUp { kind, times: 1 });
            if !session.options().wants("fxmark", &name) {
                continue;
            }
            for round in 0..session.effort().runs {
                for contender in session.contenders() {
                    let cells = cells(contender, kind, tasks, session.is_quick());
                    let all = used_up_round(session, contender, kind, &cells, round)?;
                    for (cell, rate) in cells.iter().zip(all) {
                        rates.push(&name, &contender.name, cell, rate);
                    }
                }
            }
            eprintln!("measured: fxmark, {name}");
        }
        Ok(rates)
    }

    fn push(&mut self, name: &str, target: &str, cell: &Cell, rate: f64) {
        let grid = match cell.is_usual {
            true => &mut self.usual,
            false => &mut self.as_many,
        };
        grid.push(name, target, cell.tasks, rate);
    }
}

/// What `contender` is to do.
fn cells(contender: &Contender, kind: Kind, tasks: &[usize], is_quick: bool) -> Vec<Cell> {
    let of_a_crowd = match kind.has_pages() {
        true => PAGES_OF_A_CROWD,
        false => OF_A_CROWD,
    };
    let (usual, crowd) = match (contender.is_library(), is_quick) {
        (true, true) => (4_000, 4_000),
        (true, false) => (16_000, of_a_crowd),
        (false, true) => (200, 0),
        (false, false) => (1_000, 0),
    };
    let of = |tasks, times, is_usual| Cell {
        tasks,
        times,
        is_usual,
    };
    let mut cells: Vec<Cell> = tasks.iter().map(|&tasks| of(tasks, usual, true)).collect();
    // Only the library is asked what a crowd keeps, where there are two cores.
    if crowd > 0 && tasks.contains(&CROWD) && allowed_cores().len() == 2 {
        let two = of(2, crowd * CROWD / 2, false);
        cells.extend([of(CROWD, crowd, false), two]);
    }
    cells
}

/// A run of each cell, in turns as those of steady activities.
fn used_up_round(
    session: &Session,
    contender: &Contender,
    kind: Kind,
    cells: &[Cell],
    round: u32,
) -> Result<Vec<f64>, String> {
    let length = contender.turn(session.effort().run).as_secs_f64();
    let mut done = vec![(0, 0.0); cells.len()];
    for turn in 0..contender.turns() {
        let mut cells: Vec<_> = cells.iter().zip(&mut done).collect();
        if (round + turn) % 2 == 1 {
            cells.reverse();
        }
        for (cell, (operations, seconds)) in cells {
            let at = (cell.tasks, (round + turn) as usize);
            let job = UsedUp {
                kind,
                times: cell.times,
            };
            // One job may be short: as many as make a run of the usual length. The time is
            // that of the program of the paper: the mean of the cores' own.
            let end = length * f64::from(turn + 1);
            while *operations == 0 || *seconds < end {
                let time = session.job(contender, contender.fresh(), &job, at)?[UsedUp::WORK];
                *operations += time.operations;
                *seconds += time.per_core;
            }
        }
    }
    let rate = |(operations, seconds)| operations as f64 / seconds;
    Ok(done.into_iter().map(rate).collect())
}

/// Asks that two tasks do 1.6 times what one does, for 17 of the 19, on each library, and that a
/// crowd keeps in each test what two do.
fn judge(session: &mut Session, grid: &Grid, as_many: &Grid) {
    let libraries = session.contenders().iter().filter(|one| one.is_library());
    let names: Vec<String> = libraries.map(|one| one.name.clone()).collect();
    for target in names {
        let scales = Scales::of(grid, &target);
        if allowed_cores().len() > 1 && scales.is_complete() {
            session.ask(scales.ask(&target));
        }
    }
    for workload in grid.workloads() {
        let is_used_up = as_many.workloads().contains(&workload);
        let crowd = if is_used_up { as_many } else { grid };
        session.ask_of_a_crowd(crowd, &workload);
    }
}

#[cfg(test)]
mod tests;
