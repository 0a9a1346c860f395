//! `hearth-bench heat`: what heat costs, on against off, on volumes in memory, where nothing but
//! the processor is the limit; and by the program fs_mark on a mount.
//!
//! The tests are those that the patch set of 2013 was judged by (fs_mark, FFSB, compilebench), in
//! the layout of its report, and two that leave no place to hide (file-ops, thread_perf). Heat is
//! switched between short runs on one volume: where memory lies makes more difference between two
//! volumes than heat does. What decides is processor time per operation, folding included.

mod compilebench;
mod ffsb;
mod fixture;
mod fs_mark;
mod loops;
mod rows;
mod sides;

pub use loops::{LOOPS, run as run_loops};
pub use rows::{ROW, run as run_row};

use crate::ask::{Ask, Standing};
use crate::cells;
use crate::options::Options;
use crate::report::Report;
use crate::script::Script;
use crate::stats::Metric;
use crate::stats::{Pair, Side, median};
use crate::table::{Table, short};
use crate::target::Sharing;
use crate::workload::Workload;
use crate::workloads::{FILE_OPS, THREAD_PERF};
use sides::{Amount, Effect, How, Measured};
use std::time::Duration;

/// The least share of the speed without heat that is enough.
const ENOUGH: f64 = 0.99;
/// How many times as many instructions are let pass.
const TOO_MANY: f64 = 1.01;
/// How many of the whole life of a file, [`loops::LIFE`]. Each one brings a file to the fold, which
/// reads it with some 50 instructions: of the 6,800 of the rest that is most of a hundredth, and
/// the slower the machine, the larger is the share that is recorded one by one besides.
const TOO_MANY_OF_A_LIFE: f64 = 1.015;

/// Makes a workload of the given size.
type MakeWorkload = Box<dyn Fn(usize) -> Box<dyn Workload> + Sync>;

/// A workload whose phases are rows of the timed table.
pub struct HeatCase {
    /// Name and metric of each phase.
    rows: Vec<(String, Metric)>,
    /// Numbers of tasks.
    tasks: &'static [usize],
    how: How,
    make: MakeWorkload,
}

/// How much is done. `--rounds` are blocks on each volume; of jobs of a given size, which take
/// seconds, half of them.
fn amount(options: &Options, is_elastic: bool) -> Amount {
    let (volumes, blocks, part) = options.pick((1, 3, 10), (3, 24, 1));
    let control = 3;
    let blocks = options.rounds.unwrap_or(blocks);
    Amount {
        volumes,
        blocks: if is_elastic {
            blocks
        } else {
            blocks.div_ceil(2).max(control)
        },
        control,
        // Longer than the shortest time between two folds.
        run: Duration::from_millis(options.pick(20, 110)),
        part,
    }
}

/// The workloads of a part; those of a given size with one of `part` parts of their work.
type Workloads = fn(part: usize) -> Vec<HeatCase>;
const ALL: [Workloads; 5] = [
    ffsb::all,
    compilebench::all,
    file_ops,
    thread_perf,
    fs_mark::all,
];

fn file_ops(_part: usize) -> Vec<HeatCase> {
    let workload = |(script, short): &'static (Script, &str)| {
        let name = format!("file-ops {short}");
        HeatCase::of_script(script, name, Sharing::Processes, &[1, 2, 16])
    };
    FILE_OPS.iter().map(workload).collect()
}

fn thread_perf(_part: usize) -> Vec<HeatCase> {
    let workloads = |(script, _): &'static (Script, usize)| {
        [
            (Sharing::Lowest, "threads"),
            (Sharing::Processes, "processes"),
        ]
        .map(|(sharing, who)| {
            let name = format!("thread_perf {}, {who}", script.name);
            HeatCase::of_script(script, name, sharing, &[8])
        })
    };
    THREAD_PERF.iter().flat_map(workloads).collect()
}

impl HeatCase {
    fn of_script(
        script: &'static Script,
        name: String,
        sharing: Sharing,
        tasks: &'static [usize],
    ) -> HeatCase {
        HeatCase {
            rows: vec![(name, ("ops_per_s", "1/s"))],
            tasks,
            how: How {
                sharing,
                stays: true,
                is_elastic: true,
            },
            make: Box::new(move |times| Box::new(script.times(times))),
        }
    }
}

