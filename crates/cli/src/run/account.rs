//! What a server says of its volume when the program has ended, as one line of JSON.

use hearth::heat::{FileHeat, HeatRank};
use hearth::{Op, QuotaEvent, QuotaEventKind, QuotaId, QuotaUsage, Resource, Volume};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Where only the other of bytes and inodes is limited: a volume always has limits of both.
pub const NO_LIMIT: u64 = 1 << 60;
/// Files that are named, the hottest first.
const FILES: usize = 10;

/// The whole account.
pub fn of(volume: &Volume) -> Value {
    let mut account = json!({
        "operations": operations(volume),
        "files": files(volume),
    });
    if let Ok(used) = volume.quota().get(QuotaId::VOLUME) {
        account["bytes"] = usage(&used.bytes);
        account["inodes"] = usage(&used.inodes);
        account["refused"] = refusals(volume);
    }
    account
}

fn usage(usage: &QuotaUsage) -> Value {
    let limit = usage.hard.filter(|limit| *limit < NO_LIMIT);
    json!({ "used": usage.used, "limit": limit })
}

fn refusals(volume: &Volume) -> Value {
    let events = volume.quota().events(0).unwrap_or_default();
    let refused = |event: &QuotaEvent| {
        let is_refusal = matches!(event.what, QuotaEventKind::Refused(_));
        let resource = match event.resource {
            Resource::Blocks => "bytes",
            Resource::Inodes => "inodes",
        };
        is_refusal.then(|| {
            json!({
                "who": event.who.to_string(),
                "resource": resource,
                "used": event.used,
                "limit": event.limit,
            })
        })
    };
    events.iter().filter_map(refused).collect()
}

fn operations(volume: &Volume) -> Value {
    let stats = volume.stats();
    let mut all: Vec<_> = Op::ALL.iter().map(|op| (op, stats.op(*op))).collect();
    all.retain(|(_, done)| done.count > 0);
    all.sort_by_key(|(_, done)| std::cmp::Reverse(done.ns));
    let of = |(op, done): &(&Op, hearth::OpStats)| {
        json!({
            "name": op.name(),
            "count": done.count,
            "errors": done.errors,
            "seconds": done.ns as f64 / 1e9,
        })
    };
    all.iter().map(of).collect()
}

fn files(volume: &Volume) -> Value {
    let heat = volume.heat();
    let hot = heat.top_files(HeatRank::Bytes, FILES, None);
    let inodes: Vec<u64> = hot.iter().map(|file| file.ino).collect();
    let paths = heat.paths(&inodes).unwrap_or_else(|_| HashMap::new());
    let of = |file: &FileHeat| {
        let path = paths.get(&file.ino).and_then(|found| found.path.as_deref());
        let stats = &file.stats;
        json!({
            "path": path.map(|path| String::from_utf8_lossy(path)),
            "reads": stats.reads,
            "writes": stats.writes,
            "read_bytes": stats.read_bytes,
            "written_bytes": stats.written_bytes,
        })
    };
    hot.iter().map(of).collect()
}
