//! What was measured, by workload, target and number of tasks: every run of it.

use crate::row::{Row, median};

/// Workload, target, tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What was done.
    pub workload: String,
    /// On what.
    pub target: String,
    /// By how many tasks.
    pub tasks: usize,
}

/// One value for every run of every cell; run number n of all cells is from the same round.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    cells: Vec<(Key, Vec<f64>)>,
}

impl Grid {
    /// Adds the next run of a cell.
    pub fn push(&mut self, workload: &str, target: &str, tasks: usize, value: f64) {
        let key = Key {
            workload: workload.to_owned(),
            target: target.to_owned(),
            tasks,
        };
        match self.cells.iter_mut().find(|(of, _)| *of == key) {
            Some((_, values)) => values.push(value),
            None => self.cells.push((key, vec![value])),
        }
    }

    /// Takes over the cells of another grid.
    pub fn absorb(&mut self, other: Grid) {
        self.cells.extend(other.cells);
    }

    /// Brings the workloads into the order of `names`.
    pub fn sort_workloads(&mut self, names: &[&str]) {
        let place = |key: &Key| names.iter().position(|name| *name == key.workload);
        self.cells.sort_by_key(|(key, _)| place(key));
    }

    /// The runs of a cell; none where nothing was measured.
    pub fn runs(&self, workload: &str, target: &str, tasks: usize) -> &[f64] {
        let found = self.cells.iter().find(|(key, _)| {
            key.workload == workload && key.target == target && key.tasks == tasks
        });
        found.map_or(&[], |(_, values)| values)
    }

    /// The workloads, in the order in which they were measured.
    pub fn workloads(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (key, _) in &self.cells {
            if !names.contains(&key.workload) {
                names.push(key.workload.clone());
            }
        }
        names
    }

    /// The targets on which so many tasks did it.
    pub fn targets(&self, workload: &str, tasks: usize) -> Vec<String> {
        let is_it = |key: &&Key| key.workload == workload && key.tasks == tasks;
        let keys = self.cells.iter().map(|(key, _)| key).filter(is_it);
        keys.map(|key| key.target.clone()).collect()
    }

    /// The median of a cell and half its confidence interval.
    pub fn median(&self, workload: &str, target: &str, tasks: usize) -> Option<(f64, f64)> {
        let runs = self.runs(workload, target, tasks);
        (!runs.is_empty()).then(|| median(&mut runs.to_vec()))
    }

    /// The ratio of two cells (target, tasks) of a workload in each round.
    pub fn ratios(&self, workload: &str, cell: (&str, usize), base: (&str, usize)) -> Vec<f64> {
        let runs = |(target, tasks): (&str, usize)| self.runs(workload, target, tasks);
        runs(cell)
            .iter()
            .zip(runs(base))
            .map(|(value, base)| value / base)
            .collect()
    }

    /// One row per cell.
    pub fn rows(&self, bench: &'static str, metric: &'static str, unit: &'static str) -> Vec<Row> {
        let row = |(key, values): &(Key, Vec<f64>)| {
            let (value, ci95) = median(&mut values.clone());
            Row {
                bench,
                workload: key.workload.clone(),
                target: key.target.clone(),
                tasks: key.tasks as u32,
                metric,
                value,
                unit,
                runs: values.len() as u32,
                ci95,
            }
        };
        self.cells.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut grid = Grid::default();
        for (one, two) in [(1.0, 2.0), (2.0, 3.0), (4.0, 8.0)] {
            grid.push("stat", "lib", 1, one);
            grid.push("stat", "lib", 2, two);
        }
        assert_eq!(grid.ratios("stat", ("lib", 2), ("lib", 1)), [2.0, 1.5, 2.0]);
        assert_eq!(grid.median("stat", "lib", 1).unwrap().0, 2.0);
        assert_eq!(grid.median("stat", "tmpfs", 1), None);
        assert!(grid.ratios("stat", ("lib", 2), ("tmpfs", 1)).is_empty());
        let rows = grid.rows("file-ops", "ops_per_s", "1/s");
        assert_eq!((rows.len(), rows[1].tasks, rows[1].runs), (2, 2, 3));
        assert_eq!(rows[1].value, 3.0);
    }
}
