//! Hot files, ranges and directories, and what happened to them in an interval.

use super::grid::{Cell, Column, Grid, Tone};
use super::number;
use super::reading::HeatReading;
use super::tab::Ranked;
use crate::heat::row::{cells, count, number as field, on_mount, shown_path};
use crate::heat::units::ago;
use serde_json::{Value, json};
use std::path::Path;

/// One ranking.
#[derive(Debug, Default)]
pub struct HotList {
    /// What is ranked.
    pub ranked: Ranked,
    /// Hottest first.
    pub rows: Vec<Hot>,
}

/// A file, a range or a directory.
#[derive(Clone, Debug, Default)]
pub struct Hot {
    /// Its path on the mount; a range has its megabyte behind it.
    pub name: String,
    /// 0 to 100.
    pub temperature: f64,
    /// Reads, writes and bytes in a second of the interval; `None` if it was not known before.
    pub rates: Option<[f64; 3]>,
    /// Reads, writes and bytes since it has a record.
    pub totals: [f64; 3],
    /// Time since the last access, as it is shown.
    pub last: String,
    /// Temperatures along a file.
    pub cells: Vec<Option<f64>>,
    /// As the volume tells it.
    pub row: Value,
}

const FILES: &[Column] = &[
    Column::text("FILE", 22, 60),
    Column::number("TEMP", 5),
    Column::number("READ/s", 6),
    Column::number("WRIT/s", 6),
    Column::number("BYTES/s", 7),
    Column::number("READS", 5),
    Column::number("WRITES", 6),
    Column::number("LAST", 4),
    Column::text("RANGES", 10, 40),
];

const OTHERS: &[Column] = &[
    Column::text("WHERE", 30, 100),
    Column::number("TEMP", 5),
    Column::number("READ/s", 6),
    Column::number("WRIT/s", 6),
    Column::number("BYTES/s", 7),
    Column::number("READS", 5),
    Column::number("WRITES", 6),
    Column::number("BYTES", 5),
    Column::number("LAST", 4),
];

/// The rankings at `now`, as of the wall clock `wall`, with what happened since `before`.
pub fn between(
    mount: &Path,
    before: Option<&HeatReading>,
    now: &HeatReading,
    seconds: f64,
    wall: f64,
) -> Vec<HotList> {
    let ranking = |(ranked, rows): &(Ranked, Vec<Value>)| {
        let old = before.and_then(|before| {
            let found = before.rankings.iter().find(|(old, _)| old == ranked);
            found.map(|(_, rows)| rows)
        });
        let hot = |row: &Value| {
            let old = old.and_then(|old| old.iter().find(|old| is_same(*ranked, old, row)));
            hot(mount, *ranked, old, row, seconds, wall)
        };
        HotList {
            ranked: *ranked,
            rows: rows.iter().map(hot).collect(),
        }
    };
    now.rankings.iter().map(ranking).collect()
}

/// Whether two rows are of the same thing: a name may be another's by now, a number too.
fn is_same(ranked: Ranked, a: &Value, b: &Value) -> bool {
    let fields: &[&str] = match ranked {
        Ranked::Files => &["ino", "path"],
        Ranked::Ranges => &["ino", "path", "start"],
        Ranked::Directories => &["path"],
    };
    fields.iter().all(|field| a[field] == b[field])
}

const COUNTS: [&str; 3] = ["reads", "writes", "bytes"];

fn hot(
    mount: &Path,
    ranked: Ranked,
    old: Option<&Value>,
    row: &Value,
    seconds: f64,
    wall: f64,
) -> Hot {
    let rates =
        old.map(|old| COUNTS.map(|name| (field(row, name) - field(old, name)).max(0.0) / seconds));
    let mut full = row.clone();
    on_mount(mount, &mut full);
    Hot {
        name: shown(ranked, row),
        temperature: field(row, "temperature"),
        rates,
        totals: COUNTS.map(|name| field(row, name)),
        last: ago(row["last_access"].as_f64(), wall),
        cells: cells(row),
        row: full,
    }
}

/// The path from the top of the mount: which mount it is stands above.
fn shown(ranked: Ranked, row: &Value) -> String {
    let path = shown_path(Path::new("/"), row);
    match ranked {
        Ranked::Ranges => format!("{path} +{}M", count(row, "start") >> 20),
        _ => path,
    }
}

