//! Several targets side by side: runs alternate, the median is quoted.

use crate::activity::Activity;
use crate::measure::{Effort, prepare, rate};
use crate::pinned::allowed_cores;
use crate::row::{Row, median, percent};
use crate::table::{Table, short};
use crate::target::Fresh;

/// A target that can be made anew for every run.
pub struct Contestant<'a, F> {
    /// Its name in tables and rows.
    pub name: &'a str,
    /// Makes it, empty.
    pub make: Box<dyn Fn() -> Result<F, String> + 'a>,
}

/// Measures every workload with every number of tasks on every contestant, in turns.
///
/// # Errors
/// A contestant cannot be made or refuses.
pub fn compare<F: Fresh>(
    bench: &'static str,
    contestants: &[Contestant<'_, F>],
    workloads: &[impl Activity],
    tasks: &[usize],
    effort: Effort,
) -> Result<Vec<Row>, String> {
    let cores = allowed_cores().len();
    if let Some(tasks) = tasks.iter().find(|&&tasks| tasks > cores) {
        return Err(format!(
            "{tasks} tasks need as many cores, there are {cores}"
        ));
    }
    let mut rows = Vec::new();
    for workload in workloads {
        for &tasks in tasks {
            let mut samples = vec![Vec::new(); contestants.len()];
            for _ in 0..effort.runs {
                for (contestant, samples) in contestants.iter().zip(&mut samples) {
                    let named = |what| format!("{}, {}: {what}", contestant.name, workload.name());
                    let fresh = (contestant.make)().map_err(named)?;
                    let target = fresh.target();
                    prepare(target, workload, tasks).map_err(named)?;
                    let rate = rate(target, workload, tasks, effort.run, 0).map_err(named)?;
                    samples.push(rate.per_second);
                }
            }
            for (contestant, mut samples) in contestants.iter().zip(samples) {
                let (value, ci95) = median(&mut samples);
                rows.push(Row {
                    bench,
                    workload: workload.name(),
                    target: contestant.name.to_owned(),
                    tasks: tasks as u32,
                    metric: "ops_per_s",
                    value,
                    unit: "1/s",
                    runs: effort.runs,
                    ci95,
                });
            }
            eprintln!("measured: {} x{tasks}", workload.name());
        }
    }
    Ok(rows)
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