/// Measures the workloads of a part and keeps their rows and asks; returns what was measured by
/// workload, number of tasks and phase.
fn timed(
    workloads: Workloads,
    options: &Options,
    report: &mut Report,
) -> Result<Vec<(usize, Vec<Measured>)>, String> {
    let mut all = Vec::new();
    let heading = [
        "per second",
        "with",
        "without",
        "with / without",
        "off / off",
    ];
    let mut table = Table::new(heading);
    for workload in workloads(amount(options, false).part) {
        let amount = amount(options, workload.how.is_elastic);
        for &tasks in workload.tasks {
            let measured = sides::job(&*workload.make, workload.how, tasks, amount)?;
            for ((name, metric), one) in workload.rows.iter().zip(&measured) {
                let pair = match metric.0 {
                    "seconds" => &one.seconds,
                    _ => &one.speed,
                };
                report.add_pair((name, "lib", tasks), *metric, pair);
                let is_one = workload.tasks.len() == 1;
                let name = if is_one {
                    name.clone()
                } else {
                    format!("{name} x{tasks}")
                };
                one.keep(&name, report);
                let speed = |side| short(one.speed.of(side));
                let (with, without) = (speed(Side::With), speed(Side::Without));
                let control = one.off_against_off().map_or(String::new(), shown);
                table.row(cells![name, with, without, shown(one.effect()), control]);
            }
            eprintln!("measured: {} x{tasks}", workload.rows[0].0);
            all.push((tasks, measured));
        }
    }
    println!("{}", table.text());
    Ok(all)
}

/// A part without a table of its own.
pub fn plain(options: &Options, report: &mut Report) -> Result<(), String> {
    timed(file_ops, options, report).map(drop)
}

pub fn threads_and_processes(options: &Options, report: &mut Report) -> Result<(), String> {
    timed(thread_perf, options, report).map(drop)
}

/// fs_mark in process: the seed's table.
pub fn files(options: &Options, report: &mut Report) -> Result<(), String> {
    println!("## fs_mark, in process\n");
    let measured = timed(fs_mark::all, options, report)?;
    measured
        .iter()
        .for_each(|(tasks, rounds)| println!("{}", fs_mark::table(*tasks, rounds)));
    Ok(())
}

/// The program fs_mark on a mount.
pub fn files_on_a_mount(options: &Options, report: &mut Report) -> Result<(), String> {
    println!("## fs_mark on a mount\n");
    let blocks = amount(options, true).blocks;
    if let Err(what) = fs_mark::on_a_mount(blocks, options.quick, report) {
        println!("Not measured: {what}\n");
    }
    Ok(())
}

/// FFSB: the seed's table.
pub fn profiles(options: &Options, report: &mut Report) -> Result<(), String> {
    println!("## FFSB\n");
    let measured = timed(ffsb::all, options, report)?;
    println!("```text\n{}```\n", ffsb::table(&measured));
    Ok(())
}

/// compilebench: the seed's table.
pub fn build(options: &Options, report: &mut Report) -> Result<(), String> {
    println!("## compilebench\n");
    for (_, phases) in timed(compilebench::all, options, report)? {
        println!("```text\n{}```\n", compilebench::table(&phases));
    }
    Ok(())
}

/// The instructions of the rows of the timed table.
pub fn row_instructions(options: &Options, report: &mut Report) -> Result<(), String> {
    if cfg!(debug_assertions) {
        return Ok(());
    }
    println!("## Instructions of these rows\n");
    rows::count(amount(options, true), report)
}

/// The instructions of single operations.
pub fn instructions(_options: &Options, report: &mut Report) -> Result<(), String> {
    if cfg!(debug_assertions) {
        return Ok(());
    }
    println!("## Instructions\n");
    loops::count(report)
}

impl Measured {
    /// Keeps the ratio as a row and an ask.
    fn keep(&self, name: &str, report: &mut Report) {
        let all = [
            ("on_off", "on / off", Some(self.effect()), &self.cpu),
            (
                "off_off",
                "off / off",
                self.off_against_off(),
                &self.control,
            ),
        ];
        for (metric, target, effect, runs) in all {
            let Some([low, ratio, high]) = effect else {
                continue;
            };
            report.add_exact((name, target, 0), (metric, "1"), ratio);
            if let Some(row) = report.rows.last_mut() {
                row.runs = runs.all(Side::With).len() as u32;
                row.ci95 = (high - low) / 2.0;
            }
        }
        let what = format!("{name}: share of the speed without heat");
        report
            .asks
            .push(Ask::surely_at_least(what, ENOUGH, self.effect()));
    }
}

/// Prints how many of the asks stand how.
pub fn summary(report: &Report) {
    let speeds = report
        .asks
        .iter()
        .filter(|ask| ask.what.ends_with("without heat"));
    let speeds: Vec<&Ask> = speeds.collect();
    let ratios: Vec<f64> = speeds.iter().filter_map(|ask| ask.got).collect();
    if ratios.is_empty() {
        return;
    }
    let count = |standing| {
        speeds
            .iter()
            .filter(|ask| ask.standing() == standing)
            .count()
    };
    println!(
        "{ENOUGH} of the speed without heat: {} met, {} undecided, {} missed of {} rows. The \
         lowest is {:.3}, the median {:.3}. An interval holds the truth in nineteen of twenty \
         rows.\n",
        count(Standing::Met),
        count(Standing::Undecided),
        count(Standing::Missed),
        ratios.len(),
        ratios.iter().copied().fold(f64::INFINITY, f64::min),
        median(&ratios).0,
    );
}

