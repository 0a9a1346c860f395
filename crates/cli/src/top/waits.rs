//! Locks that were waited for, by the columns of the lock profile.

use super::grid::{Cell, Column, Grid, Tone};
use super::number;
use serde_json::Value;
use std::path::Path;

const COLUMNS: &[Column] = &[
    Column::text("LOCK", 24, 100),
    Column::number("UTIL", 6),
    Column::number("WAITED", 6),
    Column::number("WAIT", 6),
    Column::number("MAX", 6),
    Column::number("HOLD", 6),
    Column::number("MAX", 6),
    Column::number("TOTAL", 7),
];

/// Whether a profile is being recorded.
pub fn is_running(profile: &Value) -> bool {
    profile["running"].as_bool() == Some(true)
}

/// A row for each lock, and for each place that takes it.
pub fn grid(profile: &Value) -> Grid {
    let mut rows = Vec::new();
    for lock in profile["locks"].as_array().into_iter().flatten() {
        let class = lock["class"].as_str().unwrap_or_default();
        let side = match lock["side"].as_str() {
            Some("write") | None => "",
            Some(side) => side,
        };
        rows.push(row(format!("{class} {side}").trim_end().to_owned(), lock));
    }
    Grid {
        columns: COLUMNS,
        rows,
    }
}

fn row(name: String, lock: &Value) -> Vec<Cell> {
    let percent = |field: &str| lock[field].as_f64().map(|percent| percent / 100.0);
    let time = |field: &str| {
        let ns = lock[field].as_f64().filter(|ns| *ns > 0.0);
        Cell::number(ns.map(|ns| ns / 1e9), number::time)
    };
    let waited = percent("con_percent");
    let tone = match waited {
        Some(waited) if waited > 0.1 => Tone::Warn,
        _ => Tone::Plain,
    };
    vec![
        Cell::text(name),
        Cell::number(percent("util_percent"), number::percent),
        Cell::number(waited, number::percent).toned(tone),
        time("wait_ns_mean"),
        time("wait_ns_max"),
        time("hold_ns_mean"),
        time("hold_ns_max"),
        Cell::number(lock["total"].as_f64(), number::count),
    ]
}

/// What stands above: whether it is recorded, and since when.
pub fn note(mount: &Path, profile: &Value, file_locks: f64) -> String {
    let seconds = profile["elapsed_ns"].as_f64().unwrap_or(0.0) / 1e9;
    let state = match (is_running(profile), seconds > 0.0) {
        (true, _) => format!("lock profile on, {} recorded", number::time(seconds)),
        (false, true) => format!("lock profile off, {} recorded", number::time(seconds)),
        (false, false) => format!(
            "lock profile off and empty; 'hearth locks {} --for 10s' records one",
            mount.display()
        ),
    };
    match file_locks {
        0.0 => state,
        waiting => format!("{waiting} wait for flock or fcntl; {state}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth::{LockCounts, LockProfile, LockRow, LockSide, SiteRow};

    #[test]
    fn what_the_library_writes_becomes_a_row_a_lock() {
        let counts = LockCounts {
            free: 60,
            waited: 40,
            wait_ns: 80_000,
            wait_ns_max: 9_000,
            ..LockCounts::default()
        };
        let site = |site: &str| SiteRow {
            site: site.to_owned(),
            counts,
        };
        let row = |side| LockRow {
            class: "inode".to_owned(),
            side,
            sites: vec![site("a.rs:1"), site("b.rs:2")],
        };
        let profile = LockProfile {
            running: true,
            elapsed_ns: 3_000_000_000,
            locks: vec![row(LockSide::Write), row(LockSide::Read)],
            ..LockProfile::default()
        };
        let profile: Value = serde_json::from_str(&profile.json()).unwrap();
        let grid = grid(&profile);
        let shown = |row: usize, column: usize| &grid.rows[row][column];
        assert_eq!(*shown(0, 0), Cell::text("inode"));
        assert_eq!(*shown(1, 0), Cell::text("inode read"));
        assert_eq!(
            (shown(0, 2).number, shown(0, 2).tone),
            (Some(0.4), Tone::Warn)
        );
        assert_eq!(shown(0, 3).content, Cell::text("2.0us").content);
        assert_eq!(shown(0, 7).number, Some(200.0));
        let said = note(Path::new("/mnt"), &profile, 2.0);
        assert!(
            said.starts_with("2 wait for flock") && said.contains("3.0s recorded"),
            "{said}"
        );
        let empty = note(Path::new("/mnt"), &Value::Null, 0.0);
        assert!(empty.contains("hearth locks /mnt --for"), "{empty}");
    }
}
