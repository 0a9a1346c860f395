//! `hearth-bench freeing`: what it costs that memory is freed only when no reader can see it.
//!
//! The price is that of a create and unlink against a build of the same program that frees at once
//! (`--cfg hearth_free_at_once`: no epoch at all, good for one thread), in instructions and in time
//! of the processor. The other side of the price is memory: what waits while readers run.

pub mod at_once;
pub mod garbage;

use crate::cpu_time::of_thread;
use crate::instructions;
use crate::live;
use crate::options::Options;
use crate::row::{Row, median, write_json};
use crate::table::{Table, short};
use crate::valgrind;
use garbage::{Reader, Seen};
use hearth::{Credentials, Errno, Volume};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The verb that times the loop once.
pub const LOOP: &str = "freeing-loop";
/// Most that deferred freeing may add.
const PRICE_MAX: f64 = 0.15;
/// Most bytes that may wait.
const GARBAGE_MAX: f64 = (8 << 20) as f64;
/// The operation whose price it is, as the counted loops call it.
const OPERATION: &str = "create+unlink";

/// Measures, prints the tables and judges them.
///
/// # Errors
/// Something cannot be measured, or is above what it may be.
pub fn run(options: &Options) -> Result<(), String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let at_once = at_once::build()?;
    let programs = [("lib", &*here), ("lib-free-at-once", &*at_once)];
    let mut rows = match valgrind::look() {
        Ok(()) => instructions_of(programs)?,
        Err(what) => {
            println!("Instructions are not counted: {what}\n");
            Vec::new()
        }
    };
    rows.extend(times(programs, if options.quick { 5 } else { 15 })?);
    let mut over = Vec::new();
    println!("{}", prices(&rows, &mut over));

    let seconds = if options.quick { 1 } else { 5 };
    let seen = garbage_rows(seconds)?;
    println!("{}", waiting(&seen, &mut over));
    rows.extend(seen);
    if let Some(path) = &options.json {
        write_json(path, &rows)?;
    }
    if over.is_empty() {
        return Ok(());
    }
    Err(over.join("; "))
}

/// Instructions of a create and unlink, counted by valgrind.
fn instructions_of(programs: [(&str, &Path); 2]) -> Result<Vec<Row>, String> {
    let row = |(target, program): (&str, &Path)| {
        let counts = instructions::count(program)?;
        let count = counts.into_iter().find(|row| row.workload == OPERATION);
        let count = count.ok_or("create+unlink was not counted")?;
        let target = target.to_owned();
        Ok(Row {
            bench: "freeing",
            target,
            ..count
        })
    };
    programs.into_iter().map(row).collect()
}

/// The table of prices; what is too dear goes to `over`. What was not measured is left empty.
fn prices(rows: &[Row], over: &mut Vec<String>) -> String {
    let heading = ["create+unlink", "deferred", "at once", "price", "wanted"];
    let mut table = Table::new(heading.map(str::to_owned));
    for metric in ["instructions_per_op", "us_per_op"] {
        let mut pair = rows.iter().filter(|row| row.metric == metric);
        let [deferred, at_once] = [pair.next(), pair.next()].map(|row| row.map(|row| row.value));
        let price = deferred.zip(at_once).map(|(one, other)| one / other - 1.0);
        let cell = |value: Option<f64>| value.map_or(String::new(), short);
        table.row([
            metric.to_owned(),
            cell(deferred),
            cell(at_once),
            price.map_or(String::new(), |price| format!("{:+.1} %", price * 100.0)),
            format!("{:.0} %", PRICE_MAX * 100.0),
        ]);
        if let Some(price) = price.filter(|&price| price > PRICE_MAX) {
            over.push(format!("{metric}: {:.1} % more", price * 100.0));
        }
    }
    table.text()
}

/// The table of waiting memory; what is too much goes to `over`.
fn waiting(rows: &[Row], over: &mut Vec<String>) -> String {
    let heading = ["create+unlink beside", "MiB waiting at most", "wanted"];
    let mut table = Table::new(heading.map(str::to_owned));
    for row in rows {
        let mib = |bytes: f64| format!("{:.2}", bytes / (1 << 20) as f64);
        table.row([row.workload.clone(), mib(row.value), mib(GARBAGE_MAX)]);
        if row.value > GARBAGE_MAX {
            over.push(format!("{}: {} MiB wait", row.workload, mib(row.value)));
        }
    }
    table.text()
}

