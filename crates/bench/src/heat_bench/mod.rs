//! `hearth-bench heat`: what heat costs, on against off, on volumes in memory, where nothing but
//! the processor is the limit; and the same by fs_mark itself on two mounts.
//!
//! The tests are those that the patch set of 2013 was judged by (fs_mark, FFSB, compilebench), in
//! the layout of its report, and two that leave no place to hide (file-ops, thread_perf). Runs of
//! the two sides alternate, each on a fresh volume; a ratio is the median of the ratios of
//! neighbours.

mod compilebench;
mod ffsb;
mod fs_mark;
mod fs_mark_mount;
mod loops;
mod random;
mod sides;

pub use loops::{LOOPS, run as run_loops};

use crate::options::Options;
use crate::pair::Side;
use crate::row::{Row, write_json};
use crate::seeds::{file_ops, thread_perf};
use crate::table::{Table, short};
use crate::target::Sharing;
use sides::Measured;
use std::time::Duration;

/// The least share of the speed without heat that is enough.
const ENOUGH: f64 = 0.99;
/// The parts, as `--only` names them.
const PARTS: [&str; 7] = [
    "fs_mark",
    "fs_mark-mount",
    "ffsb",
    "compilebench",
    "file-ops",
    "thread_perf",
    "instructions",
];

/// How much is done.
#[derive(Clone, Copy)]
struct Amount {
    /// Runs of each side.
    runs: u32,
    /// One of so many parts of the work.
    part: usize,
}

/// Runs the benchmark and prints its tables.
///
/// # Errors
/// The library refuses, or heat costs more than it may, unless this is a first look.
pub fn run(options: &Options) -> Result<(), String> {
    let quick = options.quick;
    let wants = |part: &str| options.only.as_deref().is_none_or(|only| only == part);
    if !PARTS.iter().any(|part| wants(part)) {
        let only = options.only.as_deref().unwrap_or_default();
        return Err(format!(
            "unknown part '{only}'; there are: {}",
            PARTS.join(", ")
        ));
    }
    let amount = match quick {
        true => Amount { runs: 3, part: 10 },
        false => Amount { runs: 13, part: 1 },
    };
    let mut rows = Vec::new();
    let mut measured = Vec::new();
    if wants("fs_mark") {
        println!("## fs_mark, in process\n");
        measured.extend(fs_mark::compare(amount, &mut rows)?);
    }
    if wants("fs_mark-mount") {
        println!("## fs_mark on a mount\n");
        match fs_mark_mount::compare(quick, &mut rows) {
            Ok(more) => measured.extend(more),
            Err(what) => println!("Not measured: {what}\n"),
        }
    }
    if wants("ffsb") {
        println!("## FFSB\n");
        measured.extend(ffsb::compare(amount, &mut rows)?);
    }
    if wants("compilebench") {
        println!("## compilebench\n");
        measured.extend(compilebench::compare(amount, &mut rows)?);
    }
    if wants("file-ops") {
        println!("## file-ops\n");
        let more = file_ops(quick, &mut rows)?;
        println!("{}", table(&more));
        measured.extend(more);
    }
    if wants("thread_perf") {
        println!("## thread_perf\n");
        let more = thread_perf(quick, &mut rows)?;
        println!("{}", table(&more));
        measured.extend(more);
    }
    let mut missed = verdict(&measured, &mut rows);
    if wants("instructions") && cfg!(not(debug_assertions)) {
        println!("## Instructions\n");
        missed.extend(loops::count(&mut rows)?);
    }
    if let Some(path) = &options.json {
        write_json(path, &rows)?;
    }
    if missed.is_empty() {
        return Ok(());
    }
    let said = format!("heat costs more than it may: {}", missed.join("; "));
    match quick {
        true => {
            println!("In this first look {said}");
            Ok(())
        }
        false => Err(said),
    }
}

fn file_ops(quick: bool, rows: &mut Vec<Row>) -> Result<Vec<(String, Measured)>, String> {
    let (runs, length) = if quick { (3, 30) } else { (17, 500) };
    let mut all = Vec::new();
    for (mode, short) in file_ops::MODES {
        for tasks in [1, 2, 16] {
            let length = Duration::from_millis(length);
            let one = sides::activity(&mode, tasks, runs, length)?;
            let workload = format!("file-ops {short}");
            let metric = ("ops_per_s", "1/s");
            rows.extend(one.speed.rows("heat", &workload, "lib", tasks, metric));
            all.push((format!("{workload} x{tasks}"), one));
        }
        eprintln!("measured: file-ops, {short}");
    }
    Ok(all)
}

