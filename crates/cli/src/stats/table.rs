//! Statistics as a person reads them: a table of the operations, then the other numbers.

use super::sample::{Key, Samples};
use crate::output::{Colour, Paint};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The label that names an operation.
const OP: &str = "op";

/// One operation.
#[derive(Debug, Default)]
struct Row {
    count: f64,
    errors: f64,
    sum: f64,
    /// Upper bound and number of samples at or below it.
    buckets: Vec<(f64, f64)>,
}

/// The whole text.
pub fn text(samples: &Samples, paint: Paint) -> String {
    let mut text = String::new();
    let mut in_table = BTreeSet::new();
    for histogram in samples.histograms() {
        let parts = ["_bucket", "_sum", "_count"].map(|part| format!("{histogram}{part}"));
        in_table.extend(parts.iter().cloned());
        operations(&mut text, &rows(samples, &parts), histogram, paint);
    }
    let others: Vec<(String, f64)> = samples
        .iter()
        .filter(|(key, value)| {
            !in_table.contains(&key.name) && (*value != 0.0 || !key.labels.contains_key(OP))
        })
        .filter(|(key, _)| !is_error_of_op(key))
        .map(|(key, value)| (shown(key), value))
        .collect();
    let width = others.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in others {
        line(&mut text, format_args!("{name:<width$}  {value}"));
    }
    text
}

/// `String` takes whatever is written to it.
fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    if writeln!(text, "{arguments}").is_err() {
        text.push('\n');
    }
}

fn is_error_of_op(key: &Key) -> bool {
    key.name.contains("errors") && key.labels.contains_key(OP)
}

fn shown(key: &Key) -> String {
    let labels: Vec<String> = key
        .labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if labels.is_empty() {
        key.name.clone()
    } else {
        format!("{} {}", key.name, labels.join(" "))
    }
}

fn rows(samples: &Samples, [bucket, sum, count]: &[String; 3]) -> BTreeMap<String, Row> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for (key, value) in samples.iter() {
        let Some(op) = key.labels.get(OP) else {
            continue;
        };
        let row = rows.entry(op.clone()).or_default();
        if key.name == *bucket {
            let bound = key.labels.get("le").and_then(|le| le.parse().ok());
            row.buckets.push((bound.unwrap_or(f64::INFINITY), value));
        } else if key.name == *sum {
            row.sum = value;
        } else if key.name == *count {
            row.count = value;
        } else if is_error_of_op(key) {
            row.errors = value;
        }
    }
    rows.retain(|_, row| row.count > 0.0);
    rows
}

fn operations(text: &mut String, rows: &BTreeMap<String, Row>, histogram: &str, paint: Paint) {
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

/// Upper bound of the bucket that holds the given part of the samples.
fn bound(row: &Row, part: f64, unit: f64) -> String {
    let wanted = row.count * part;
    match row.buckets.iter().find(|(_, below)| *below >= wanted) {
        Some((bound, _)) if bound.is_finite() => format!("<{:.1}", bound * unit),
        _ => "-".to_owned(),
    }
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

    fn text_of(text: &str) -> String {
        super::text(&Samples::parse(text), Paint::for_stdout())
    }
}