/// The rows of a table.
pub fn grid(ranking: &HotList) -> Grid {
    let is_file = ranking.ranked == Ranked::Files;
    let row = |hot: &Hot| {
        let rate = |number: usize| hot.rates.map(|rates| rates[number]);
        let seen = hot.row["last_access"].as_f64();
        let mut cells = vec![
            Cell::path(&*hot.name),
            Cell::number(Some(hot.temperature), |t| format!("{t:.1}"))
                .toned(Tone::Hot(hot.temperature)),
            Cell::number(rate(0), number::rate),
            Cell::number(rate(1), number::rate),
            Cell::number(rate(2), number::bytes_rate),
            Cell::number(Some(hot.totals[0]), number::count),
            Cell::number(Some(hot.totals[1]), number::count),
        ];
        if !is_file {
            cells.push(Cell::number(Some(hot.totals[2]), number::bytes));
        }
        cells.push(Cell::number(seen, |_| hot.last.clone()));
        if is_file {
            cells.push(Cell::strip(hot.cells.clone()));
        }
        cells
    };
    Grid {
        columns: if is_file { FILES } else { OTHERS },
        rows: ranking.rows.iter().map(row).collect(),
    }
}

/// What stands above a ranking: what is known, and what is missed.
pub fn note(mount: &Path, status: &Value) -> String {
    if status["on"].as_bool() == Some(false) {
        return format!("heat is off; 'hearth heat on {}' begins", mount.display());
    }
    let mut note = format!(
        "{} files, {} ranges known; warm from {}, hot from {}",
        count(status, "files"),
        count(status, "ranges"),
        field(status, "warm_from"),
        field(status, "hot_from"),
    );
    if count(status, "dropped") > 0 {
        note += &format!("; {} accesses missed", count(status, "dropped"));
    }
    if status["counts"].as_str() == Some("opens") {
        note += "; opens alone are counted";
    }
    note
}

/// A row as an object: as `hearth heat` has it, with what happened in the interval.
pub fn object(hot: &Hot) -> Value {
    let mut row = hot.row.clone();
    row["now"] = match hot.rates {
        Some([reads, writes, bytes]) => json!({
            "reads_per_second": reads,
            "writes_per_second": writes,
            "bytes_per_second": bytes,
        }),
        None => Value::Null,
    };
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(ranked: Ranked, rows: Value) -> HeatReading {
        HeatReading {
            status: json!({ "on": true, "files": 2, "ranges": 3, "warm_from": 25, "hot_from": 60 }),
            rankings: vec![(ranked, rows.as_array().unwrap().clone())],
        }
    }

    fn row(ino: u64, path: &str, reads: u64) -> Value {
        json!({ "ino": ino, "path": path, "reads": reads, "writes": 1, "bytes": reads * 4096,
            "temperature": 90.5, "last_access": 97.0, "start": 2 << 20, "cells": [90.5, null] })
    }

    #[test]
    fn rates_are_of_the_same_file_and_unknown_for_a_new_one() {
        let before = reading(Ranked::Files, json!([row(1, "/a", 10), row(2, "/b", 5)]));
        let now = json!([row(1, "/a", 30), row(2, "/c", 9), row(3, "/b", 9)]);
        let now = reading(Ranked::Files, now);
        let found = between(Path::new("/mnt"), Some(&before), &now, 2.0, 100.0);
        let rows = &found[0].rows;
        assert_eq!(rows[0].rates, Some([10.0, 0.0, 40960.0]));
        // The number of another file, the name of another file.
        assert_eq!((rows[1].rates, rows[2].rates), (None, None));
        assert_eq!((&*rows[0].name, &*rows[0].last), ("/a", "3s"));
        assert_eq!(object(&rows[0])["path"], "/mnt/a");
        assert_eq!(grid(&found[0]).rows[0].len(), FILES.len());
    }

    #[test]
    fn a_range_has_its_place_in_its_name() {
        let now = reading(Ranked::Ranges, json!([row(1, "/a", 10)]));
        let found = between(Path::new("/mnt"), None, &now, 1.0, 100.0);
        assert_eq!(found[0].rows[0].name, "/a +2M");
        assert_eq!(grid(&found[0]).rows[0].len(), OTHERS.len());
    }

    #[test]
    fn a_note_says_what_to_do_where_nothing_is_recorded() {
        let off = note(Path::new("/mnt"), &json!({ "on": false }));
        assert!(off.contains("hearth heat on /mnt"), "{off}");
        let status = json!({ "on": true, "dropped": 7, "counts": "opens" });
        let on = note(Path::new("/mnt"), &status);
        assert!(
            on.contains("7 accesses missed") && on.contains("opens"),
            "{on}"
        );
    }
}