fn thread_perf(quick: bool, rows: &mut Vec<Row>) -> Result<Vec<(String, Measured)>, String> {
    let (runs, more) = if quick { (3, 1) } else { (17, 20) };
    let mut all = Vec::new();
    for (kind, times) in thread_perf::ALL {
        let test = thread_perf::Test {
            kind,
            times: times * more,
        };
        for (sharing, name) in [
            (Sharing::Lowest, "threads"),
            (Sharing::Processes, "processes"),
        ] {
            let mut one = sides::job(&|| test, sharing, 8, runs, &mut |_, _, _, _| {})?;
            let one = one.swap_remove(0);
            let workload = format!("thread_perf {}, {name}", kind.name());
            rows.extend(
                one.seconds
                    .rows("heat", &workload, "lib", 8, ("seconds", "s")),
            );
            all.push((workload, one));
        }
        eprintln!("measured: thread_perf, {}", kind.name());
    }
    Ok(all)
}

/// With, without and the ratio, and the ratio by processor time.
fn table(measured: &[(String, Measured)]) -> String {
    let heading = [
        "per second",
        "with",
        "without",
        "ratio",
        "by processor time",
    ];
    let mut table = Table::new(heading.map(str::to_owned));
    for (name, one) in measured {
        let verdict = one.verdict();
        let speed = |side| short(one.speed.of(side).0);
        let ratio = |(ratio, half)| format!("{ratio:.3} ±{half:.3}");
        table.row([
            name.clone(),
            speed(Side::With),
            speed(Side::Without),
            ratio(verdict.by_clock),
            ratio(verdict.by_cpu),
        ]);
    }
    table.text()
}

/// Prints every ratio, keeps it as a row, and answers those that are too low by the surer of both
/// measures, their interval included.
fn verdict(measured: &[(String, Measured)], rows: &mut Vec<Row>) -> Vec<String> {
    if measured.is_empty() {
        return Vec::new();
    }
    println!("## With heat against without\n\n{}", table(measured));
    let mut missed = Vec::new();
    let mut all = Vec::new();
    for (name, one) in measured {
        let verdict = one.verdict();
        let (ratio, half) = verdict.surer();
        all.push(ratio);
        if verdict.is_below(ENOUGH) {
            missed.push(format!(
                "{name}: {ratio:.3} ±{half:.3} of the speed without"
            ));
        }
        for (metric, (value, ci95)) in [
            ("on_off_by_clock", verdict.by_clock),
            ("on_off_by_cpu", verdict.by_cpu),
        ] {
            rows.push(Row {
                bench: "heat",
                workload: name.clone(),
                target: "on / off".to_owned(),
                tasks: 0,
                metric,
                value,
                unit: "1",
                runs: 0,
                ci95,
            });
        }
    }
    all.sort_by(f64::total_cmp);
    let (low, middle) = (all[0], all[all.len() / 2]);
    println!(
        "By the surer measure {} of {} rows are at {ENOUGH} or above, and {} are below it with \
         their whole interval; the lowest is {low:.3}, the median {middle:.3}.\n",
        all.iter().filter(|&&ratio| ratio >= ENOUGH).count(),
        all.len(),
        missed.len()
    );
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_runs_and_what_it_did_is_checked() {
        let mut rows = Vec::new();
        let little = Amount { runs: 1, part: 128 };
        let ffsb = ffsb::compare(little, &mut rows).unwrap();
        assert_eq!(ffsb.len(), 5 * ffsb::THREADS.len());
        assert_eq!(compilebench::compare(little, &mut rows).unwrap().len(), 11);
        assert_eq!(fs_mark::compare(little, &mut rows).unwrap().len(), 8);
        assert!(rows.iter().all(|row| row.value.is_finite()));
        assert!(table(&ffsb).contains("mail_server x32"));
    }

    #[test]
    fn a_part_that_does_not_exist_is_named() {
        let options = Options {
            only: Some("ffbs".to_owned()),
            ..Options::default()
        };
        assert!(
            run(&options)
                .unwrap_err()
                .contains("'ffbs'; there are: fs_mark")
        );
    }
}
