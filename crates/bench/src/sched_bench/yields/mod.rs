//! `sched_test_yield`: tasks that do nothing but step back.
//!
//! Every target runs the same loop: look at the phase, count, yield. The value is the time that a
//! core spends per yield: length of the window times cores, over the yields of all tasks in it.
//! Beside it stands the processor time that was used per yield, which is the same on a machine that
//! nobody else uses.

mod gauge;
mod targets;

use super::Report;
use super::confidence::Samples;
use crate::options::Options;
use crate::patience::beat;
use crate::pinned::allowed_cores;
use crate::row::Row;
use crate::seeds::ask::Ask;
use crate::table::Table;
use gauge::{Gauge, Window};
use std::time::Duration;
use targets::{TARGETS, Target};

/// On this many cores.
struct Setting {
    workload: &'static str,
    cores: usize,
}

/// Runs both settings.
///
/// # Errors
/// A target cannot be set up.
pub fn run(options: &Options) -> Result<Report, String> {
    let all = Setting {
        workload: "sched_test_yield",
        cores: allowed_cores().len(),
    };
    let one = Setting {
        workload: "sched_test_yield_one_core",
        cores: 1,
    };
    let mut rows = one_setting(&all, options)?;
    rows.extend(one_setting(&one, options)?);
    let asks = asks(&rows);
    Ok(Report { rows, asks })
}

fn one_setting(setting: &Setting, options: &Options) -> Result<Vec<Row>, String> {
    println!(
        "{}: microseconds of a core per yield, {} core(s); 95 % interval within 1 % or FRC\n",
        setting.workload, setting.cores
    );
    let sizes = sizes(options.quick);
    let cells = measure(setting, &sizes, options.quick)?;
    let mut heading = vec!["tasks".to_owned()];
    heading.extend(TARGETS.iter().map(|target| target.name.to_owned()));
    heading.push("lib / 16 tasks".to_owned());
    let mut table = Table::new(heading);
    let mut rows = Vec::new();
    for (&tasks, line) in sizes.iter().zip(&cells) {
        let shown =
            |cell: &Option<Cell>| cell.as_ref().map_or("-".into(), |cell| shown(&cell.clock));
        let mut texts = vec![tasks.to_string()];
        texts.extend(line.iter().map(shown));
        let lib = |line: &[Option<Cell>]| line[0].as_ref().map(|cell| cell.clock.mean());
        let ratio = lib(line).zip(lib(&cells[0]));
        texts.push(ratio.map_or(String::new(), |(own, few)| format!("{:.2}", own / few)));
        table.row(texts);
        for (target, cell) in TARGETS.iter().zip(line) {
            let Some(cell) = cell else { continue };
            rows.push(row(setting, target, tasks, "us_per_op", &cell.clock));
            rows.push(row(setting, target, tasks, "cpu_us_per_op", &cell.cpu));
        }
    }
    println!("{}", table.text());
    Ok(rows)
}

/// What a target takes per yield, in microseconds: by the clock, and of processor time.
#[derive(Default)]
struct Cell {
    clock: Samples,
    cpu: Samples,
}

/// Sizes and targets in turn, until each is known well enough: what is compared is measured side
/// by side, so that a machine whose speed changes does so for all.
fn measure(
    setting: &Setting,
    sizes: &[usize],
    quick: bool,
) -> Result<Vec<Vec<Option<Cell>>>, String> {
    let (window, most) = match quick {
        true => (Duration::from_millis(60), 5),
        false => (Duration::from_millis(250), 40),
    };
    let bears = |tasks: usize| move |target: &Target| tasks <= target.most_tasks;
    let line = |&tasks: &usize| -> Vec<Option<Cell>> {
        let cell = |target| bears(tasks)(target).then(Cell::default);
        TARGETS.iter().map(cell).collect()
    };
    let mut cells: Vec<_> = sizes.iter().map(line).collect();
    for _ in 0..most {
        for (&tasks, line) in sizes.iter().zip(&mut cells) {
            for (target, cell) in TARGETS.iter().zip(line) {
                let Some(cell) = cell.as_mut().filter(|cell| !cell.clock.is_confident()) else {
                    continue;
                };
                beat();
                let yields = (target.run)(&Gauge::new(), setting.cores, tasks, window)?;
                if yields.count == 0 {
                    return Err(format!("{}: {tasks} tasks never yielded", target.name));
                }
                let per_yield = 1e6 / yields.count as f64;
                let Window { seconds, cpu } = yields.window;
                cell.clock.add(seconds * setting.cores as f64 * per_yield);
                cell.cpu.add(cpu * per_yield);
            }
        }
    }
    Ok(cells)
}

