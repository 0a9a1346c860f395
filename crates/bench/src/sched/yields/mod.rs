//! `sched_test_yield`: tasks that do nothing but step back.
//!
//! Every target runs the same loop: look at the phase, count, yield. The value is the time that a
//! core spends per yield: length of the window times cores, over the yields of all tasks in it.
//! Beside it stands the processor time that was used per yield, which is the same on a machine that
//! nobody else uses.

pub mod counted;
mod targets;

use super::gauge::Gauge;
use crate::ask::Ask;
use crate::options::Options;
use crate::pinned::allowed_cores;
use crate::report::Report;
use crate::row::Row;
use crate::stats::{Grid, Metric, Samples, is_confident, mean, middle};
use crate::table::Table;
use crate::watchdog::beat;
use std::time::Duration;
use targets::TARGETS;

/// Microseconds of a core per yield: by the clock, and of processor time.
const CLOCK: Metric = ("us_per_op", "us");
const CPU: Metric = ("cpu_us_per_op", "us");

/// Runs both settings: all cores, and one.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    one_setting(("sched_test_yield", allowed_cores().len()), options, report)?;
    one_setting(("sched_test_yield_one_core", 1), options, report)
}

fn one_setting(
    (workload, cores): (&'static str, usize),
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    println!(
        "{workload}: microseconds of a core per yield, {cores} core(s); 95 % interval within 1 % \
         or FRC\n"
    );
    let sizes = sizes(options.quick);
    let micros = measure((workload, cores), &sizes, options.quick)?;
    let names = TARGETS.each_ref().map(|target| target.name);
    let heading = ["tasks"].into_iter().chain(names).chain(["lib / 16 tasks"]);
    let mut table = Table::new(heading);
    let lib = |tasks| mean(micros.of(CLOCK).runs(workload, "lib", tasks)).0;
    for &tasks in &sizes {
        let mut line = vec![tasks.to_string()];
        line.extend(names.map(|name| shown(micros.of(CLOCK).runs(workload, name, tasks))));
        line.push(format!("{:.2}", lib(tasks) / lib(16)));
        table.row(line);
        for name in names {
            for metric in [CLOCK, CPU] {
                let runs = micros.of(metric).runs(workload, name, tasks);
                if !runs.is_empty() {
                    let (value, ci95) = mean(runs);
                    let row = Row::new("sched", (workload, name, tasks), metric, runs);
                    report.rows.push(Row { value, ci95, ..row });
                }
            }
        }
    }
    println!("{}", table.text());
    report.asks.extend(asks((workload, cores), &sizes, &micros));
    Ok(())
}

/// Sizes and targets in turn, until all are known well enough: what is compared is measured side by
/// side in every round, so that a machine whose speed changes does so for all.
fn measure(
    (workload, cores): (&str, usize),
    sizes: &[usize],
    quick: bool,
) -> Result<Samples, String> {
    let (window, most) = if quick { (60, 5) } else { (250, 40) };
    let window = Duration::from_millis(window);
    let mut micros = Samples::default();
    for round in 0..most {
        if round > 0 && micros.of(CLOCK).cells().all(|(_, runs)| is_confident(runs)) {
            break;
        }
        for &tasks in sizes {
            for target in TARGETS.iter().filter(|target| tasks <= target.most_tasks) {
                beat();
                let yields = (target.run)(&Gauge::new(), cores, tasks, window)?;
                if yields.count == 0 {
                    return Err(format!("{}: {tasks} tasks never yielded", target.name));
                }
                let per_yield = 1e6 / yields.count as f64;
                let cell = (workload, target.name, tasks);
                micros.push(CLOCK, cell, yields.seconds * cores as f64 * per_yield);
                micros.push(CPU, cell, yields.cpu * per_yield);
            }
        }
    }
    Ok(micros)
}

fn sizes(quick: bool) -> Vec<usize> {
    let all = (4..=12).map(|power| 1 << power).chain([100_000]);
    all.filter(|tasks| !quick || [16, 256, 4096, 100_000].contains(tasks))
        .collect()
}

/// Flat in the number of tasks, at most tokio's at every size, at most 150 ns on one core: by the
/// ratios of each round.
fn asks((workload, cores): (&str, usize), sizes: &[usize], micros: &Samples) -> Vec<Ask> {
    let ask = |what: String, most, of: (&str, usize), to| {
        let ratios = |grid: &Grid| grid.ratios(workload, of, to);
        let [by_clock, by_cpu] = [CLOCK, CPU].map(|metric| ratios(micros.of(metric)));
        Ask::at_most(format!("{workload}: {what}"), most, &by_clock).by_cpu(&by_cpu)
    };
    let mut asks = Vec::new();
    for (tasks, most) in [(4096, 1.1), (100_000, 1.5)] {
        asks.push(ask(
            format!("{tasks} tasks / 16"),
            most,
            ("lib", tasks),
            ("lib", 16),
        ));
    }
    let beside_tokio = |&tasks: &usize| {
        let what = format!("lib / tokio, worst at {tasks}");
        ask(what, 1.0, ("lib", tasks), ("tokio", tasks))
    };
    let got = |ask: &Ask| ask.got.unwrap_or(0.0);
    let worst = sizes.iter().map(beside_tokio);
    asks.extend(worst.max_by(|one, other| got(one).total_cmp(&got(other))));
    if cores == 1 {
        let [clock, cpu] = [CLOCK, CPU].map(|metric| micros.of(metric).runs(workload, "lib", 16));
        let what = "one core, 16 tasks: microseconds per yield";
        asks.push(Ask::at_most(what, 0.15, clock).by_cpu(cpu));
    }
    asks
}

fn shown(runs: &[f64]) -> String {
    let (mean, half) = mean(runs);
    match middle(runs) {
        None => "-".to_owned(),
        Some(_) if is_confident(runs) => format!("{mean:.4}"),
        Some(_) => format!("FRC ({mean:.4} ±{:.1}%)", 100.0 * half / mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Standing;

    /// Three rounds of (lib, tokio, threads), of which the machine was three times slower in one.
    #[test]
    fn ratios_are_of_one_round() {
        let mut all = Samples::default();
        for (tasks, lib) in [(16, 0.1), (4096, 0.12), (100_000, 0.14)] {
            for slower in [1.0, 3.0, 1.0] {
                for (name, micros) in [("lib", lib), ("tokio", 0.13), ("threads", 9.0)] {
                    all.push(CLOCK, ("w", name, tasks), micros * slower);
                    all.push(CPU, ("w", name, tasks), micros);
                }
            }
        }
        let asks = asks(("w", 1), &[16, 4096, 100_000], &all);
        let met: Vec<_> = asks
            .iter()
            .map(|ask| ask.standing() == Standing::Met)
            .collect();
        assert_eq!(met, [false, true, false, true]);
        assert!((asks[0].got.unwrap() - 1.2).abs() < 1e-9, "{asks:?}");
        assert!((asks[0].range.1 - 1.2).abs() < 1e-9, "{asks:?}");
        assert!(asks[2].what.ends_with("worst at 100000"), "{asks:?}");
    }
}
