//! `/.hearth/quota`: the report and the events, for the owner of the volume.

use crate::quota::{Happening, QuotaUsage, Reason};
use crate::volume::Core;
use hearth_sync::epoch::pin;
use std::fmt::Write;

/// One object a record, in the order of the library's report; limits that are not there are null.
pub(super) fn report(core: &Core) -> String {
    let (records, latest) = core.ledger.with_book(&pin(), |book, hand| {
        (book.show_all(hand), book.latest_event())
    });
    let mut out = format!("{{\"latest_event\":{latest},\"records\":[");
    for (n, record) in records.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        let _ = write!(
            out,
            "{comma}\n{{\"kind\":\"{}\",\"id\":{},\"enforced\":{},\"bytes\":{},\"inodes\":{}}}",
            record.who.kind.name(),
            record.who.id,
            record.enforced,
            usage(&record.bytes),
            usage(&record.inodes),
        );
    }
    out.push_str("\n]}\n");
    out
}

/// A line for each event that is kept: number, time, whose, what, use, limit.
pub(super) fn events(core: &Core) -> String {
    let events = core
        .ledger
        .with_book(&pin(), |book, _| book.events_after(0));
    let mut out = String::new();
    for event in events {
        let what = match event.what {
            Happening::SoftCrossed { deadline } => format!("soft-crossed until={deadline}"),
            Happening::SoftReturned => "soft-returned".to_owned(),
            Happening::Refused(Reason::Hard) => "refused-hard".to_owned(),
            Happening::Refused(Reason::GraceEnded) => "refused-grace-ended".to_owned(),
        };
        let _ = writeln!(
            out,
            "{} {} {} {what} {}={} limit={}",
            event.sequence,
            event.time,
            event.who,
            event.resource.name(),
            event.used,
            event.limit,
        );
    }
    out
}

fn usage(usage: &QuotaUsage) -> String {
    let some = |value: Option<u64>| value.map_or("null".to_owned(), |value| value.to_string());
    let deadline = usage
        .deadline
        .map_or("null".to_owned(), |deadline| deadline.to_string());
    format!(
        "{{\"used\":{},\"reserved\":{},\"hard\":{},\"soft\":{},\"grace\":{},\
         \"deadline\":{deadline},\"warnings\":{},\"own\":{}}}",
        usage.used,
        usage.reserved,
        some(usage.hard),
        some(usage.soft),
        usage.grace,
        usage.warnings,
        usage.own,
    )
}
