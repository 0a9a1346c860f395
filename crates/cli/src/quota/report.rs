//! Use and limits in the layout of `repquota(8)`.

use super::record::{Kind, Record, Report, Usage};
use super::who::{learn_names, name_of};
use hearth::QuotaKind;
use std::fmt::Write;

/// How numbers and names are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form {
    /// `1.5G` instead of KiB, `50k` instead of 50000.
    pub human: bool,
    /// Ids instead of names.
    pub numeric: bool,
    /// Seconds of the wall clock.
    pub now: i64,
}

/// A table for each kind that `wanted` names and that has records, the volume's own first.
pub fn text(report: &Report, place: &str, wanted: &[QuotaKind], form: Form) -> String {
    if !form.numeric {
        let shown = report.records.iter().map(|record| record.who);
        learn_names(shown.filter(|who| wanted.contains(&who.kind)));
    }
    let mut out = String::new();
    let is_known = |kind: QuotaKind| report.kinds.iter().any(|k| k.kind == kind);
    for &kind in wanted {
        let of_kind = report
            .records
            .iter()
            .filter(|record| record.who.kind == kind);
        let records: Vec<&Record> = of_kind.collect();
        if records.is_empty() || (!is_known(kind) && kind != QuotaKind::Volume) {
            continue;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        match report.kinds.iter().find(|k| k.kind == kind) {
            Some(rules) => head(&mut out, rules, place),
            None => line(&mut out, format_args!("*** Room of the volume on {place}")),
        }
        table(&mut out, kind, &records, form);
    }
    out
}

/// Limits of ids without their own.
pub fn defaults(kind: &Kind) -> String {
    let mut out = String::new();
    head(&mut out, kind, "ids without their own");
    for (name, usage) in [("bytes", &kind.bytes), ("inodes", &kind.inodes)] {
        let limit = |limit: Option<u64>| limit.map_or("none".to_owned(), |l| l.to_string());
        let (soft, hard) = (limit(usage.soft), limit(usage.hard));
        line(
            &mut out,
            format_args!("{name:<6} soft {soft:>20} hard {hard:>20}"),
        );
    }
    out
}

fn head(out: &mut String, rules: &Kind, place: &str) {
    let kind = rules.kind.name();
    line(out, format_args!("*** Report for {kind} quotas on {place}"));
    let off = if rules.enforced {
        ""
    } else {
        "; enforcement is off"
    };
    line(
        out,
        format_args!(
            "Block grace time: {}; Inode grace time: {}{off}",
            period(rules.bytes.grace),
            period(rules.inodes.grace)
        ),
    );
}

fn table(out: &mut String, kind: QuotaKind, records: &[&Record], form: Form) {
    let title = match kind {
        QuotaKind::Volume => "Volume",
        QuotaKind::User => "User",
        QuotaKind::Group => "Group",
        QuotaKind::Project => "Project",
    };
    let names: Vec<String> = records.iter().map(|record| name(record, form)).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(15);
    let (bytes, inodes) = ("Block limits", "File limits");
    line(
        out,
        format_args!("{:width$}    {bytes:^41}  {inodes:^34}", ""),
    );
    line(
        out,
        format_args!(
            "{title:<width$}    {:>11} {:>11} {:>11} {:>6} {:>9} {:>8} {:>8} {:>6}",
            "used", "soft", "hard", "grace", "used", "soft", "hard", "grace"
        ),
    );
    line(out, format_args!("{}", "-".repeat(width + 4 + 77)));
    for (record, name) in records.iter().zip(names) {
        let (bytes, inodes) = (&record.bytes, &record.inodes);
        let amount = |amount| size(amount, form.human);
        let many = |amount| many(amount, form.human);
        line(
            out,
            format_args!(
                "{name:<width$} {}{} {:>11} {:>11} {:>11} {:>6} {:>9} {:>8} {:>8} {:>6}",
                mark(bytes),
                mark(inodes),
                amount(bytes.used),
                amount(bytes.soft.unwrap_or(0)),
                amount(bytes.hard.unwrap_or(0)),
                grace(bytes, form.now),
                many(inodes.used),
                many(inodes.soft.unwrap_or(0)),
                many(inodes.hard.unwrap_or(0)),
                grace(inodes, form.now),
            ),
        );
    }
}

/// `String` takes whatever is written to it.
fn line(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    if writeln!(out, "{arguments}").is_err() {
        out.push('\n');
    }
}

fn name(record: &Record, form: Form) -> String {
    let id = record.who.id;
    match record.who.kind {
        QuotaKind::Volume => "volume".to_owned(),
        _ if form.numeric => format!("#{id}"),
        _ => name_of(record.who).unwrap_or_else(|| format!("#{id}")),
    }
}

/// `+` for above a soft or at a hard limit, as repquota has it.
fn mark(usage: &Usage) -> char {
    let over_soft = usage.soft.is_some_and(|soft| usage.used > soft);
    let at_hard = usage
        .hard
        .is_some_and(|hard| usage.used >= hard && usage.used > 0);
    if over_soft || at_hard { '+' } else { '-' }
}

fn grace(usage: &Usage, now: i64) -> String {
    match usage.deadline {
        None => String::new(),
        Some(deadline) if deadline <= now => "none".to_owned(),
        Some(deadline) => {
            let left = deadline.abs_diff(now);
            match left / 86_400 {
                // Under two days repquota has hours and minutes.
                0 | 1 => format!("{:02}:{:02}", left / 3600, left % 3600 / 60),
                days => format!("{days}days"),
            }
        }
    }
}

/// A length of time: `7days`, `12:30`, `90sec`.
fn period(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}sec"),
        s if s % 86_400 == 0 => format!("{}days", s / 86_400),
        s => format!("{:02}:{:02}", s / 3600, s % 3600 / 60),
    }
}

