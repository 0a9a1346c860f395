//! `hearth-bench host`: a directory that is there, used directly, through Hearth with and without
//! quotas and heat, in `hearth run`, and through bindfs, fuse-overlayfs and mergerfs.
//!
//! Each job is one shell command in a fresh copy of the same tree, on one disk and in one run. A
//! peer that is not installed is named and left out.

mod jobs;
mod targets;

use crate::ask::Ask;
use crate::git_checkout::Checkout;
use crate::options::Options;
use crate::report::{self, Report};
use crate::row::Metric;
use crate::stats::Grid;
use crate::watchdog::{beat, patiently};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use targets::HostTarget;

/// How long one job may take on one target.
const PATIENCE: Duration = Duration::from_secs(600);

const SECONDS: Metric = ("seconds", "s");

/// What of the time of a job without it one with it may take at most: with, without.
const ASKED: &[(&str, &str, f64)] = &[
    ("hearth quota", targets::SEEN, 1.03),
    ("hearth heat", targets::SEEN, 1.03),
];

/// What of the time of the directory itself large reads and writes that the kernel passes through
/// may take at most.
const PASSED: f64 = 1.05;

/// Measures and prints the tables.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let place = HostPlace::new()?;
    let directories = if options.quick { 5 } else { 20 };
    let repository = Checkout::new(directories)?;
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 7 });
    let mut grid = Grid::default();
    let mut missing = Vec::new();
    for round in 0..rounds {
        for job in jobs::ALL.iter().filter(|job| options.wants(job.name)) {
            let mut order: Vec<HostTarget> = targets::ALL.to_vec();
            // Nobody is always first, or always behind the same.
            order.rotate_left(round % targets::ALL.len());
            for target in order {
                beat();
                let below = place.0.join("below");
                std::fs::create_dir(&below).map_err(|e| format!("{}: {e}", below.display()))?;
                job.prepare(&below, &repository)?;
                settle();
                let served = match target.serve(&below, &place.0.join("state")) {
                    Ok(served) => served,
                    Err(what) => {
                        if !missing.contains(&target.name()) {
                            missing.push(target.name());
                            println!("without {}: {what}", target.name());
                        }
                        remove(&below)?;
                        continue;
                    }
                };
                let began = Instant::now();
                patiently(PATIENCE, || served.shell(job.line))
                    .map_err(|what| format!("{}, {}: {what}", target.name(), job.name))?;
                grid.push(job.name, target.name(), 1, began.elapsed().as_secs_f64());
                // Unmounted before the directory below is removed.
                drop(served);
                remove(&below)?;
            }
        }
        eprintln!("measured: round {} of {rounds}", round + 1);
    }
    let names: Vec<String> = targets::ALL
        .iter()
        .map(|target| target.name().into())
        .collect();
    let is_there = |name: &String| grid.cells().any(|(key, _)| key.target == *name);
    let names: Vec<String> = names.into_iter().filter(is_there).collect();
    let no_more: report::Columns<'_> = (&[], &|_| Vec::new());
    println!(
        "{}",
        report::table("seconds", &grid, &names, &["directory"], no_more)
    );
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
    // SAFETY: the call takes nothing.
    unsafe { libc::sync() };
}

fn remove(below: &std::path::Path) -> Result<(), String> {
    std::fs::remove_dir_all(below).map_err(|error| format!("{}: {error}", below.display()))
}

/// Where the trees lie, removed with all that is in it.
struct HostPlace(PathBuf);

impl HostPlace {
    fn new() -> Result<HostPlace, String> {
        let name = format!("hearth-test-{}-host", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(HostPlace(path))
    }
}

impl Drop for HostPlace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
