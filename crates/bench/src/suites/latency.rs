//! `hearth-bench latency`: how long a `stat` takes beside renames.
//!
//! One thread makes 10,000 renames a second at fixed times, late ones at once, so that a slow
//! rename lowers no rate. The other one, on its own core, calls `stat` again and again and times
//! each call with the clock, whose own time is in the figures.

use crate::ask::Ask;
use crate::failure::Context;
use crate::histogram::Histogram;
use crate::options::Options;
use crate::pinned::{allowed_cores, pin};
use crate::report::Report;
use crate::stats::{Metric, Samples};
use crate::table::{Table, width};
use crate::while_running::while_running;
use hearth::{Credentials, Errno, Process, Volume};
use std::time::{Duration, Instant};

/// Renames in a second.
const RATE: u32 = 10_000;
const RENAMES_PER_SECOND: Metric = ("renames_per_s", "1/s");
/// What 999 of 1,000 calls may take, in microseconds.
const MOST_US: f64 = 5.0;
/// Share of the renames that must have been made: the machine may take the core away at the end.
const LEAST: f64 = 0.95;
/// What is printed, its heading, and the share that it stands for.
const PERCENTILES: [(&str, &str, f64); 5] = [
    ("us_p50", "p50", 0.5),
    ("us_p99", "p99", 0.99),
    ("us_p99_9", "p99.9", 0.999),
    ("us_p99_99", "p99.99", 0.9999),
    ("us_max", "most", 1.0),
];

/// What is renamed while a file is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renames {
    None,
    /// A file of the directory in which the other one is looked up.
    Beside,
    /// A directory, from one directory to another and back; the path that is looked up goes up
    /// through `..`, so a walk notices and begins again.
    Tree,
    /// The file that is looked up, over another file that is looked up: the path is always there.
    Over,
}

impl Renames {
    /// All, with the names of what is measured beside them.
    const ALL: [(Renames, &str); 4] = [
        (Renames::None, "stat alone"),
        (Renames::Beside, "stat beside renames in its directory"),
        (
            Renames::Tree,
            "stat through .. beside renames of directories",
        ),
        (Renames::Over, "stat of a file that renames replace"),
    ];

    fn path(self) -> &'static str {
        match self {
            Renames::Tree => "/here/a/b/../../a/b/file",
            _ => "/here/a/b/file",
        }
    }

    fn rename(self, p: &Process, turn: u32) -> Result<(), Errno> {
        let (from, to) = match (self, turn % 2) {
            (Renames::None, _) => return Ok(()),
            (Renames::Beside, 0) => ("/here/a/b/one", "/here/a/b/two"),
            (Renames::Beside, _) => ("/here/a/b/two", "/here/a/b/one"),
            (Renames::Tree, 0) => ("/here/moves", "/there/moves"),
            (Renames::Tree, _) => ("/there/moves", "/here/moves"),
            (Renames::Over, _) => {
                p.mknod("/here/a/b/one", libc::S_IFREG | 0o644, 0)?;
                ("/here/a/b/one", "/here/a/b/file")
            }
        };
        p.rename(from, to)
    }

    fn prepare(self, p: &Process) -> Result<(), Errno> {
        for dir in ["/here", "/there", "/here/moves", "/here/a", "/here/a/b"] {
            p.mkdir(dir, 0o755)?;
        }
        p.mknod("/here/a/b/file", libc::S_IFREG | 0o644, 0)?;
        match self {
            Renames::Over => Ok(()),
            _ => p.mknod("/here/a/b/one", libc::S_IFREG | 0o644, 0),
        }
    }
}

/// Runs for `length`; returns the nanoseconds of each `stat`, and the renames in a second.
fn run_once(renames: Renames, rate: u32, length: Duration) -> Result<(Histogram, f64), String> {
    let [renaming, looking, ..] = allowed_cores()[..] else {
        return Err("a second core is needed".to_owned());
    };
    let failed = |errno: Errno| format!("{renames:?}: {errno}");
    let volume = Volume::memory();
    renames
        .prepare(&volume.process(Credentials::root()))
        .map_err(failed)?;
    let (rate, stats) = while_running(
        || {
            pin(renaming).text()?;
            keep_on(&volume, renames, rate, length).map_err(failed)
        },
        |goes_on| {
            pin(looking).text()?;
            look(&volume, renames, goes_on).map_err(failed)
        },
    )?;
    Ok((stats, rate))
}

