//! `hearth-bench host`: a directory that is there, used directly, through Hearth with and without
//! quotas and heat, in `hearth run`, and through bindfs, fuse-overlayfs and mergerfs.
//!
//! Each job is one shell command in a fresh copy of the same tree, on one disk and in one run. A
//! peer that is not installed is named and left out. One row more is how long a directory takes to
//! be counted for quotas.

mod counting;
mod jobs;
mod targets;

use crate::ask::Ask;
use crate::failure::Context;
use crate::git_checkout::Checkout;
use crate::options::Options;
use crate::report::{self, Report};
use crate::row::SECONDS;
use crate::runner;
use crate::stats::Grid;
use crate::watchdog::patiently;
use hearth_testing::place::Place;
use jobs::HostJob;
use std::time::{Duration, Instant};
use targets::HostTarget;

/// How long one job may take on one target.
const PATIENCE: Duration = Duration::from_secs(600);

/// What of the time of a job without it one with it may take at most: with, without.
const ASKED: &[(&str, &str, f64)] = &[
    (targets::QUOTA, targets::SEEN, 1.03),
    ("hearth heat", targets::SEEN, 1.03),
];

/// What of the time of the directory itself large reads and writes that the kernel passes through
/// may take at most.
const PASSED: f64 = 1.05;

/// Measures and prints the tables.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let place = Place::new("host").text()?;
    let repository = Checkout::new(options.pick(5, 20))?;
    let mut grid = Grid::default();
    let mut missing = Vec::new();
    let jobs = jobs::ALL.iter().filter(|job| options.wants(job.name));
    let jobs: Vec<&HostJob> = jobs.collect();
    let run = |job: &&HostJob, target: &HostTarget, _| {
        let below = place.path().join("below");
        std::fs::create_dir(&below).at(&below)?;
        job.prepare(&below, &repository)?;
        settle();
        match target.serve(&below, &place.path().join("state")) {
            Ok(served) => {
                let began = Instant::now();
                patiently(PATIENCE, || served.shell(job.line)).context(format_args!(
                    "{}, {}",
                    target.name(),
                    job.name
                ))?;
                grid.push(job.name, target.name(), 1, began.elapsed().as_secs_f64());
                // Unmounted before the directory below is removed.
            }
            Err(_) if missing.contains(&target.name()) => {}
            Err(what) => {
                missing.push(target.name());
                println!("without {}: {what}", target.name());
            }
        }
        std::fs::remove_dir_all(&below).at(&below)
    };
    runner::rounds(options.rounds_or(1, 7), &jobs, targets::ALL, run)?;
    if options.wants(counting::NAME) {
        counting::run(options, place.path(), &mut grid, report)?;
    }
    let names = targets::ALL.iter().map(|target| target.name());
    let names = grid.known(names);
    let text = report::table(["seconds", "tasks"], &grid, &names, &["directory"], None);
    println!("{text}");
    report.add_grid(&grid, SECONDS);
    ask(&grid, report);
    Ok(())
}

fn ask(grid: &Grid, report: &mut Report) {
    for job in jobs::ALL {
        for &(with, without, most) in ASKED {
            let ratios = grid.ratios(job.name, (with, 1), (without, 1));
            if !ratios.is_empty() {
                let what = format!("{}, time: {with} / {without}", job.name);
                report.asks.push(Ask::at_most(what, most, &ratios));
            }
        }
        let ratios = grid.ratios(job.name, ("hearth", 1), ("directory", 1));
        if job.passes && !ratios.is_empty() {
            let what = format!("{}, time: hearth, passed through / directory", job.name);
            report.asks.push(Ask::at_most(what, PASSED, &ratios));
        }
    }
}

/// What was written before is not the load of what comes.
fn settle() {
    rustix::fs::sync();
}