/// Time of the processor for a create and unlink, in turns.
fn times(programs: [(&str, &Path); 2], runs: u32) -> Result<Vec<Row>, String> {
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        for ((_, program), samples) in programs.iter().zip(&mut samples) {
            let output = Command::new(program).arg(LOOP).output();
            let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
            let text = String::from_utf8_lossy(&output.stdout);
            let us = text.trim().parse().map_err(|_| {
                let said = String::from_utf8_lossy(&output.stderr);
                format!("{} {LOOP}: {}", program.display(), said.trim())
            })?;
            samples.push(us);
        }
    }
    let row = |((target, _), mut samples): ((&str, &Path), Vec<f64>)| {
        let (value, ci95) = median(&mut samples);
        Row {
            bench: "freeing",
            workload: OPERATION.to_owned(),
            target: target.to_owned(),
            tasks: 1,
            metric: "us_per_op",
            value,
            unit: "us",
            runs,
            ci95,
        }
    };
    Ok(programs.into_iter().zip(samples).map(row).collect())
}

/// The verb [`LOOP`]: prints the microseconds of the processor for one create and unlink.
///
/// # Errors
/// The library refuses.
pub fn run_loop() -> Result<(), String> {
    let failed = |errno: Errno| errno.to_string();
    let process = Volume::memory().process(Credentials::root());
    let names: Vec<String> = (0..64).map(|n| format!("/new-{n}")).collect();
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    let round = || {
        names.iter().try_for_each(|name| {
            process.close(process.open(name, flags, 0o644)?)?;
            process.unlink(name)
        })
    };
    (0..200).try_for_each(|_| round()).map_err(failed)?;
    let (start, before, mut rounds) = (Instant::now(), of_thread(), 0);
    while start.elapsed() < Duration::from_millis(200) {
        round().map_err(failed)?;
        rounds += 1;
    }
    let spent = of_thread().saturating_sub(before);
    println!(
        "{}",
        spent.as_secs_f64() * 1e6 / f64::from(rounds) / names.len() as f64
    );
    Ok(())
}

/// What waits beside every reader, each measured by `hearth-live` in a process of its own.
fn garbage_rows(seconds: u64) -> Result<Vec<Row>, String> {
    let program = live::program()?;
    let mut rows = Vec::new();
    for (n, reader) in Reader::ALL.into_iter().enumerate() {
        for place in ["own", "same"] {
            let args = ["garbage", &n.to_string(), place, &seconds.to_string()];
            let output = Command::new(&program).args(args).output();
            let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
            let text = String::from_utf8_lossy(&output.stdout);
            let value: f64 = text
                .trim()
                .parse()
                .map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())?;
            let core = if place == "same" {
                "the same core"
            } else {
                "its own core"
            };
            rows.push(Row {
                bench: "freeing",
                workload: format!("{} on {core}", reader.name()),
                target: "lib".to_owned(),
                tasks: 2,
                metric: "garbage_bytes_max",
                value,
                unit: "B",
                runs: 1,
                ci95: 0.0,
            });
        }
    }
    Ok(rows)
}

/// The verb `garbage` of `hearth-live`: number of the reader, `own` or `same`, seconds. Prints the
/// most bytes that waited.
///
/// # Errors
/// An argument is missing, or the run fails or did nothing.
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
        return Err(format!(
            "{}: {pairs} files and {reads} reads are too few",
            reader.name()
        ));
    }
    println!("{bytes}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(metric: &'static str, values: [f64; 2]) -> [Row; 2] {
        values.map(|value| Row {
            bench: "freeing",
            workload: OPERATION.to_owned(),
            target: "lib".to_owned(),
            tasks: 1,
            metric,
            value,
            unit: "1",
            runs: 1,
            ci95: 0.0,
        })
    }

    #[test]
    fn what_was_not_counted_is_left_empty_and_the_rest_is_judged() {
        let (times, mut over) = (rows("us_per_op", [1.5, 1.0]), Vec::new());
        let text = prices(&times, &mut over);
        let cells = |line: usize| -> Vec<String> {
            let line = text.lines().nth(line).unwrap().trim_matches('|');
            line.split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        assert_eq!(cells(2), ["instructions_per_op", "", "", "", "15 %"]);
        assert_eq!(cells(3), ["us_per_op", "1.50", "1.00", "+50.0 %", "15 %"]);
        assert_eq!(over, ["us_per_op: 50.0 % more"]);
        let counts = rows("instructions_per_op", [1.1, 1.0]);
        let mut over = Vec::new();
        prices(
            &[&counts[..], &rows("us_per_op", [1.1, 1.0])].concat(),
            &mut over,
        );
        assert!(over.is_empty(), "{over:?}");
    }
}