/// Renames at fixed times; returns how many a second it were.
fn keep_on(volume: &Volume, renames: Renames, rate: u32, length: Duration) -> Result<f64, Errno> {
    let process = volume.process(Credentials::root());
    let gap = Duration::from_secs(1) / rate;
    let (start, mut turn) = (Instant::now(), 0);
    loop {
        let now = start.elapsed();
        if now >= length {
            return Ok(f64::from(turn) / now.as_secs_f64());
        }
        if now < gap * turn {
            std::hint::spin_loop();
            continue;
        }
        renames.rename(&process, turn)?;
        turn += 1;
    }
}

fn look(volume: &Volume, renames: Renames, goes_on: &dyn Fn() -> bool) -> Result<Histogram, Errno> {
    let process = volume.process(Credentials::root());
    let (path, mut stats) = (renames.path(), Histogram::new());
    for _ in 0..1_000 {
        process.stat(path)?;
    }
    while goes_on() {
        let start = Instant::now();
        let found = process.stat(path);
        let elapsed = start.elapsed();
        found?;
        stats.add(elapsed.as_nanos() as u64);
    }
    Ok(stats)
}

pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let (runs, millis) = options.pick((3, 500), (7, 2_000));
    let length = Duration::from_millis(millis);
    let mut samples = Samples::default();
    for _ in 0..runs {
        for (renames, name) in Renames::ALL {
            let (seen, rate) = run_once(renames, RATE, length)?;
            let rate = if renames == Renames::None { 0.0 } else { rate };
            samples.push(RENAMES_PER_SECOND, (name, "lib", 2), rate);
            for (metric, _, part) in PERCENTILES {
                let us = seen.percentile(part) as f64 / 1e3;
                samples.push((metric, "us"), (name, "lib", 2), us);
            }
        }
    }
    let headings = PERCENTILES.map(|(_, heading, _)| heading);
    let mut table = Table::new(["microseconds", "renames/s"].into_iter().chain(headings));
    for (renames, name) in Renames::ALL {
        let runs = |metric| samples.of(metric).runs(name, "lib", 2);
        let cell = (name, "lib", 2);
        let (rate, _) = report.add(cell, RENAMES_PER_SECOND, runs(RENAMES_PER_SECOND));
        let mut line = vec![name.to_owned(), format!("{rate:.0}")];
        for (metric, _, _) in PERCENTILES {
            let all = runs((metric, "us"));
            let (value, half) = report.add(cell, (metric, "us"), all);
            line.push(format!("{value:.2} ±{}", width(half, 2)));
            if metric == "us_p99_9" {
                let what = format!("{name}: p99.9 in microseconds");
                report.asks.push(Ask::at_most(what, MOST_US, all));
            }
        }
        table.row(line);
        if renames != Renames::None {
            let what = format!("{name}: renames a second");
            let least = LEAST * f64::from(RATE);
            let ask = Ask::at_least(what, least, runs(RENAMES_PER_SECOND));
            report.asks.push(ask);
        }
    }
    println!("{}", table.text());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_renames_what_it_says() {
        for (renames, _) in Renames::ALL {
            let volume = Volume::memory();
            let p = volume.process(Credentials::root());
            renames.prepare(&p).unwrap();
            let ino = |p: &Process| p.stat(renames.path()).unwrap().ino;
            let before = ino(&p);
            renames.rename(&p, 0).unwrap();
            assert_eq!(ino(&p) == before, renames != Renames::Over, "{renames:?}");
            assert_eq!(p.stat("/here/a/b/two").is_ok(), renames == Renames::Beside);
            assert_eq!(p.stat("/there/moves").is_ok(), renames == Renames::Tree);
            renames.rename(&p, 1).unwrap();
            assert!(p.stat("/here/moves").is_ok());
        }
    }

    #[test]
    fn a_run_times_every_stat_and_keeps_its_rate() {
        if allowed_cores().len() < 2 {
            return;
        }
        let (stats, rate) = run_once(Renames::Beside, 100, Duration::from_millis(200)).unwrap();
        assert!(stats.count() > 100 && stats.percentile(0.5) > 0);
        assert!(rate > 0.0 && rate < 110.0, "{rate}");
    }
}
