//! Lookup steps: how many cache lines a `stat` touches as its directory grows, which is what a
//! lookup costs apart from the price of memory.

use super::recorder;
use hearth::{Credentials, Volume};
use hearth_bench::row::Row;

/// Lookups of which the mean is taken.
const LOOKUPS: usize = 2_000;

/// The counts in a directory of some size.
pub struct Steps {
    /// Files in the directory.
    pub files: usize,
    /// Mean of the lines that one `stat` touched.
    pub lines: f64,
    /// The most that one touched.
    pub most: usize,
}

/// Counts among `files` files.
///
/// # Errors
/// The library refuses.
pub fn count(files: usize) -> Result<Steps, String> {
    let process = Volume::memory().process(Credentials::root());
    for file in 0..files {
        let made = process.mknod(file.to_string(), libc::S_IFREG | 0o644, 0);
        made.map_err(|errno| errno.to_string())?;
    }
    let (mut sum, mut most, mut missed) = (0, 0, 0);
    for at in 0..LOOKUPS {
        // Far apart, and every number once.
        let name = (at * 7_919 % files).to_string();
        let lines = recorder::count(|| missed += usize::from(process.stat(&name).is_err()));
        sum += lines;
        most = most.max(lines);
    }
    if missed > 0 {
        return Err(format!("{missed} of {LOOKUPS} files are not found"));
    }
    let lines = sum as f64 / LOOKUPS as f64;
    Ok(Steps { files, lines, most })
}

impl Steps {
    /// Returns the counts as rows.
    pub fn rows(&self) -> [Row; 2] {
        let row = |metric, value, unit| Row {
            bench: "conflicts",
            workload: format!("stat among {}", self.files),
            target: "lib".to_owned(),
            tasks: 1,
            metric,
            value,
            unit,
            runs: 1,
            ci95: 0.0,
        };
        [
            row("lines_per_op", self.lines, "lines"),
            row("lines_per_op_max", self.most as f64, "lines"),
        ]
    }
}
