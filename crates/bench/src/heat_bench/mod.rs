//! `hearth-bench heat`: what heat costs, on against off, on volumes in memory, where nothing but
//! the processor is the limit; and the same by fs_mark itself on a mount.
//!
//! The tests are those that the patch set of 2013 was judged by (fs_mark, FFSB, compilebench), in
//! the layout of its report, and two that leave no place to hide (file-ops, thread_perf). Heat is
//! switched between short runs on one volume: where memory lies makes more difference between two
//! volumes than heat does. What decides is processor time per operation, folding included.

mod compilebench;
mod counts;
mod effect;
mod ffsb;
mod fs_mark;
mod fs_mark_mount;
mod loops;
mod random;
mod rows;
mod sides;
mod stage;
mod workload;

pub use loops::{LOOPS, run as run_loops};
pub use rows::{ROW, run as run_row};

use crate::options::Options;
use crate::pair::Side;
use crate::row::{Row, write_json};
use crate::seeds::{file_ops, thread_perf};
use crate::table::{Table, short};
use crate::target::Sharing;
use effect::Outcome;
use sides::{Amount, How, Measured};
use std::time::Duration;

/// The least share of the speed without heat that is enough.
const ENOUGH: f64 = 0.99;
/// The parts, as `--only` names them.
const PARTS: [&str; 8] = [
    "fs_mark",
    "fs_mark-mount",
    "ffsb",
    "compilebench",
    "file-ops",
    "thread_perf",
    "rows",
    "instructions",
];

/// How much is done, of jobs that can be as long as wanted, and of those of a given size, which
/// take seconds. `--rounds` are blocks on each volume.
fn amounts(options: &Options) -> [Amount; 2] {
    let mut elastic = match options.quick {
        true => Amount {
            volumes: 1,
            blocks: 3,
            control: 3,
            run: Duration::from_millis(20),
            part: 10,
        },
        // Longer than the shortest time between two folds.
        false => Amount {
            volumes: 3,
            blocks: 24,
            control: 3,
            run: Duration::from_millis(110),
            part: 1,
        },
    };
    elastic.blocks = options.rounds.unwrap_or(elastic.blocks);
    let given = Amount {
        blocks: elastic.blocks.div_ceil(2).max(elastic.control),
        ..elastic
    };
    [elastic, given]
}

