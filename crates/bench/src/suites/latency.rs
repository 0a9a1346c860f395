//! `hearth-bench latency`: how long a `stat` takes beside renames.
//!
//! One thread makes 10,000 renames a second at fixed times, late ones at once, so that a slow
//! rename lowers no rate. The other one, on its own core, calls `stat` again and again and times
//! each call with the clock, whose own time is in the figures.

use crate::ask::Ask;
use crate::histogram::Histogram;
use crate::options::Options;
use crate::pinned::{allowed_cores, pin};
use crate::report::Report;
use crate::table::{Table, width};
use hearth::{Credentials, Errno, Process, Volume};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Renames in a second.
const RATE: u32 = 10_000;
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
    const ALL: [Renames; 4] = [Renames::None, Renames::Beside, Renames::Tree, Renames::Over];

    fn name(self) -> &'static str {
        match self {
            Renames::None => "stat alone",
            Renames::Beside => "stat beside renames in its directory",
            Renames::Tree => "stat through .. beside renames of directories",
            Renames::Over => "stat of a file that renames replace",
        }
    }

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
    let failed = |errno: Errno| format!("{}: {errno}", renames.name());
    let volume = Volume::memory();
    renames
        .prepare(&volume.process(Credentials::root()))
        .map_err(failed)?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (over, volume) = (&over, &volume);
        let renamer = scope.spawn(move || {
            let pinned = pin(renaming).map_err(|error| error.to_string());
            let done = pinned.and_then(|()| keep_on(volume, renames, rate, length).map_err(failed));
            // Relaxed: a flag by itself.
            over.store(true, Ordering::Relaxed);
            done
        });
        let looker = scope.spawn(move || {
            pin(looking).map_err(|error| error.to_string())?;
            look(volume, renames, over).map_err(failed)
        });
        let rate = renamer.join().map_err(|_| "the renamer panicked")??;
        let stats = looker.join().map_err(|_| "the reader panicked")??;
        Ok((stats, rate))
    })
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

fn look(volume: &Volume, renames: Renames, over: &AtomicBool) -> Result<Histogram, Errno> {
    let process = volume.process(Credentials::root());
    let (path, mut stats) = (renames.path(), Histogram::new());
    for _ in 0..1_000 {
        process.stat(path)?;
    }
    // Relaxed: a flag by itself.
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        let found = process.stat(path);
        let elapsed = start.elapsed();
        found?;
        stats.add(elapsed.as_nanos() as u64);
    }
    Ok(stats)
}

pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let (runs, length) = match options.quick {
        true => (3, Duration::from_millis(500)),
        false => (7, Duration::from_secs(2)),
    };
    let mut samples = Renames::ALL.map(|_| Vec::new());
    for _ in 0..runs {
        for (renames, samples) in Renames::ALL.into_iter().zip(&mut samples) {
            samples.push(run_once(renames, RATE, length)?);
        }
    }
    let headings = PERCENTILES.map(|(_, heading, _)| heading);
    let mut table = Table::new(["microseconds", "renames/s"].into_iter().chain(headings));
    for (renames, seen) in Renames::ALL.into_iter().zip(&samples) {
        let cell = (renames.name(), "lib", 2);
        let is_alone = renames == Renames::None;
        let rate = |seen: &(_, f64)| if is_alone { 0.0 } else { seen.1 };
        let rates: Vec<f64> = seen.iter().map(rate).collect();
        let (rate, _) = report.add(cell, ("renames_per_s", "1/s"), &rates);
        let mut line = vec![renames.name().to_owned(), format!("{rate:.0}")];
        for (metric, _, part) in PERCENTILES {
            let us = |seen: &(Histogram, f64)| seen.0.percentile(part) as f64 / 1e3;
            let all: Vec<f64> = seen.iter().map(us).collect();
            let (value, half) = report.add(cell, (metric, "us"), &all);
            line.push(format!("{value:.2} ±{}", width(half, 2)));
            if metric == "us_p99_9" {
                let what = format!("{}: p99.9 in microseconds", renames.name());
                report.asks.push(Ask::at_most(what, MOST_US, &all));
            }
        }
        table.row(line);
        if !is_alone {
            let what = format!("{}: renames a second", renames.name());
            report
                .asks
                .push(Ask::at_least(what, LEAST * f64::from(RATE), &rates));
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
        for renames in Renames::ALL {
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
