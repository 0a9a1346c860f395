//! FxMark's 19 micro-benchmarks (Min, Kashyap, Maass, Kang, Kim: "Understanding Manycore
//! Scalability of File Systems", USENIX ATC 2016, table 1).
//!
//! A name is four letters: data or metadata (D, M), read or write (R, W), the operation, and how
//! much the tasks share: low, everything is private; medium, one file or directory, each task its
//! own part of it; high, the very same block or path. Differences to the program of the paper:
//! those that use up their files do a fixed number of operations instead of running until a full
//! disk stops them, and a listing is one operation, not each of its entries.

use super::session::{MANY_TASKS, Session};
use super::{Family, boxed};
use crate::ask::Ask;
use crate::contender::Contender;
use crate::pinned::allowed_cores;
use crate::row::OPS_PER_SECOND;
use crate::script::Script;
use crate::stats::{Grid, middle, range};
use crate::table::Table;
use crate::workloads::{FXMARK_STEADY, FXMARK_USED_UP, MRPM_QUICK};

/// The names, in the order of the paper.
const NAMES: [&str; 19] = [
    "DWAL", "DWOL", "DWOM", "DWSL", "DWTL", "DRBL", "DRBM", "DRBH", "MRPL", "MRPM", "MRPH", "MRDL",
    "MRDM", "MWCL", "MWCM", "MWUL", "MWUM", "MWRL", "MWRM",
];
/// What two tasks on two cores must do of what one does.
const SCALES: f64 = 1.6;
/// By how many of the 19.
const MANY: f64 = 17.0;
/// Operations of each task where it is asked what many tasks keep: each is at work for some turns
/// on its core, so that what counts is how they share it and not how a thread begins.
const OF_MANY_TASKS: usize = 40_000;
/// Operations of each task where each has a page of contents: it takes as long, and what all of
/// them take stays below what a small machine has at hand.
const PAGES_OF_MANY_TASKS: usize = 20_000;

pub const FAMILY: Family = Family {
    name: "fxmark",
    about: || {
        let line = |name: &&str| {
            let mut all = FXMARK_STEADY.iter().chain(&FXMARK_USED_UP);
            let about = all
                .find(|one| one.name == *name)
                .map_or("", |one| one.about);
            format!("- {name}: {about}")
        };
        let lines: Vec<String> = NAMES.iter().map(line).collect();
        format!(
            "FxMark's micro-benchmarks, each task on its own core (ATC 2016). In a first look the \
             tree of MRPM has 4\nbranches a directory instead of 8. Those that use up \
             their files do so once, undo it, and do it\nagain, which is measured; the rate is \
             the operations of all over the mean time of a core, as in the\nprogram of the \
             paper.\nIn all 19 the tasks commute, so what {MANY_TASKS} tasks keep of what 2 do is \
             asked of each; of those that use up their\nfiles with {OF_MANY_TASKS} each \
             ({PAGES_OF_MANY_TASKS} where an operation has a page), and as many files in all: two \
             tasks have\n{} times as many each then.\n\n{}",
            MANY_TASKS / 2,
            lines.join("\n")
        )
    },
    scripts: || steady(true),
    others: || FXMARK_USED_UP.iter().map(|script| script.name).collect(),
    also_counted: || boxed(&FXMARK_USED_UP),
    run,
};

fn run(session: &mut Session) -> Result<(), String> {
    let quick = session.options.quick;
    let tasks = if quick { vec![1, 2] } else { session.tasks() };
    let mut grid = session.rates(&steady(quick), &tasks)?;
    let [usual, as_many] = used_up(session, &tasks)?;
    session.report.add_grid(&usual, OPS_PER_SECOND);
    let metric = ("ops_per_s_as_many_files", "1/s");
    session.report.add_grid(&as_many, metric);
    grid.absorb(usual);
    grid.sort_workloads(&NAMES);
    session.print_rates(&grid);
    println!("{}", scale_table(&grid, &session.names()));
    for workload in grid.workloads() {
        let (name, title) = (format!("fxmark-{workload}"), &*workload);
        let title = (title, "operations per second");
        session.draw(&name, title, (&grid, &workload), &tasks)?;
    }
    ask(session, &grid, &as_many);
    Ok(())
}

/// The twelve on files that stay.
fn steady(quick: bool) -> Vec<&'static Script> {
    let all = FXMARK_STEADY.iter();
    all.map(|one| {
        if quick && one.name == "MRPM" {
            &MRPM_QUICK
        } else {
            one
        }
    })
    .collect()
}

/// One kind of run of those that use up their files: tasks, operations of each, and whether it is
/// in the table, and not one of the two that tell what many tasks keep.
type FxRun = (usize, usize, bool);

/// Operations per second of the seven that use up their files: with the usual number of files for
/// each task; and with as many files in all as [`MANY_TASKS`] tasks have, on the library.
fn used_up(session: &Session, tasks: &[usize]) -> Result<[Grid; 2], String> {
    let mut rates = [Grid::default(), Grid::default()];
    for script in FXMARK_USED_UP
        .iter()
        .filter(|script| session.wants(script.name))
    {
        for round in 0..session.effort.runs {
            for contender in &session.contenders {
                let runs = runs(contender, script, tasks, session.options.quick);
                let all = used_up_round(session, contender, script, &runs, round)?;
                for ((tasks, _, is_usual), rate) in runs.into_iter().zip(all) {
                    let grid = &mut rates[usize::from(!is_usual)];
                    grid.push(script.name, &contender.name, tasks, rate);
                }
            }
        }
        eprintln!("measured: {}", script.name);
    }
    Ok(rates)
}

