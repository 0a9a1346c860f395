//! Counting a directory for quotas: a mount that waits for it (`quota=wait`) beside one without
//! quotas, and beside du(1).

use super::targets::{self, HostTarget};
use crate::ask::Ask;
use crate::children::output;
use crate::failure::Context;
use crate::options::Options;
use crate::report::Report;
use crate::runner;
use crate::stats::Grid;
use crate::watchdog::patiently;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// What the row is called, for `--only`.
pub const NAME: &str = "count";

/// Files of each directory.
const SIBLINGS: usize = 1000;

/// Files that are counted in a second, at least.
const LEAST: f64 = 100_000.0;

/// Measures how long each target takes to be there.
pub fn run(
    options: &Options,
    place: &Path,
    grid: &mut Grid,
    report: &mut Report,
) -> Result<(), String> {
    let directories = options.pick(20, 1000);
    let files = directories * SIBLINGS;
    let row = format!("{NAME} {files} files");
    let tree = place.join("counted");
    fill(&tree, directories)?;
    let state = place.join("counting");
    let count = |_: &(), target: &HostTarget, _| {
        // A kept count would be taken for true.
        if state.exists() {
            fs::remove_dir_all(&state).at(&state)?;
        }
        super::settle();
        let began = Instant::now();
        let served = patiently(super::PATIENCE, || target.serve(&tree, &state))?;
        if *target == HostTarget::Directory {
            output(Command::new("du").arg("-s").arg(&tree))?;
        }
        grid.push(&row, target.name(), 1, began.elapsed().as_secs_f64());
        drop(served);
        Ok(())
    };
    let is_counted = |target: &&HostTarget| COUNTED.contains(&target.name());
    let all: Vec<HostTarget> = targets::ALL.iter().filter(is_counted).copied().collect();
    runner::rounds(options.rounds_or(1, 7), &[()], &all, count)?;
    fs::remove_dir_all(&tree).at(&tree)?;
    let seconds = |target| grid.runs(&row, target, 1);
    let rates = seconds(targets::QUOTA).iter().zip(seconds(targets::SEEN));
    let rates: Vec<f64> = rates
        .map(|(counted, mounted)| files as f64 / (counted - mounted))
        .collect();
    let what = format!("{row}, per second of a mount with quotas longer than one without");
    report.asks.push(Ask::at_least(what, LEAST, &rates));
    Ok(())
}

/// The directory itself stands for du(1).
const COUNTED: [&str; 3] = ["directory", targets::SEEN, targets::QUOTA];

fn fill(tree: &Path, directories: usize) -> Result<(), String> {
    for n in 0..directories {
        let directory = tree.join(n.to_string());
        fs::create_dir_all(&directory).at(&directory)?;
        for file in 0..SIBLINGS {
            let path = directory.join(file.to_string());
            File::create(&path).at(&path)?;
        }
    }
    Ok(())
}