/// What was counted of one workload.
struct InstructionCount {
    name: String,
    /// Operations of each run.
    operations: u64,
    /// Instructions of one operation, run by run.
    pair: Pair,
}

/// How many times as many instructions of a loop are let pass.
fn most_times(name: &str) -> f64 {
    match name {
        loops::LIFE => TOO_MANY_OF_A_LIFE,
        _ => TOO_MANY,
    }
}

/// Prints counts, the last column headed by `operations`, and keeps them as rows and asks.
fn keep_counts(operations: &str, counts: &[InstructionCount], report: &mut Report) {
    let heading = [
        "instructions per operation",
        "with",
        "without",
        "ratio",
        operations,
    ];
    let mut table = Table::new(heading);
    for InstructionCount {
        name,
        operations,
        pair,
    } in counts
    {
        let ratio = pair.ratio();
        // Where an operation is a byte, it is few.
        let figure = |side| match pair.of(side) {
            few if few < 100.0 => format!("{few:.3}"),
            many => format!("{many:.0}"),
        };
        let (with, without) = (figure(Side::With), figure(Side::Without));
        table.row(cells![
            name,
            with,
            without,
            format!("{ratio:.4}"),
            operations
        ]);
        report.add_pair((name, "lib", 1), ("instructions_per_op", "1"), pair);
        let what = format!("{name}: instructions, with / without heat");
        report
            .asks
            .push(Ask::at_most(what, most_times(name), &[ratio]));
    }
    println!("{}", table.text());
}

/// A line of the seeds' tables: with, without, and by how many percent they differ.
fn seed_line(name: &str, pair: &Pair, unit: &str, digits: usize) -> String {
    let show = |side| format!("{:.digits$}{unit}", pair.of(side));
    let change = format!("{:+.2}%", (pair.ratio() - 1.0) * 100.0);
    format!(
        "{name:32}{:>24}{:>26}{change:>16}\n",
        show(Side::With),
        show(Side::Without)
    )
}

/// The heading of the seeds' tables.
fn seed_heading() -> String {
    let line = |with, without, ratio| format!("{:32}{with:>24}{without:>26}{ratio:>16}\n", "");
    line("w/ hot tracking", "w/o hot tracking", "ratio") + &line("v1", "v2", "(v1-v2)/v2")
}

/// An estimate with its interval, for tables.
fn shown([low, ratio, high]: Effect) -> String {
    match high.is_finite() {
        true => format!("{ratio:.3} ({low:.3} to {high:.3})"),
        false => format!("{ratio:.3} (one block)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least amount.
    pub fn little() -> Amount {
        let run = Duration::from_millis(1);
        Amount {
            volumes: 1,
            blocks: 2,
            control: 2,
            run,
            part: 128,
        }
    }

    #[test]
    fn every_phase_of_every_workload_has_a_row_and_is_checked() {
        for workload in ALL.iter().flat_map(|all| all(little().part)) {
            let tasks = workload.tasks[0];
            let measured = sides::job(&*workload.make, workload.how, tasks, little()).unwrap();
            assert_eq!(
                measured.len(),
                workload.rows.len(),
                "{}",
                workload.rows[0].0
            );
            let mut report = Report::new("heat", Options::default());
            measured.iter().for_each(|one| one.keep("x", &mut report));
            assert!(report.rows.iter().all(|row| row.value.is_finite()));
        }
    }

    #[test]
    fn more_than_a_hundredth_or_half_as_much_more_of_a_life_is_too_much() {
        let count = |name: &str, with: f64| {
            let mut pair = Pair::default();
            pair.push(Side::With, with);
            pair.push(Side::Without, 1000.0);
            InstructionCount {
                name: name.to_owned(),
                operations: 7,
                pair,
            }
        };
        let mut report = Report::new("heat", Options::default());
        keep_counts(
            "ops",
            &[
                count("dear", 1011.0),
                count("cheap", 1009.0),
                count(loops::LIFE, 1016.0),
                count(loops::LIFE, 1014.0),
            ],
            &mut report,
        );
        let missed: Vec<bool> = report.asks.iter().map(Ask::is_missed).collect();
        assert_eq!(missed, [true, false, true, false]);
        assert_eq!(report.rows.len(), 8);
    }
}
