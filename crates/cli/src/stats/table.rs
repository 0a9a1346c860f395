//! Statistics as a person reads them: a table of the operations, then the other numbers.

use super::sample::{Key, Samples};
use crate::output::{Colour, Paint};
use crate::printable::printable;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The label that names an operation.
const OP: &str = "op";

/// The histogram of the operations of front ends.
const OPERATIONS: &str = "hearth_op_seconds";

/// One operation.
#[derive(Debug, Default)]
pub struct Row {
    /// How often.
    pub count: f64,
    /// How often with an error.
    pub errors: f64,
    /// Time of all of them, in the unit of the histogram.
    pub sum: f64,
    /// Upper bound and number of samples at or below it.
    buckets: Vec<(f64, f64)>,
}

impl Row {
    /// Upper bound of the bucket that holds the given part of the samples; `None` where it has no
    /// end or nothing was timed.
    pub fn bound(&self, part: f64) -> Option<f64> {
        let wanted = self.count * part;
        let found = self.buckets.iter().find(|(_, below)| *below >= wanted);
        found.map(|(bound, _)| *bound).filter(|b| b.is_finite())
    }
}

/// The operations of front ends by name, those that were done at least once; times in seconds.
pub fn operations(samples: &Samples) -> BTreeMap<String, Row> {
    rows(samples, &Parts::of(OPERATIONS))
}

/// The calls of programs that use the library, without times.
pub fn calls(samples: &Samples) -> BTreeMap<String, Row> {
    rows(samples, &Parts::of_library())
}

/// The whole text.
pub fn text(samples: &Samples, paint: Paint) -> String {
    let mut text = String::new();
    let mut in_table = BTreeSet::new();
    for histogram in samples.histograms() {
        let parts = Parts::of(histogram);
        timed(&mut text, &rows(samples, &parts), histogram, paint);
        in_table.extend([parts.bucket, parts.sum, parts.count, parts.errors]);
    }
    let parts = Parts::of_library();
    counted(&mut text, &rows(samples, &parts), paint);
    in_table.extend([parts.count, parts.errors]);
    let others: Vec<(String, f64)> = samples
        .iter()
        .filter(|(key, value)| {
            !in_table.contains(&key.name) && (*value != 0.0 || !key.labels.contains_key(OP))
        })
        .map(|(key, value)| (shown(key), value))
        .collect();
    let width = others.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in others {
        line(&mut text, format_args!("{name:<width$}  {value}"));
    }
    text
}

/// Names of the numbers of one table.
struct Parts {
    bucket: String,
    sum: String,
    count: String,
    /// A counter of its own beside the histogram.
    errors: String,
}

impl Parts {
    fn of(histogram: &str) -> Parts {
        let operation = histogram.strip_suffix("_seconds").unwrap_or(histogram);
        Parts {
            bucket: format!("{histogram}_bucket"),
            sum: format!("{histogram}_sum"),
            count: format!("{histogram}_count"),
            errors: format!("{operation}_errors_total"),
        }
    }

    /// The operations of programs that use the library, which are counted without times.
    fn of_library() -> Parts {
        Parts {
            bucket: String::new(),
            sum: String::new(),
            count: "hearth_library_ops_total".to_owned(),
            errors: "hearth_library_op_errors_total".to_owned(),
        }
    }
}

/// `String` takes whatever is written to it.
fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    if writeln!(text, "{arguments}").is_err() {
        text.push('\n');
    }
}

fn shown(key: &Key) -> String {
    let labels: Vec<String> = key
        .labels
        .iter()
        .map(|(name, value)| format!("{name}={}", printable(value)))
        .collect();
    if labels.is_empty() {
        key.name.clone()
    } else {
        format!("{} {}", key.name, labels.join(" "))
    }
}

fn rows(samples: &Samples, parts: &Parts) -> BTreeMap<String, Row> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for (key, value) in samples.iter() {
        let Some(op) = key.labels.get(OP) else {
            continue;
        };
        let row = rows.entry(op.clone()).or_default();
        if key.name == parts.bucket {
            let bound = key.labels.get("le").and_then(|le| le.parse().ok());
            row.buckets.push((bound.unwrap_or(f64::INFINITY), value));
        } else if key.name == parts.sum {
            row.sum = value;
        } else if key.name == parts.count {
            row.count = value;
        } else if key.name == parts.errors {
            row.errors = value;
        }
    }
    rows.retain(|_, row| row.count > 0.0);
    rows
}

