//! Several targets side by side: runs alternate, the median is quoted.

use crate::activity::Activity;
use crate::cell::Cell;
use crate::measure::{Effort, prepare, rate};
use crate::pinned::allowed_cores;
use crate::row::{Row, percent};
use crate::table::{Table, short};
use crate::target::Fresh;

/// A target that can be made anew for every run.
pub struct Contestant<'a, F> {
    /// Its name in tables and rows.
    pub name: &'a str,
    /// Makes it, empty.
    pub make: Box<dyn Fn() -> Result<F, String> + 'a>,
}

/// Measures every workload with every number of tasks on every contestant, in turns; a cell again
/// until it `is_decided`, but no more than `MOST` times as often as others.
///
/// # Errors
/// A contestant cannot be made or refuses.
pub fn compare<F: Fresh>(
    contestants: &[Contestant<'_, F>],
    workloads: &[impl Activity],
    tasks: &[usize],
    effort: Effort,
    is_decided: impl Fn(&Cell) -> bool,
) -> Result<Vec<Cell>, String> {
    let cores = allowed_cores().len();
    if let Some(tasks) = tasks.iter().find(|&&tasks| tasks > cores) {
        return Err(format!(
            "{tasks} tasks need as many cores, there are {cores}"
        ));
    }
    let mut cells = Vec::new();
    for workload in workloads {
        for &tasks in tasks {
            let run = |contestant: &Contestant<'_, F>| {
                let named = |what| format!("{}, {}: {what}", contestant.name, workload.name());
                let fresh = (contestant.make)().map_err(named)?;
                let target = fresh.target();
                prepare(target, workload, tasks).map_err(named)?;
                let rate = rate(target, workload, tasks, effort.run, 0).map_err(named)?;
                Ok(rate.per_second)
            };
            let cell = (workload.name(), tasks);
            cells.push(rounds(cell, contestants, effort.runs, &run, &is_decided)?);
            eprintln!("measured: {} x{tasks}", workload.name());
        }
    }
    Ok(cells)
}

/// Times the usual number of rounds that a cell is measured at most.
const MOST: usize = 3;

/// One cell: `runs` rounds, and more until it is decided.
///
/// # Errors
/// What `run` answers.
pub fn rounds<F>(
    (workload, tasks): (String, usize),
    contestants: &[Contestant<'_, F>],
    runs: u32,
    run: &dyn Fn(&Contestant<'_, F>) -> Result<f64, String>,
    is_decided: &dyn Fn(&Cell) -> bool,
) -> Result<Cell, String> {
    let names = contestants.iter().map(|contestant| contestant.name);
    let mut cell = Cell::new(workload, tasks, names);
    // Not after every round: whoever asks often enough is told what he wants to hear.
    for _ in 0..MOST {
        for _ in 0..runs {
            for (place, contestant) in contestants.iter().enumerate() {
                cell.push(place, run(contestant)?);
            }
        }
        if is_decided(&cell) {
            break;
        }
    }
    Ok(cell)
}

/// Rates (or times) by workload and target, with the spread, and the ratios to `bases`.
pub fn table(rows: &[Row], bases: &[&str]) -> String {
    let mut targets: Vec<&str> = Vec::new();
    let mut cells: Vec<(&str, u32)> = Vec::new();
    for row in rows {
        if !targets.contains(&&*row.target) {
            targets.push(&row.target);
        }
        if !cells.contains(&(&row.workload, row.tasks)) {
            cells.push((&row.workload, row.tasks));
        }
    }
    let find = |target: &str, (workload, tasks): (&str, u32)| {
        rows.iter()
            .find(|r| r.target == target && r.workload == workload && r.tasks == tasks)
    };
    let is_rate = rows.first().is_none_or(|row| row.metric == "ops_per_s");
    let what = if is_rate {
        "operations per second"
    } else {
        "seconds, less is better"
    };
    let mut heading = vec![what.to_owned(), "tasks".to_owned()];
    for &target in &targets {
        heading.push(target.to_owned());
        let others = bases
            .iter()
            .filter(|&&base| base != target && targets.contains(&base));
        heading.extend(others.map(|base| format!("/ {base}")));
    }
    let mut table = Table::new(heading);
    for &cell in &cells {
        let mut line = vec![cell.0.to_owned(), cell.1.to_string()];
        for &target in &targets {
            let row = find(target, cell);
            line.push(row.map_or("-".into(), |row| {
                let spread = percent(row.value, row.ci95);
                format!("{} ±{spread}", short(row.value))
            }));
            for base in bases
                .iter()
                .filter(|&&base| base != target && targets.contains(&base))
            {
                let ratio = row
                    .zip(find(base, cell))
                    .map(|(row, base)| row.value / base.value);
                line.push(ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")));
            }
        }
        table.row(line);
    }
    table.text()
}