/// What `contender` is to do.
fn runs(contender: &Contender, script: &Script, tasks: &[usize], is_quick: bool) -> Vec<FxRun> {
    let of_many = if script.has_contents() {
        PAGES_OF_MANY_TASKS
    } else {
        OF_MANY_TASKS
    };
    let (usual, many) = match (contender.is_library(), is_quick) {
        (true, true) => (4_000, 4_000),
        (true, false) => (16_000, of_many),
        (false, true) => (200, 0),
        (false, false) => (1_000, 0),
    };
    let mut runs: Vec<FxRun> = tasks.iter().map(|&tasks| (tasks, usual, true)).collect();
    // Only the library is asked what many tasks keep, where there are two cores. With fewer files
    // two tasks would be compared for the sizes of their caches.
    if many > 0 && tasks.contains(&MANY_TASKS) && allowed_cores().len() == 2 {
        runs.extend([(MANY_TASKS, many, false), (2, many * MANY_TASKS / 2, false)]);
    }
    runs
}

/// A run of each kind, in turns as those of steady workloads.
fn used_up_round(
    session: &Session,
    contender: &Contender,
    script: &'static Script,
    runs: &[FxRun],
    round: u32,
) -> Result<Vec<f64>, String> {
    let length = session.effort.turn(contender).as_secs_f64();
    let mut done = vec![(0, 0.0); runs.len()];
    for turn in 0..session.effort.turns(contender) {
        let mut runs: Vec<_> = runs.iter().zip(&mut done).collect();
        if (round + turn) % 2 == 1 {
            runs.reverse();
        }
        for (&(tasks, times, _), (operations, seconds)) in runs {
            let at = (tasks, (round + turn) as usize);
            let job = script.times(times);
            // One job may be short: as many as make a run of the usual length. The time is
            // that of the program of the paper: the mean of the cores' own.
            let end = length * f64::from(turn + 1);
            while *operations == 0 || *seconds < end {
                let times = session.job(contender, contender.fresh(), &job, at)?;
                let time = times.last().ok_or("it has no phase")?;
                *operations += time.operations;
                *seconds += time.core_seconds;
            }
        }
    }
    let rate = |(operations, seconds)| operations as f64 / seconds;
    Ok(done.into_iter().map(rate).collect())
}

/// Asks that two tasks do 1.6 times what one does, for 17 of the 19, on each library, and that
/// many tasks keep in each test what two do.
fn ask(session: &mut Session, grid: &Grid, as_many: &Grid) {
    for target in session.libraries() {
        if allowed_cores().len() > 1 {
            session.report.asks.extend(scaling(grid, &target));
        }
    }
    for workload in grid.workloads() {
        let is_used_up = as_many.workloads().contains(&workload);
        session.ask_of_many(if is_used_up { as_many } else { grid }, &workload);
    }
}

/// Asks that enough of the tests scale by their medians; the range is that of the rounds, each
/// counted by itself. Nothing if not all were measured: a part of them proves nothing.
fn scaling(grid: &Grid, target: &str) -> Option<Ask> {
    let ratios = NAMES.map(|name| grid.ratios(name, (target, 2), (target, 1)));
    let medians: Option<Vec<f64>> = ratios.iter().map(|ratios| middle(ratios)).collect();
    let medians = medians?;
    let below = NAMES
        .iter()
        .zip(&medians)
        .filter(|(_, scale)| **scale < SCALES);
    let below: Vec<String> = below
        .map(|(name, scale)| format!("{name} {scale:.2}"))
        .collect();
    let rounds = ratios.iter().map(Vec::len).min().unwrap_or(0);
    let many = |round: usize| ratios.iter().filter(|all| all[round] >= SCALES).count() as f64;
    let by_round: Vec<f64> = (0..rounds).map(many).collect();
    let not = match below.is_empty() {
        true => String::new(),
        false => format!(" (not {})", below.join(", ")),
    };
    let what = format!("{target}, FxMark: how many do {SCALES} times with 2 tasks{not}");
    let ask = Ask::at_least(what, MANY, &[(NAMES.len() - below.len()) as f64]);
    Some(Ask {
        range: range(&by_round),
        ..ask
    })
}

/// The median of each test on each target, and its smallest and largest round.
fn scale_table(grid: &Grid, targets: &[String]) -> String {
    let heading = ["2 tasks / 1".to_owned()];
    let mut table = Table::new(heading.into_iter().chain(targets.iter().cloned()));
    for name in grid.workloads() {
        let cell = |target: &String| {
            let ratios = grid.ratios(&name, (target, 2), (target, 1));
            let (low, high) = range(&ratios);
            let cell = |got| format!("{got:.2} ({low:.2} to {high:.2})");
            middle(&ratios).map_or(String::new(), cell)
        };
        table.row([name.clone()].into_iter().chain(targets.iter().map(cell)));
    }
    table.text()
}

#[cfg(test)]
mod tests;