/// KiB, rounded up as quota tools do, or with a unit.
fn size(bytes: u64, human: bool) -> String {
    match human {
        true => scaled(bytes, 1024, &["", "K", "M", "G", "T", "P", "E"]),
        false => bytes.div_ceil(1024).to_string(),
    }
}

fn many(count: u64, human: bool) -> String {
    match human {
        true => scaled(count, 1000, &["", "k", "m", "g", "t", "p", "e"]),
        false => count.to_string(),
    }
}

/// With the unit that leaves at most four digits; one digit behind the point where it is not whole.
fn scaled(amount: u64, base: u64, units: &[&str]) -> String {
    let mut unit = 1;
    let mut at = 0;
    while amount / unit >= base && at + 1 < units.len() {
        unit *= base;
        at += 1;
    }
    match amount % unit {
        0 => format!("{}{}", amount / unit, units[at]),
        _ => format!("{:.1}{}", amount as f64 / unit as f64, units[at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth::QuotaId;

    #[test]
    fn a_report_has_the_columns_of_repquota() {
        let usage = |used, soft, hard, deadline| Usage {
            used,
            soft,
            hard,
            grace: 604_800,
            deadline,
        };
        let kind = Kind {
            kind: QuotaKind::User,
            enforced: true,
            bytes: usage(0, None, None, None),
            inodes: usage(0, None, None, None),
        };
        let record = |id, bytes, inodes| Record {
            who: QuotaId::user(id),
            bytes,
            inodes,
        };
        let report = Report {
            kinds: vec![kind],
            records: vec![
                record(0, usage(4096, None, None, None), usage(1, None, None, None)),
                record(
                    4_000_000_000,
                    usage(3 << 20, Some(2 << 20), Some(4 << 20), Some(6 * 86_400 + 70)),
                    usage(5, Some(3), Some(5), Some(9)),
                ),
            ],
        };
        let form = Form {
            now: 10,
            ..Form::default()
        };
        let shown = text(&report, "/mnt", &[QuotaKind::User], form);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "*** Report for user quotas on /mnt");
        assert_eq!(lines[1], "Block grace time: 7days; Inode grace time: 7days");
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words(lines[5]),
            ["root", "--", "4", "0", "0", "1", "0", "0"]
        );
        let expected = "#4000000000 ++ 3072 2048 4096 6days 5 3 5 none";
        assert_eq!(words(lines[6]).join(" "), expected);
        let human = Form {
            human: true,
            ..form
        };
        let shown = text(&report, "/mnt", &[QuotaKind::User], human);
        assert!(shown.contains(" 3M ") && shown.contains(" 2M "), "{shown}");
    }

    #[test]
    fn amounts_keep_a_digit_behind_the_point() {
        assert_eq!(size(1536 << 20, true), "1.5G");
        assert_eq!((size(1, false), size(0, false)), ("1".into(), "0".into()));
        assert_eq!(
            (many(50_000, true), many(1_500, true)),
            ("50k".into(), "1.5k".into())
        );
        assert_eq!(size(u64::MAX, true), "16.0E");
        assert_eq!(
            (period(604_800), period(5400)),
            ("7days".into(), "01:30".into())
        );
    }
}
