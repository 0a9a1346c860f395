//! `sched_test_yield`: tasks that do nothing but step back.
//!
//! Every target runs the same loop: look at the phase, count, yield. The value is the time that a
//! core spends per yield: length of the window times cores, over the yields of all tasks in it.

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
use gauge::Gauge;
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
    let mut heading = vec!["tasks".to_owned()];
    heading.extend(TARGETS.iter().map(|target| target.name.to_owned()));
    heading.push("lib / 16 tasks".to_owned());
    let mut table = Table::new(heading);
    let (mut rows, mut flat) = (Vec::new(), None);
    for tasks in sizes(options.quick) {
        let cells = one_size(setting, tasks, options.quick)?;
        let first = cells[0].as_ref().map(Samples::mean);
        flat = flat.or(first);
        let mut line = vec![tasks.to_string()];
        line.extend(
            cells
                .iter()
                .map(|cell| cell.as_ref().map_or("-".into(), shown)),
        );
        let ratio = first
            .zip(flat)
            .map(|(mean, flat)| format!("{:.2}", mean / flat));
        line.push(ratio.unwrap_or_default());
        table.row(line);
        for (target, cell) in TARGETS.iter().zip(&cells) {
            let row = cell.as_ref().map(|cell| row(setting, target, tasks, cell));
            rows.extend(row);
        }
    }
    println!("{}", table.text());
    Ok(rows)
}

/// One row of the table: the targets in turn, until each is known well enough.
fn one_size(setting: &Setting, tasks: usize, quick: bool) -> Result<Vec<Option<Samples>>, String> {
    let (window, most) = match quick {
        true => (Duration::from_millis(60), 5),
        false => (Duration::from_millis(250), 40),
    };
    let mut cells: Vec<_> = TARGETS
        .iter()
        .map(|target| (tasks <= target.most_tasks).then(Samples::default))
        .collect();
    for _ in 0..most {
        for (target, cell) in TARGETS.iter().zip(&mut cells) {
            let Some(cell) = cell.as_mut().filter(|cell| !cell.is_confident()) else {
                continue;
            };
            beat();
            let gauge = Gauge::new();
            let yields = (target.run)(&gauge, setting.cores, tasks, window)?;
            if yields.count == 0 {
                return Err(format!("{}: {tasks} tasks never yielded", target.name));
            }
            let micros = yields.time.as_secs_f64() * 1e6 * setting.cores as f64;
            cell.add(micros / yields.count as f64);
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
    let cell = |workload: &str, target: &str, tasks: u32| {
        let is_it =
            |row: &&Row| row.workload == workload && row.target == target && row.tasks == tasks;
        rows.iter().find(is_it).map(|row| row.value)
    };
    let ratio = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
    let mut asks = Vec::new();
    for setting in ["sched_test_yield", "sched_test_yield_one_core"] {
        let lib = |tasks| cell(setting, "lib", tasks);
        for (tasks, most) in [(4096, 1.1), (100_000, 1.5)] {
            let got = ratio(lib(tasks), lib(16));
            asks.push(Ask::at_most(
                format!("{setting}: {tasks} tasks / 16"),
                most,
                got.as_slice(),
            ));
        }
        let sizes = rows
            .iter()
            .filter(|row| row.workload == setting && row.target == "tokio");
        let by_tokio = sizes.filter_map(|row| ratio(lib(row.tasks), Some(row.value)));
        let worst = by_tokio.reduce(f64::max);
        let what = format!("{setting}: lib / tokio, the worst size");
        asks.push(Ask::at_most(what, 1.0, worst.as_slice()));
    }
    let one_core = cell("sched_test_yield_one_core", "lib", 16);
    let what = "one core, 16 tasks: microseconds per yield";
    asks.push(Ask::at_most(what, 0.15, one_core.as_slice()));
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

fn row(setting: &Setting, target: &Target, tasks: usize, cell: &Samples) -> Row {
    Row {
        bench: "sched",
        workload: setting.workload.to_owned(),
        target: target.name.to_owned(),
        tasks: tasks as u32,
        metric: "us_per_op",
        value: cell.mean(),
        unit: "us",
        runs: cell.count() as u32,
        ci95: cell.half_width(),
    }
}
