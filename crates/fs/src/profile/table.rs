//! The profile as a table in lockmeter's form.

use super::{Columns, LockCounts, LockProfile, LockRow, LockSide, LockSort};
use std::cmp::Ordering;
use std::fmt::Write;

const HEAD: &str = "\
   UTIL     CON      HOLD mean(max)      WAIT mean(max)       TOTAL  BOUNCE  NAME\n";

pub(super) fn text(profile: &LockProfile, sort: LockSort) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(profile, sort, &mut out);
    out
}

fn write_all(profile: &LockProfile, sort: LockSort, out: &mut String) -> std::fmt::Result {
    let seconds = profile.elapsed_ns as f64 / 1e9;
    let state = match (profile.running, profile.elapsed_ns) {
        (true, _) => "on",
        (false, 0) => "off; write 'on' to .hearth/locks",
        (false, _) => "off",
    };
    let drawn = match (profile.elapsed_ns, profile.exact) {
        (0, _) => "",
        (_, true) => "; every lock is recorded",
        (_, false) => "; every wait is recorded, free locks of busy threads are drawn",
    };
    writeln!(out, "lock profile over {seconds:.3} s, {state}{drawn}")?;
    if profile.lost > 0 {
        writeln!(out, "{} requests from more places than fit", profile.lost)?;
    }
    out.push_str(HEAD);
    let elapsed = profile.elapsed_ns;
    let all = Columns {
        util: None,
        ..Columns::of(&profile.counts(), LockSide::Write, elapsed)
    };
    line(out, &all, "*TOTAL*")?;
    let of_row = |row: &LockRow| Columns::of(&row.counts(), row.side, elapsed);
    let mut rows: Vec<(Columns, &LockRow)> = profile.locks.iter().map(|r| (of_row(r), r)).collect();
    rows.sort_by(|(a, _), (b, _)| largest_first(a, b, sort));
    for (columns, row) in rows {
        line(out, &columns, &name(row))?;
        let of_site = |counts: &LockCounts| Columns::of(counts, row.side, elapsed);
        let mut sites: Vec<(Columns, &str)> = row
            .sites
            .iter()
            .map(|site| (of_site(&site.counts), &*site.site))
            .collect();
        sites.sort_by(|(a, _), (b, _)| largest_first(a, b, sort));
        for (columns, site) in sites {
            line(out, &columns, &format!("  {site}"))?;
        }
    }
    Ok(())
}

/// The class, with the side unless it is the write side.
fn name(row: &LockRow) -> String {
    match row.side {
        LockSide::Write => row.class.clone(),
        LockSide::Read => format!("{} (read)", row.class),
        LockSide::Wait => format!("{} (wait)", row.class),
    }
}

fn line(out: &mut String, columns: &Columns, name: &str) -> std::fmt::Result {
    writeln!(
        out,
        "{:>7} {:>7} {:>19} {:>19} {:>11} {:>7}  {name}",
        percent(columns.util),
        percent(columns.con),
        times(columns.hold_mean, columns.hold_max),
        times(columns.wait_mean, columns.wait_max),
        columns.total,
        percent(columns.bounce),
    )
}

fn percent(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}%"))
}

fn times(mean: Option<f64>, max: Option<u64>) -> String {
    match (mean, max) {
        (Some(mean), Some(max)) => format!("{}({})", time(mean), time(max as f64)),
        _ => "-".to_owned(),
    }
}

/// Three digits or more, in a unit that keeps the number short.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    match value {
        value if value < 10.0 => format!("{value:.1}{unit}"),
        value => format!("{value:.0}{unit}"),
    }
}

fn largest_first(a: &Columns, b: &Columns, sort: LockSort) -> Ordering {
    let key = |columns: &Columns| match sort {
        LockSort::Util => columns.util,
        LockSort::Con => columns.con,
        LockSort::Wait => columns.wait_mean,
        LockSort::Total => Some(columns.total as f64),
    };
    let by_key = key(b).unwrap_or(-1.0).total_cmp(&key(a).unwrap_or(-1.0));
    by_key.then(b.total.cmp(&a.total))
}
