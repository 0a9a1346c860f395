//! Quotas as text and JSON: the files in `/.hearth/quota` for the owner of the volume, and the
//! answers of `/.hearth/ask`.

use crate::events::{bytes, field};
use hearth::{
    Limit, Quota, QuotaCheck, QuotaError, QuotaEvent, QuotaEventKind, QuotaId, QuotaKind,
    QuotaRecord, QuotaUsage, RefusalReason, Volume,
};
use serde_json::json;
use std::fmt::Write;

/// `report.json`: all records.
pub(crate) fn all(volume: &Volume) -> String {
    let quota = volume.quota();
    report(&quota, &quota.report())
}

/// Settings of the kinds, and one object for each record in the order of the library's report. A
/// missing limit is null; `kept` is false where nobody counts what the ids of a kind use.
pub(crate) fn report(quota: &Quota<'_>, records: &[QuotaRecord]) -> String {
    let mut out = format!(
        "{{\"owner\":{},\"latest_event\":{},\"kinds\":[",
        quota.owner(),
        quota.latest_event()
    );
    let kinds = &QuotaKind::ALL[1..];
    list(&mut out, kinds, |&kind| {
        let rules = quota.defaults(kind);
        let of = |limit: Limit, grace: u64| {
            let (hard, soft) = (some(limit.hard), some(limit.soft));
            format!("{{\"hard\":{hard},\"soft\":{soft},\"grace\":{grace}}}")
        };
        let of_none = quota.get(QuotaId { kind, id: 0 });
        let is_off = matches!(of_none, Err(QuotaError::Off | QuotaError::OffOfHost));
        format!(
            "{{\"kind\":\"{}\",\"kept\":{},\"enforced\":{},\"bytes\":{},\"inodes\":{}}}",
            kind.name(),
            !is_off,
            rules.enforced,
            of(rules.bytes, rules.bytes_grace),
            of(rules.inodes, rules.inodes_grace),
        )
    });
    out.push_str("],\"records\":[");
    list(&mut out, records, |record| {
        format!(
            "{{\"kind\":\"{}\",\"id\":{},\"enforced\":{},\"bytes\":{},\"inodes\":{}}}",
            record.who.kind.name(),
            record.who.id,
            record.enforced,
            usage(&record.bytes),
            usage(&record.inodes),
        )
    });
    out.push_str("]}\n");
    out
}

/// One line for each kept event: number, time, id, kind, use, limit.
pub(crate) fn events(volume: &Volume) -> String {
    let events = volume.quota().events(0).unwrap_or_default();
    events.iter().map(|event| format!("{event}\n")).collect()
}

/// Events as JSON, oldest first.
pub(crate) fn listed(events: &[QuotaEvent]) -> String {
    let mut out = String::from("{\"events\":[");
    list(&mut out, events, |event| {
        let (what, deadline) = match event.what {
            QuotaEventKind::SoftCrossed { deadline } => ("soft-crossed", Some(deadline)),
            QuotaEventKind::GraceEnded => ("grace-ended", None),
            QuotaEventKind::SoftReturned => ("soft-returned", None),
            QuotaEventKind::HardCrossed => ("hard-crossed", None),
            QuotaEventKind::Refused(RefusalReason::Hard) => ("refused-hard", None),
            QuotaEventKind::Refused(RefusalReason::GraceEnded) => ("refused-grace-ended", None),
            QuotaEventKind::WriteLost { .. } => ("write-lost", None),
            QuotaEventKind::ProjectLeft { .. } => ("project-left", None),
        };
        format!(
            "{{\"sequence\":{},\"time\":{},\"kind\":\"{}\",\"id\":{},\"what\":\"{what}\",\
             \"deadline\":{},\"resource\":\"{}\",\"used\":{},\"limit\":{},\"times\":{}{}}}",
            event.sequence,
            event.time,
            event.who.kind.name(),
            json!(event.who.known()),
            some(deadline),
            event.resource.name(),
            event.used,
            event.limit,
            event.times,
            about_file(event),
        )
    });
    out.push_str("]}\n");
    out
}

/// The fields that only events about files have, each behind a comma.
fn about_file(event: &QuotaEvent) -> String {
    let mut out = String::new();
    if let Some(file) = &event.file {
        field(&mut out, "inode", &json!(file.ino));
        field(&mut out, "generation", &json!(file.generation));
        bytes(&mut out, "path", file.path.as_deref());
    }
    match event.what {
        QuotaEventKind::WriteLost { errno, bytes } => {
            field(&mut out, "errno", &json!(format!("{errno:?}")));
            field(&mut out, "lost", &json!(bytes));
        }
        QuotaEventKind::ProjectLeft { uid, pid } => {
            field(&mut out, "uid", &json!(uid));
            field(&mut out, "pid", &json!(pid));
        }
        _ => {}
    }
    out
}

/// The result of a check as JSON.
pub(crate) fn checked(check: &QuotaCheck) -> String {
    let mut out = format!(
        "{{\"clean\":{},\"inodes\":{},\"nameless\":{},\"wrong_blocks\":[",
        check.is_clean(),
        check.inodes,
        check.nameless
    );
    list(&mut out, &check.wrong_blocks, |(ino, says, holds)| {
        format!("{{\"inode\":{ino},\"says\":{says},\"holds\":{holds}}}")
    });
    out.push_str("],\"differences\":[");
    list(&mut out, &check.differences, |difference| {
        format!(
            "{{\"kind\":\"{}\",\"id\":{},\"resource\":\"{}\",\"ledger\":{},\"found\":{}}}",
            difference.who.kind.name(),
            difference.who.id,
            difference.resource.name(),
            difference.ledger,
            difference.found,
        )
    });
    out.push_str("]}\n");
    out
}

/// The hard limits in force that a record exceeds, as JSON.
pub(crate) fn above(record: &QuotaRecord) -> String {
    let both = [(&record.bytes, "bytes"), (&record.inodes, "inodes")];
    let all = both.into_iter().filter_map(|(usage, resource)| {
        let used = usage.used;
        let hard = usage.hard.filter(|&hard| record.enforced && used > hard)?;
        Some(format!(
            "{{\"resource\":\"{resource}\",\"used\":{used},\"hard\":{hard}}}"
        ))
    });
    let all: Vec<String> = all.collect();
    format!("[{}]", all.join(","))
}

/// The elements of a JSON list, one a line.
fn list<T>(out: &mut String, of: &[T], one: impl Fn(&T) -> String) {
    for (n, element) in of.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        let _ = write!(out, "{comma}\n{}", one(element));
    }
    if !of.is_empty() {
        out.push('\n');
    }
}

fn usage(usage: &QuotaUsage) -> String {
    format!(
        "{{\"used\":{},\"reserved\":{},\"hard\":{},\"soft\":{},\"grace\":{},\
         \"deadline\":{},\"warnings\":{},\"own\":{}}}",
        usage.used,
        usage.reserved,
        some(usage.hard),
        some(usage.soft),
        usage.grace,
        some(usage.deadline),
        usage.warnings,
        usage.own,
    )
}

fn some(value: Option<impl ToString>) -> String {
    value.map_or("null".to_owned(), |value| value.to_string())
}