/// Runs the benchmark and prints its tables.
///
/// # Errors
/// The library refuses, or heat costs more than it may, unless this is a first look.
pub fn run(options: &Options) -> Result<(), String> {
    let quick = options.quick;
    options.check_part(&PARTS)?;
    let wants = |part: &str| options.wants_part(part);
    let [elastic, given] = amounts(options);
    let mut rows = Vec::new();
    let mut measured = Vec::new();
    if wants("fs_mark") {
        println!("## fs_mark, in process\n");
        measured.extend(fs_mark::compare(given, &mut rows)?);
    }
    if wants("fs_mark-mount") {
        println!("## fs_mark on a mount\n");
        match fs_mark_mount::compare(elastic.blocks, quick, &mut rows) {
            Ok(more) => measured.push(more),
            Err(what) => println!("Not measured: {what}\n"),
        }
    }
    if wants("ffsb") {
        println!("## FFSB\n");
        measured.extend(ffsb::compare(elastic, &mut rows)?);
    }
    if wants("compilebench") {
        println!("## compilebench\n");
        measured.extend(compilebench::compare(given, &mut rows)?);
    }
    if wants("file-ops") {
        measured.extend(file_ops(elastic, &mut rows)?);
    }
    if wants("thread_perf") {
        measured.extend(thread_perf(elastic, &mut rows)?);
    }
    let mut missed = verdict(&measured, &mut rows);
    if wants("rows") && cfg!(not(debug_assertions)) {
        println!("## Instructions of these rows\n");
        missed.extend(rows::count(elastic, &mut rows)?);
    }
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

fn file_ops(amount: Amount, rows: &mut Vec<Row>) -> Result<Vec<(String, Measured)>, String> {
    let mut all = Vec::new();
    for (mode, short) in file_ops::MODES {
        for tasks in [1, 2, 16] {
            let one = sides::activity(&mode, tasks, amount)?;
            let workload = format!("file-ops {short}");
            let metric = ("ops_per_s", "1/s");
            rows.extend(one.speed.rows("heat", &workload, "lib", tasks, metric));
            all.push((format!("{workload} x{tasks}"), one));
        }
        eprintln!("measured: file-ops, {short}");
    }
    Ok(all)
}

fn thread_perf(amount: Amount, rows: &mut Vec<Row>) -> Result<Vec<(String, Measured)>, String> {
    let mut all = Vec::new();
    for (kind, _) in thread_perf::ALL {
        for (sharing, name) in [
            (Sharing::Lowest, "threads"),
            (Sharing::Processes, "processes"),
        ] {
            let how = How {
                sharing,
                tasks: 8,
                stays: true,
                is_elastic: true,
            };
            let make = |times| thread_perf::Test {
                kind,
                times: times as u32,
            };
            let mut one = sides::job(&make, how, amount, &mut |_, _, _, _| {})?;
            let one = one.swap_remove(0);
            let workload = format!("thread_perf {}, {name}", kind.name());
            let metric = ("ops_per_s", "1/s");
            rows.extend(one.speed.rows("heat", &workload, "lib", 8, metric));
            all.push((workload, one));
        }
        eprintln!("measured: thread_perf, {}", kind.name());
    }
    Ok(all)
}

/// With, without, and how they relate.
fn table(measured: &[(String, Measured)]) -> String {
    let heading = [
        "per second",
        "with",
        "without",
        "with / without",
        "off / off",
        "0.99",
    ];
    let mut table = Table::new(heading.map(str::to_owned));
    for (name, one) in measured {
        let speed = |side| short(one.speed.of(side).0);
        let effect = one.effect();
        let control = one.off_against_off();
        table.row([
            name.clone(),
            speed(Side::With),
            speed(Side::Without),
            effect.to_string(),
            control.map_or(String::new(), |control| control.to_string()),
            effect.outcome(ENOUGH).to_string(),
        ]);
    }
    table.text()
}

/// Prints every ratio, keeps it as a row, and answers those that are too low, their interval
/// included.
fn verdict(measured: &[(String, Measured)], rows: &mut Vec<Row>) -> Vec<String> {
    if measured.is_empty() {
        return Vec::new();
    }
    println!("## With heat against without\n\n{}", table(measured));
    let mut missed = Vec::new();
    let mut ratios = Vec::new();
    let mut counts = [Outcome::Met, Outcome::Undecided, Outcome::Missed].map(|kind| (kind, 0));
    for (name, one) in measured {
        let effect = one.effect();
        ratios.push(effect.ratio);
        let outcome = effect.outcome(ENOUGH);
        for (kind, count) in &mut counts {
            *count += usize::from(*kind == outcome);
        }
        if outcome == Outcome::Missed {
            missed.push(format!("{name}: {effect} of the speed without"));
        }
        let control = one.off_against_off();
        let all = [
            ("on_off", "on / off", Some(effect), &one.cpu),
            ("off_off", "off / off", control, &one.control),
        ];
        for (metric, target, effect, runs) in all {
            let Some(effect) = effect else { continue };
            rows.push(Row {
                bench: "heat",
                workload: name.clone(),
                target: target.to_owned(),
                tasks: 0,
                metric,
                value: effect.ratio,
                unit: "1",
                runs: runs.all(Side::With).len() as u32,
                ci95: effect.half(),
            });
        }
    }
    ratios.sort_by(f64::total_cmp);
    let said = counts.map(|(kind, count)| format!("{count} {kind}"));
    println!(
        "{ENOUGH} of the speed without heat: {} of {} rows. The lowest is {:.3}, the median {:.3}. \
         An interval holds the truth in nineteen of twenty rows.\n",
        said.join(", "),
        ratios.len(),
        ratios[0],
        ratios[ratios.len() / 2],
    );
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_runs_and_what_it_did_is_checked() {
        let mut rows = Vec::new();
        let little = Amount {
            volumes: 1,
            blocks: 2,
            control: 2,
            run: Duration::from_millis(1),
            part: 128,
        };
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