fn sizes(quick: bool) -> Vec<usize> {
    let all = (4..=12).map(|power| 1 << power).chain([100_000]);
    match quick {
        true => all
            .filter(|&tasks| [16, 256, 4096, 100_000].contains(&tasks))
            .collect(),
        false => all.collect(),
    }
}

/// Flat in the number of tasks, at most tokio's at every size, at most 150 ns on one core.
fn asks(rows: &[Row]) -> Vec<Ask> {
    let cell = |workload: &str, target: &str, tasks: usize, metric: &str| {
        let is_it = |row: &&Row| {
            let of = (&*row.workload, &*row.target, row.tasks as usize, row.metric);
            of == (workload, target, tasks, metric)
        };
        rows.iter().find(is_it).map(|row| row.value)
    };
    let mut asks = Vec::new();
    for setting in ["sched_test_yield", "sched_test_yield_one_core"] {
        let ratio = |metric, of: (&str, usize), to: (&str, usize)| {
            let [of, to] = [of, to].map(|(target, tasks)| cell(setting, target, tasks, metric));
            Some(of? / to?)
        };
        for (tasks, most) in [(4096, 1.1), (100_000, 1.5)] {
            let by = |metric| ratio(metric, ("lib", tasks), ("lib", 16));
            let what = format!("{setting}: {tasks} tasks / 16");
            let ask = Ask::at_most(what, most, by("us_per_op").as_slice());
            asks.push(ask.by_cpu(by("cpu_us_per_op").as_slice()));
        }
        let worst = |metric| {
            let all = sizes(false).into_iter();
            let each = all.filter_map(|tasks| ratio(metric, ("lib", tasks), ("tokio", tasks)));
            each.reduce(f64::max)
        };
        let what = format!("{setting}: lib / tokio, the worst size");
        let ask = Ask::at_most(what, 1.0, worst("us_per_op").as_slice());
        asks.push(ask.by_cpu(worst("cpu_us_per_op").as_slice()));
    }
    let one_core = |metric| cell("sched_test_yield_one_core", "lib", 16, metric);
    let what = "one core, 16 tasks: microseconds per yield";
    let ask = Ask::at_most(what, 0.15, one_core("us_per_op").as_slice());
    asks.push(ask.by_cpu(one_core("cpu_us_per_op").as_slice()));
    asks
}

fn shown(cell: &Samples) -> String {
    match cell.is_confident() {
        true => format!("{:.4}", cell.mean()),
        false => {
            let spread = 100.0 * cell.half_width() / cell.mean();
            format!("FRC ({:.4} ±{spread:.1}%)", cell.mean())
        }
    }
}

fn row(
    setting: &Setting,
    target: &Target,
    tasks: usize,
    metric: &'static str,
    cell: &Samples,
) -> Row {
    Row {
        bench: "sched",
        workload: setting.workload.to_owned(),
        target: target.name.to_owned(),
        tasks: tasks as u32,
        metric,
        value: cell.mean(),
        unit: "us",
        runs: cell.count() as u32,
        ci95: cell.half_width(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_are_of_rows_with_the_agreed_names() {
        let setting = |workload| Setting { workload, cores: 1 };
        let mut rows = Vec::new();
        for workload in ["sched_test_yield", "sched_test_yield_one_core"] {
            for (tasks, lib) in [(16, 0.1), (4096, 0.12), (100_000, 0.14)] {
                for (target, micros) in TARGETS.iter().zip([lib, 0.13, 9.0]) {
                    let mut samples = Samples::default();
                    samples.add(micros);
                    rows.push(row(
                        &setting(workload),
                        target,
                        tasks,
                        "us_per_op",
                        &samples,
                    ));
                }
            }
        }
        let json: serde_json::Value = serde_json::from_str(&rows[0].json()).unwrap();
        assert_eq!(
            (&json["workload"], &json["target"]),
            (&"sched_test_yield".into(), &"lib".into())
        );
        assert_eq!(
            (&json["metric"], &json["tasks"]),
            (&"us_per_op".into(), &16.into())
        );
        let met: Vec<_> = asks(&rows).iter().map(Ask::is_met).collect();
        let each = [Some(false), Some(true), Some(false)];
        let wanted: Vec<_> = each.into_iter().chain(each).chain([Some(true)]).collect();
        assert_eq!(met, wanted);
    }
}
