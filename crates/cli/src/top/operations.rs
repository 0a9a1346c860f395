//! What was done in an interval, and how long it took.

use super::grid::{Cell, Column, Grid, Tone};
use super::number;
use crate::stats::{Row, Samples, calls, json_number, operations};
use serde_json::{Value, json};

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// Its name; `library` before those of programs that use the library, which are not timed.
    pub name: String,
    /// How often in a second.
    pub per_second: f64,
    /// How often with an error.
    pub errors_per_second: f64,
    /// How many were under way, on average; times as below.
    pub load: Option<f64>,
    /// Mean time in seconds.
    pub mean: Option<f64>,
    /// Upper bounds of the time of half of them, and of 99 in 100.
    pub bounds: [Option<f64>; 2],
    /// How often since the mount.
    pub total: f64,
}

const COLUMNS: &[Column] = &[
    Column::text("OPERATION", 15, 100),
    Column::number("OPS/s", 7),
    Column::number("ERR/s", 6),
    Column::number("LOAD", 6),
    Column::number("MEAN", 7),
    Column::number("P50", 8),
    Column::number("P99", 8),
    Column::number("ERRORS%", 7),
    Column::number("TOTAL", 7),
];

/// What was done between two readings, `seconds` apart; `now` has what was done ever.
pub fn between(since: &Samples, now: &Samples, seconds: f64) -> Vec<Operation> {
    let timed = (operations(now), operations(since));
    let counted = (calls(now), calls(since));
    let none = Row::default();
    let timed_row = |(name, all): (&String, &Row)| {
        let row = timed.1.get(name).unwrap_or(&none);
        let is_timed = row.count > 0.0;
        Operation {
            name: name.clone(),
            per_second: row.count / seconds,
            errors_per_second: row.errors / seconds,
            load: Some(row.sum / seconds),
            mean: is_timed.then(|| row.sum / row.count),
            bounds: [0.5, 0.99].map(|part| row.bound(part).filter(|_| is_timed)),
            total: all.count,
        }
    };
    let counted_row = |(name, all): (&String, &Row)| {
        let row = counted.1.get(name).unwrap_or(&none);
        Operation {
            name: format!("library {name}"),
            per_second: row.count / seconds,
            errors_per_second: row.errors / seconds,
            load: None,
            mean: None,
            bounds: [None; 2],
            total: all.count,
        }
    };
    let timed = timed.0.iter().map(timed_row);
    timed.chain(counted.0.iter().map(counted_row)).collect()
}

/// The rows of a table.
pub fn grid(operations: &[Operation]) -> Grid {
    let below = |seconds| format!("<{}", number::time(seconds));
    let row = |op: &Operation| {
        let failed = op.errors_per_second / op.per_second;
        let failed = (op.errors_per_second > 0.0).then_some(failed);
        vec![
            Cell::text(&*op.name),
            Cell::number(Some(op.per_second), number::rate),
            Cell::number(Some(op.errors_per_second), number::rate),
            Cell::number(op.load.filter(|load| *load > 0.0), |load| {
                format!("{load:.2}")
            }),
            Cell::number(op.mean, number::time),
            Cell::number(op.bounds[0], below),
            Cell::number(op.bounds[1], below),
            Cell::number(failed, number::percent).toned(match failed {
                Some(failed) if failed > 0.5 => Tone::Warn,
                _ => Tone::Plain,
            }),
            Cell::number(Some(op.total), number::count),
        ]
    };
    Grid {
        columns: COLUMNS,
        rows: operations.iter().map(row).collect(),
    }
}

/// An operation as an object.
pub fn object(op: &Operation) -> Value {
    json!({
        "op": op.name,
        "ops_per_second": op.per_second,
        "errors_per_second": op.errors_per_second,
        "load": op.load,
        "mean_seconds": op.mean,
        "p50_seconds_max": op.bounds[0],
        "p99_seconds_max": op.bounds[1],
        "total": json_number(op.total),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(count: u64, fast: u64, sum: f64, errors: u64) -> String {
        format!(
            "# TYPE hearth_op_seconds histogram\n# TYPE hearth_op_errors_total counter\n\
             # TYPE hearth_library_ops_total counter\n\
             hearth_op_seconds_bucket{{op=\"read\",le=\"0.000016\"}} {fast}\n\
             hearth_op_seconds_bucket{{op=\"read\",le=\"+Inf\"}} {count}\n\
             hearth_op_seconds_sum{{op=\"read\"}} {sum}\n\
             hearth_op_seconds_count{{op=\"read\"}} {count}\n\
             hearth_op_errors_total{{op=\"read\"}} {errors}\n\
             hearth_library_ops_total{{op=\"stat\"}} {count}\n"
        )
    }

    #[test]
    fn rates_and_times_are_those_of_the_interval() {
        let before = Samples::parse(&text(1000, 0, 50.0, 10));
        let now = Samples::parse(&text(1100, 90, 50.2, 20));
        let found = between(&now.since(&before), &now, 2.0);
        let read = &found[0];
        assert_eq!(
            (&*read.name, read.per_second, read.total),
            ("read", 50.0, 1100.0)
        );
        assert_eq!(read.errors_per_second, 5.0);
        assert!((read.mean.unwrap() - 0.002).abs() < 1e-9);
        assert!((read.load.unwrap() - 0.1).abs() < 1e-9);
        // Half of the hundred took less than 16 us; the last of them had no bound.
        assert_eq!(read.bounds, [Some(16e-6), None]);
        assert_eq!(
            (&*found[1].name, found[1].per_second),
            ("library stat", 50.0)
        );
        assert_eq!(found[1].mean, None);
    }

    #[test]
    fn what_was_not_done_has_no_times_and_keeps_its_total() {
        let now = Samples::parse(&text(1000, 1000, 50.0, 10));
        let found = between(&now.since(&now), &now, 1.0);
        assert_eq!((found[0].per_second, found[0].total), (0.0, 1000.0));
        assert_eq!((found[0].mean, found[0].bounds), (None, [None; 2]));
        assert_eq!(grid(&found).rows[0].len(), COLUMNS.len());
    }
}
