//! What a server says of its volume when the program has ended, as one line of JSON.

use hearth::heat::{FileHeat, HeatRank, PathInfo, RangeHeat};
use hearth::{Op, QuotaEvent, QuotaEventKind, QuotaId, QuotaUsage, Resource, Volume};
use hearth_host::Refusal;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Where only the other of bytes and inodes is limited: a volume always has limits of both.
pub const NO_LIMIT: u64 = 1 << 60;
/// Files and ranges that are named, the hottest first.
const MOST: usize = 10;

/// The whole account.
pub fn of(volume: &Volume, refused_at: &[Refusal]) -> Value {
    let mut account = json!({
        "operations": operations(volume),
        "waited_seconds": waited(volume),
        "files": files(volume),
        "ranges": ranges(volume),
    });
    if let Ok(used) = volume.quota().get(QuotaId::VOLUME) {
        account["bytes"] = usage(&used.bytes);
        account["inodes"] = usage(&used.inodes);
        account["refused"] = refusals(volume);
        account["refused_at"] = refused_at.iter().map(place).collect();
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
        is_refusal.then(|| {
            json!({
                "who": event.who.to_string(),
                "resource": word(event.resource),
                "used": event.used,
                "limit": event.limit,
            })
        })
    };
    events.iter().filter_map(refused).collect()
}

/// A file that could not grow, or a directory that could get no inode.
fn place(refusal: &Refusal) -> Value {
    let path = refusal.path.as_deref().map(String::from_utf8_lossy);
    json!({
        "path": path.map(|path| format!("/{path}")),
        "resource": word(refusal.resource),
        "times": refusal.times,
    })
}

fn word(resource: Resource) -> &'static str {
    match resource {
        Resource::Blocks => "bytes",
        Resource::Inodes => "inodes",
    }
}

/// Seconds from the kernel's requests to their answers: what the program waited for, but for what
/// the kernel asked ahead of it.
fn waited(volume: &Volume) -> f64 {
    let stats = volume.stats();
    Op::ALL.iter().map(|op| stats.op(*op).ns as f64 / 1e9).sum()
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
    let hot = heat.top_files(HeatRank::Bytes, MOST, None);
    let paths = Paths::of(volume, hot.iter().map(|file| file.ino));
    let of = |file: &FileHeat| {
        let stats = &file.stats;
        json!({
            "path": paths.text(file.ino),
            "reads": stats.reads,
            "writes": stats.writes,
            "read_bytes": stats.read_bytes,
            "written_bytes": stats.written_bytes,
        })
    };
    hot.iter().map(of).collect()
}

fn ranges(volume: &Volume) -> Value {
    let hot = volume.heat().top_ranges(HeatRank::Bytes, MOST, None);
    let paths = Paths::of(volume, hot.iter().map(|range| range.ino));
    let of = |range: &RangeHeat| {
        let stats = &range.stats;
        json!({
            "path": paths.text(range.ino),
            "inode": range.ino,
            "start": range.start,
            "len": range.len,
            "read_bytes": stats.read_bytes,
            "written_bytes": stats.written_bytes,
        })
    };
    hot.iter().map(of).collect()
}

/// Where files are now.
struct Paths(HashMap<u64, PathInfo>);

impl Paths {
    fn of(volume: &Volume, inodes: impl Iterator<Item = u64>) -> Paths {
        let inodes: Vec<u64> = inodes.collect();
        Paths(volume.heat().paths(&inodes).unwrap_or_default())
    }

    fn text(&self, ino: u64) -> Option<String> {
        let path = self.0.get(&ino)?.path.as_deref()?;
        Some(String::from_utf8_lossy(path).into_owned())
    }
}
