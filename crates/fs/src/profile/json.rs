//! The profile as JSON.

use super::{Columns, LockCounts, LockProfile, LockRow, LockSide, SiteRow};

pub(super) fn text(profile: &LockProfile) -> String {
    let elapsed = profile.elapsed_ns;
    let locks = list(profile.locks.iter().map(|row| lock(row, elapsed)));
    let total = counts(&profile.counts(), LockSide::Write, elapsed);
    format!(
        "{{\"running\":{},\"exact\":{},\"elapsed_ns\":{elapsed},\"lost\":{},\
         \"total\":{{{total}}},\"locks\":{locks}}}\n",
        profile.running, profile.exact, profile.lost
    )
}

fn lock(row: &LockRow, elapsed: u64) -> String {
    let side = match row.side {
        LockSide::Write => "write",
        LockSide::Read => "read",
        LockSide::Wait => "wait",
    };
    let site = |site: &SiteRow| {
        let counts = counts(&site.counts, row.side, elapsed);
        format!("{{\"site\":{},{counts}}}", quoted(&site.site))
    };
    format!(
        "{{\"class\":{},\"side\":\"{side}\",{},\"sites\":{}}}",
        quoted(&row.class),
        counts(&row.counts(), row.side, elapsed),
        list(row.sites.iter().map(site))
    )
}

/// The fields of one line: its columns, then what they come from.
fn counts(counts: &LockCounts, side: LockSide, elapsed: u64) -> String {
    let columns = Columns::of(counts, side, elapsed);
    let number = |value: Option<f64>| value.map_or("null".to_owned(), |value| value.to_string());
    let whole = |value: Option<u64>| value.map_or("null".to_owned(), |value| value.to_string());
    let fields = [
        ("util_percent", number(columns.util)),
        ("con_percent", number(columns.con)),
        ("hold_ns_mean", number(columns.hold_mean)),
        ("hold_ns_max", whole(columns.hold_max)),
        ("wait_ns_mean", number(columns.wait_mean)),
        ("wait_ns_max", whole(columns.wait_max)),
        ("total", columns.total.to_string()),
        ("bounce_percent", number(columns.bounce)),
        ("free", counts.free.to_string()),
        ("waited", counts.waited.to_string()),
        ("refused", counts.refused.to_string()),
        ("bounced", counts.bounced.to_string()),
        ("timed", counts.timed.to_string()),
        ("hold_ns", counts.hold_ns.to_string()),
        ("wait_ns", counts.wait_ns.to_string()),
    ];
    fields
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .join(",")
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// Names of classes and source files: no control characters, but perhaps quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