fn timed(text: &mut String, rows: &BTreeMap<String, Row>, histogram: &str, paint: Paint) {
    if rows.is_empty() {
        return;
    }
    let unit = if histogram.ends_with("_seconds") {
        1e6
    } else {
        1e-3
    };
    let head = format!(
        "{:<16} {:>12} {:>9} {:>10} {:>10} {:>10}",
        "operation", "count", "errors", "mean_us", "p50_us", "p99_us"
    );
    line(text, format_args!("{}", paint.paint(Colour::Bold, &head)));
    for (op, row) in rows {
        let mean = format!("{:.1}", row.sum / row.count * unit);
        let [half, most] = [0.5, 0.99].map(|part| bound(row, part, unit));
        line(
            text,
            format_args!(
                "{op:<16} {:>12} {:>9} {mean:>10} {half:>10} {most:>10}",
                row.count, row.errors
            ),
        );
    }
    text.push('\n');
}

fn counted(text: &mut String, rows: &BTreeMap<String, Row>, paint: Paint) {
    if rows.is_empty() {
        return;
    }
    let head = format!("{:<16} {:>12} {:>9}", "library call", "count", "errors");
    line(text, format_args!("{}", paint.paint(Colour::Bold, &head)));
    for (call, row) in rows {
        line(
            text,
            format_args!("{call:<16} {:>12} {:>9}", row.count, row.errors),
        );
    }
    text.push('\n');
}

/// How a bound is shown.
fn bound(row: &Row, part: f64, unit: f64) -> String {
    let bound = row.bound(part);
    bound.map_or_else(|| "-".to_owned(), |bound| format!("<{:.1}", bound * unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_becomes_a_row_and_the_rest_lines() {
        let text = "# TYPE op_seconds histogram\n\
            op_seconds_bucket{op=\"read\",le=\"0.000001\"} 60\n\
            op_seconds_bucket{op=\"read\",le=\"0.000008\"} 100\n\
            op_seconds_sum{op=\"read\"} 0.0002\nop_seconds_count{op=\"read\"} 100\n\
            op_errors_total{op=\"read\"} 4\nop_seconds_count{op=\"open\"} 0\n\
            inodes 7\n";
        let shown = text_of(text);
        let row = shown
            .lines()
            .find(|line| line.starts_with("read"))
            .expect("a row");
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["read", "100", "4", "2.0", "<1.0", "<8.0"]);
        assert!(
            shown.contains("inodes  7") && !shown.contains("open"),
            "{shown}"
        );
    }

    #[test]
    fn calls_of_the_library_have_a_table_of_their_own() {
        let text = "# TYPE hearth_op_seconds histogram\n\
            hearth_op_seconds_bucket{op=\"read\",le=\"+Inf\"} 5\n\
            hearth_op_seconds_sum{op=\"read\"} 1\nhearth_op_seconds_count{op=\"read\"} 5\n\
            hearth_op_errors_total{op=\"read\"} 1\n\
            hearth_library_ops_total{op=\"read\"} 7\n\
            hearth_library_ops_total{op=\"openat\"} 0\n\
            hearth_library_op_errors_total{op=\"read\"} 2\n\
            hearth_library_op_errors_total{op=\"openat\"} 0\n";
        let shown = text_of(text);
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let lines: Vec<Vec<String>> = shown.lines().map(words).collect();
        assert_eq!(lines[0][0], "operation", "{shown}");
        assert_eq!(lines[1][..3], ["read", "5", "1"], "{shown}");
        assert_eq!(lines[3], ["library", "call", "count", "errors"], "{shown}");
        assert_eq!(lines[4], ["read", "7", "2"], "{shown}");
        assert_eq!(lines.len(), 6, "nothing else: {shown}");
        assert!(!text_of("inodes 7\n").contains("library"));
    }

    fn text_of(text: &str) -> String {
        super::text(&Samples::parse(text), Paint::for_stdout())
    }
}
