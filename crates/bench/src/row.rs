//! What was measured: one row per cell, as a JSON line.

use crate::failure::Context;
use crate::stats::{Grid, Metric, Pair, Side, median};
use std::io::Write;
use std::path::Path;

/// Operations per second by the clock, and by processor time.
pub const OPS_PER_SECOND: Metric = ("ops_per_s", "1/s");
pub const OPS_PER_CPU_SECOND: Metric = ("ops_per_cpu_s", "1/s");
pub const SECONDS: Metric = ("seconds", "s");

/// One measured cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which benchmark: `lib`, `mount`, `memory`, `conflicts`.
    pub bench: &'static str,
    pub workload: String,
    pub target: String,
    /// Threads or processes that did it at once.
    pub tasks: u32,
    /// What the value is.
    pub metric: &'static str,
    /// The median of the runs.
    pub value: f64,
    /// Unit of the value.
    pub unit: &'static str,
    pub runs: u32,
    /// Half the width of the 95 % confidence interval of the median; not a number, `null` in JSON,
    /// where there are too few runs for one.
    pub ci95: f64,
}

impl Row {
    /// The median of the runs of a cell.
    pub fn new(
        bench: &'static str,
        (workload, target, tasks): (&str, &str, usize),
        (metric, unit): Metric,
        runs: &[f64],
    ) -> Row {
        let (value, ci95) = median(runs);
        Row {
            bench,
            workload: workload.to_owned(),
            target: target.to_owned(),
            tasks: tasks as u32,
            metric,
            value,
            unit,
            runs: runs.len() as u32,
            ci95,
        }
    }

    /// A value that is the same every time, or is taken once: its interval is 0.
    pub fn exact(
        bench: &'static str,
        cell: (&str, &str, usize),
        metric: Metric,
        value: f64,
    ) -> Row {
        Row {
            ci95: 0.0,
            ..Row::new(bench, cell, metric, &[value])
        }
    }

    /// The row as one line of JSON.
    pub fn json(&self) -> String {
        serde_json::json!({
            "bench": self.bench,
            "workload": self.workload,
            "target": self.target,
            "tasks": self.tasks,
            "metric": self.metric,
            "value": self.value,
            "unit": self.unit,
            "runs": self.runs,
            "ci95": self.ci95,
        })
        .to_string()
    }
}

/// One row for every cell of a grid.
pub fn of_grid(bench: &'static str, grid: &Grid, metric: Metric) -> Vec<Row> {
    let cells = grid.cells();
    let row = cells
        .map(|(key, runs)| Row::new(bench, (&key.workload, &key.target, key.tasks), metric, runs));
    row.collect()
}

/// One row for each side of a pair.
pub fn of_pair(
    bench: &'static str,
    (workload, what, tasks): (&str, &str, usize),
    metric: Metric,
    pair: &Pair,
) -> [Row; 2] {
    [Side::Without, Side::With].map(|side| {
        let cell = (workload, &*side.target(what), tasks);
        Row::new(bench, cell, metric, pair.all(side))
    })
}

pub fn write_json(path: &Path, rows: &[Row]) -> Result<(), String> {
    let written = std::fs::File::create(path).and_then(|mut file| {
        rows.iter()
            .try_for_each(|row| writeln!(file, "{}", row.json()))
    });
    written.at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_line_with_the_agreed_names() {
        let row = Row::new("lib", ("stat", "tmpfs", 2), OPS_PER_SECOND, &[1.5, 1.5]);
        let json: serde_json::Value = serde_json::from_str(&row.json()).unwrap();
        for name in [
            "bench", "workload", "target", "tasks", "metric", "value", "unit", "runs", "ci95",
        ] {
            assert!(json.get(name).is_some(), "{name}");
        }
        assert!(json["ci95"].is_null(), "two runs have no interval");
        assert!(!row.json().contains('\n'));
        assert_eq!(
            Row::exact("lib", ("a", "b", 1), OPS_PER_SECOND, 1.0).ci95,
            0.0
        );
    }

    #[test]
    fn each_side_of_a_pair_and_each_cell_of_a_grid_is_a_row() {
        let mut pair = Pair::default();
        pair.push(Side::With, 2.0);
        pair.push(Side::Without, 1.0);
        let rows = of_pair("heat", ("w", "lib", 2), ("seconds", "s"), &pair);
        let names = rows.each_ref().map(|row| (&*row.target, row.value));
        assert_eq!(names, [("lib, off", 1.0), ("lib, on", 2.0)]);
        let mut grid = Grid::default();
        [1.0, 3.0, 2.0]
            .iter()
            .for_each(|&value| grid.push("stat", "lib", 2, value));
        let rows = of_grid("paths", &grid, OPS_PER_SECOND);
        assert_eq!((rows.len(), rows[0].tasks, rows[0].runs), (1, 2, 3));
        assert_eq!(rows[0].value, 2.0);
    }
}
