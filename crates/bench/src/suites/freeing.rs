//! `hearth-bench freeing`: what it costs that memory is freed only when no reader can see it.
//!
//! The price is that of a create and unlink against a build of the same program that frees at once
//! (`--cfg hearth_free_at_once`: no epoch at all, good for one thread), in instructions and in time
//! of the processor. The other side of the price is memory: what waits while readers run.

use super::garbage::{self, Reader, Seen};
use super::instructions;
use crate::ask::Ask;
use crate::cells;
use crate::cpu_time::of_thread;
use crate::daemons::output;
use crate::live;
use crate::loops::{LoopFixture, create_unlink};
use crate::options::Options;
use crate::report::Report;
use crate::stats::{Grid, ratios};
use crate::table::{Table, short};
use crate::valgrind;
use hearth::{Errno, Volume};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The verb that times the loop once.
pub const LOOP: &str = "freeing-loop";
/// Most that deferred freeing may add.
const PRICE_MAX: f64 = 1.15;
/// Most MiB that may wait.
const GARBAGE_MAX: f64 = 8.0;
/// The operation whose price it is, as the counted loops call it.
const OPERATION: &str = "create+unlink";
const TARGETS: [&str; 2] = ["lib", "lib-free-at-once"];

/// Measures and prints the tables.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let programs = [here, build_at_once()?];
    let mut table = Table::new([OPERATION, "deferred", "at once", "price"]);
    let mut add = |metric: (&'static str, &'static str), grid: &Grid| {
        report.add_grid(grid, metric);
        let [deferred, at_once] = TARGETS.map(|target| grid.runs(OPERATION, target, 1));
        let price = Ask::at_most(
            format!("{}: deferred / at once", metric.0),
            PRICE_MAX,
            &ratios(deferred, at_once),
        );
        let [own, other] = TARGETS.map(|target| {
            let median = grid.median(OPERATION, target, 1);
            median.map_or(String::new(), |(value, _)| short(value))
        });
        let shown = price
            .got
            .map(|price| format!("{:+.1} %", (price - 1.0) * 100.0));
        table.row(cells![metric.0, own, other, shown.unwrap_or_default()]);
        report.asks.push(price);
    };
    match valgrind::look() {
        Ok(()) => add(("instructions_per_op", "1"), &instructions_of(&programs)?),
        Err(what) => println!("Instructions are not counted: {what}\n"),
    }
    let runs = if options.quick { 5 } else { 15 };
    add(("us_per_op", "us"), &times(&programs, runs)?);
    println!("{}", table.text());
    waiting(if options.quick { 1 } else { 5 }, report)
}

/// Builds this program with an epoch that frees at once, in a target directory of its own.
fn build_at_once() -> Result<PathBuf, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap_or(here);
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let target = root.join(target).join("at-once");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "--release", "--package", "hearth-bench"])
        .args(["--bin", "hearth-bench"])
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_INCREMENTAL", "0")
        .env("RUSTFLAGS", "--cfg hearth_free_at_once")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    match status.success() {
        true => Ok(target.join("release/hearth-bench")),
        false => Err(format!("building the program that frees at once: {status}")),
    }
}

/// Instructions of a create and unlink, counted by valgrind.
fn instructions_of(programs: &[PathBuf; 2]) -> Result<Grid, String> {
    let mut grid = Grid::default();
    for (target, program) in TARGETS.into_iter().zip(programs) {
        let counts = instructions::count(program)?;
        let count = counts.iter().find(|row| row.workload == OPERATION);
        let count = count.ok_or("create+unlink was not counted")?;
        grid.push(OPERATION, target, 1, count.value);
    }
    Ok(grid)
}

/// Microseconds of the processor for a create and unlink, in turns.
fn times(programs: &[PathBuf; 2], runs: u32) -> Result<Grid, String> {
    let mut grid = Grid::default();
    for _ in 0..runs {
        for (target, program) in TARGETS.into_iter().zip(programs) {
            let text = output(Command::new(program).arg(LOOP))?;
            let us = text
                .trim()
                .parse()
                .map_err(|_| format!("{LOOP}: '{text}'"))?;
            grid.push(OPERATION, target, 1, us);
        }
    }
    Ok(grid)
}

/// The verb [`LOOP`]: prints the microseconds of the processor for one create and unlink.
pub fn run_loop() -> Result<(), String> {
    let timed = || {
        let on = LoopFixture::<64>::new(&Volume::memory(), 0)?;
        let round = || (0..64).try_for_each(|turn| create_unlink(&on, turn));
        (0..200).try_for_each(|_| round())?;
        let (start, before, mut rounds) = (Instant::now(), of_thread(), 0);
        while start.elapsed() < Duration::from_millis(200) {
            round()?;
            rounds += 64;
        }
        let spent = of_thread().saturating_sub(before);
        Ok(spent.as_secs_f64() * 1e6 / f64::from(rounds))
    };
    let us: f64 = timed().map_err(|errno: Errno| errno.to_string())?;
    println!("{us}");
    Ok(())
}

/// What waits beside every reader, each measured by `hearth-live` in a process of its own.
fn waiting(seconds: u64, report: &mut Report) -> Result<(), String> {
    let program = live::program()?;
    let mut table = Table::new(["create+unlink beside", "MiB waiting at most"]);
    for (n, reader) in Reader::ALL.into_iter().enumerate() {
        for (place, core) in [("own", "its own core"), ("same", "the same core")] {
            let args = ["garbage", &n.to_string(), place, &seconds.to_string()];
            let text = output(Command::new(&program).args(args))?;
            let bytes: f64 = text
                .trim()
                .parse()
                .map_err(|_| format!("bytes: '{text}'"))?;
            let workload = format!("{} on {core}", reader.name());
            report.add_exact((&workload, "lib", 2), ("garbage_bytes_max", "B"), bytes);
            let mib = bytes / f64::from(1 << 20);
            table.row(cells![workload, format!("{mib:.2}")]);
            let what = format!("MiB that wait beside {workload}");
            report.asks.push(Ask::at_most(what, GARBAGE_MAX, &[mib]));
        }
    }
    println!("{}", table.text());
    Ok(())
}

/// The verb `garbage` of `hearth-live`: number of the reader, `own` or `same`, seconds. Prints the
/// most bytes that waited.
pub fn run_garbage(args: &[String]) -> Result<(), String> {
    let usage = "garbage READER own|same SECONDS";
    let [reader, place, seconds] = args else {
        return Err(usage.to_owned());
    };
    let reader = reader.parse().ok().and_then(|n: usize| Reader::ALL.get(n));
    let (&reader, seconds) = reader.zip(seconds.parse().ok()).ok_or(usage)?;
    let length = Duration::from_secs(seconds);
    let Seen {
        bytes,
        pairs,
        reads,
    } = garbage::run(reader, place == "same", length)?;
    if pairs < 1_000 || reads == 0 {
        let name = reader.name();
        return Err(format!(
            "{name}: {pairs} files and {reads} reads are too few"
        ));
    }
    println!("{bytes}");
    Ok(())
}
