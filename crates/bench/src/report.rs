//! What a suite has measured so far: rows, and what was asked of them.

use crate::ask::{Ask, verdict};
use crate::chart::Chart;
use crate::options::Options;
use crate::row::{Row, of_grid, of_pair, write_json};
use crate::stats::{Grid, Metric, Pair, Samples};
use crate::table::{Table, percent, short};

/// Rows and asks of one suite.
pub struct Report {
    /// The verb of the suite.
    verb: &'static str,
    /// The `bench` of the rows that are added: the verb, or the name of a family.
    pub bench: &'static str,
    pub options: Options,
    pub rows: Vec<Row>,
    pub asks: Vec<Ask>,
}

impl Report {
    pub fn new(verb: &'static str, options: Options) -> Report {
        Report {
            verb,
            bench: verb,
            options,
            rows: Vec::new(),
            asks: Vec::new(),
        }
    }

    /// Keeps a row of samples; returns their median and half its interval.
    pub fn add(&mut self, cell: (&str, &str, usize), metric: Metric, runs: &[f64]) -> (f64, f64) {
        let row = Row::new(self.bench, cell, metric, runs);
        let value = (row.value, row.ci95);
        self.rows.push(row);
        value
    }

    /// Keeps a row of a value that was taken once.
    pub fn add_exact(&mut self, cell: (&str, &str, usize), metric: Metric, value: f64) {
        self.rows.push(Row::exact(self.bench, cell, metric, value));
    }

    /// Keeps the rows of samples.
    pub fn add_samples(&mut self, samples: &Samples) {
        samples
            .iter()
            .for_each(|(metric, grid)| self.add_grid(grid, metric));
    }

    /// Keeps the rows of a grid.
    pub fn add_grid(&mut self, grid: &Grid, metric: Metric) {
        self.rows.extend(of_grid(self.bench, grid, metric));
    }

    /// Keeps both sides of a pair as rows.
    pub fn add_pair(&mut self, cell: (&str, &str, usize), metric: Metric, pair: &Pair) {
        self.rows.extend(of_pair(self.bench, cell, metric, pair));
    }

    /// Draws a chart beside the rows if they are kept in a file, else in `target/VERB`.
    pub fn draw(&self, name: &str, chart: &Chart) -> Result<(), String> {
        let folder = format!("target/{}", self.verb);
        let path = chart.draw(name, self.options.json.as_deref(), &folder)?;
        println!("Drawn: {}\n", path.display());
        Ok(())
    }

    /// Writes the rows to the file that was asked for.
    pub fn write(&self) -> Result<(), String> {
        let path = self.options.json.as_deref();
        path.map_or(Ok(()), |path| write_json(path, &self.rows))
    }

    /// Writes the rows, prints the asks; an error if one is missed, unless this is a first look.
    pub fn finish(&self) -> Result<(), String> {
        self.write()?;
        verdict(&self.asks, self.options.quick)
    }
}

/// A curve of the medians of a workload for each target.
pub fn chart(
    (title, unit): (&str, &str),
    (grid, workload): (&Grid, &str),
    targets: &[String],
    tasks: &[usize],
) -> Chart {
    let mut chart = Chart::new(title, unit);
    for target in targets {
        let median = |&n: &usize| (n, grid.median(workload, target, n).map(|cell| cell.0));
        chart.curve(&**target, tasks.iter().map(median).collect());
    }
    chart
}

/// Headings of more columns, and their cells by workload.
pub type Columns<'a> = (&'a [&'a str], &'a dyn Fn(&str) -> Vec<String>);

/// A line for every workload and number of tasks, which stand in the first two columns under their
/// `headings`: the median on each target with its interval, and its ratio to each of `bases`.
/// `more` are columns behind these, filled on the first line of each workload.
pub fn table(
    headings: [&str; 2],
    grid: &Grid,
    targets: &[String],
    bases: &[&str],
    more: Option<Columns<'_>>,
) -> String {
    let others = |target: &str| {
        let is_there = |base: &&&str| targets.iter().any(|one| one == **base);
        let others = bases.iter().filter(is_there);
        others
            .filter(|base| **base != target)
            .copied()
            .collect::<Vec<_>>()
    };
    let mut heading = headings.map(str::to_owned).to_vec();
    for target in targets {
        heading.push(target.clone());
        heading.extend(others(target).iter().map(|base| format!("/ {base}")));
    }
    let behind = more.map_or(&[][..], |(headings, _)| headings);
    heading.extend(behind.iter().map(|&name| name.to_owned()));
    let mut table = Table::new(heading);
    for workload in grid.workloads() {
        for (n, tasks) in grid.tasks(&workload).into_iter().enumerate() {
            let mut line = vec![workload.clone(), tasks.to_string()];
            for target in targets {
                let cell = grid.median(&workload, target, tasks);
                line.push(with_interval(cell));
                for base in others(target) {
                    let base = grid.median(&workload, base, tasks);
                    let ratio = cell.zip(base).map(|(cell, base)| cell.0 / base.0);
                    line.push(ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")));
                }
            }
            if let (0, Some((_, cells))) = (n, more) {
                line.extend(cells(&workload));
            }
            table.row(line);
        }
    }
    table.text()
}

/// A median and half its interval in percent; nothing where nothing was measured.
pub fn with_interval(cell: Option<(f64, f64)>) -> String {
    cell.map_or(String::new(), |(value, half)| {
        format!("{} ±{}", short(value), percent(value, half))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::cells_of;

    #[test]
    fn what_was_not_measured_is_left_empty() {
        let mut grid = Grid::default();
        grid.push("stat", "lib", 1, 3e6);
        grid.push("stat", "tmpfs", 1, 1e6);
        grid.push("stat", "lib", 2, 6e6);
        let targets = ["lib".to_owned(), "tmpfs".to_owned()];
        let fact = |_: &str| vec!["7".to_owned()];
        let more = (&["fact"][..], &fact as &dyn Fn(&str) -> Vec<String>);
        let text = table(
            ["x", "tasks"],
            &grid,
            &targets,
            &["tmpfs", "ext4"],
            Some(more),
        );
        assert_eq!(
            cells_of(&text, 0),
            ["x", "tasks", "lib", "/ tmpfs", "tmpfs", "fact"]
        );
        assert_eq!(
            cells_of(&text, 2),
            ["stat", "1", "3.00M ±-", "3.00", "1.00M ±-", "7"]
        );
        assert_eq!(cells_of(&text, 3), ["stat", "2", "6.00M ±-", "", "", ""]);
    }
}
