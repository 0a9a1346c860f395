//! Rates and counted facts side by side.

use super::counted::{Counted, Fact};
use super::grid::Grid;
use crate::row::percent;
use crate::table::{Table, short};

/// A line for every workload and number of tasks that was measured: the rate on each target with
/// its spread, its ratio to the baseline, and on the first line of a workload what was counted of
/// one operation on the library.
pub fn text(
    bench: &str,
    grid: &Grid,
    targets: &[String],
    base: &str,
    tasks: &[usize],
    counted: &Counted,
) -> String {
    let mut heading = vec!["operations per second".to_owned(), "tasks".to_owned()];
    for target in targets {
        heading.push(target.clone());
        if target != base {
            heading.push(format!("/ {base}"));
        }
    }
    heading.extend(Fact::ALL.map(|fact| fact.heading().to_owned()));
    let mut table = Table::new(heading);
    for workload in grid.workloads() {
        for (n, &tasks) in tasks.iter().enumerate() {
            let mut line = vec![workload.clone(), tasks.to_string()];
            for target in targets {
                let cell = grid.median(&workload, target, tasks);
                line.push(cell.map_or(String::new(), |(value, ci95)| {
                    format!("{} ±{}", short(value), percent(value, ci95))
                }));
                if target != base {
                    let base = grid.median(&workload, base, tasks);
                    let ratio = cell.zip(base).map(|(cell, base)| cell.0 / base.0);
                    line.push(ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")));
                }
            }
            if n == 0 {
                line.extend(counted.cells(bench, &workload));
            }
            table.row(line);
        }
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_left_empty() {
        let mut grid = Grid::default();
        grid.push("stat", "lib", 1, 3e6);
        grid.push("stat", "tmpfs", 1, 1e6);
        grid.push("stat", "lib", 2, 6e6);
        let targets = ["lib".to_owned(), "tmpfs".to_owned()];
        let text = text("x", &grid, &targets, "tmpfs", &[1, 2], &Counted::default());
        let cells = |line: usize| -> Vec<String> {
            let line = text.lines().nth(line).unwrap();
            let line = line.strip_prefix('|').unwrap().strip_suffix('|').unwrap();
            line.split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        assert_eq!(
            cells(0)[1..],
            [
                "tasks",
                "lib",
                "/ tmpfs",
                "tmpfs",
                "instructions",
                "allocations",
                "shared lines"
            ]
        );
        let one = ["stat", "1", "3.00M ±-", "3.00", "1.00M ±-", "", "", ""];
        assert_eq!(cells(2), one);
        assert_eq!(cells(3)[..5], ["stat", "2", "6.00M ±-", "", ""]);
    }
}
