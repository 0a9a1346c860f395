//! Users and projects: what each did in an interval, waited for it, and uses of the room.

use super::grid::{Cell, Column, Grid, Tone};
use super::number;
use crate::quota::{Record, Report, Usage, learn_names_in, with_names};
use hearth::QuotaKind;
use serde_json::{Value, json};

/// A tenant of the scheduler, or somebody with a quota, or both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantRow {
    /// `user:alice`, `project:7`, `group:staff`, `volume`, `system`.
    pub name: String,
    /// What the scheduler says.
    pub work: Option<Work>,
    /// Bytes and inodes in use, and how many may be.
    pub bytes: Option<Use>,
    /// Inodes.
    pub inodes: Option<Use>,
}

/// What a tenant did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Requests in a second.
    pub per_second: f64,
    /// Part of the time that requests took on the cores.
    pub share: f64,
    /// What half of the requests and 99 in 100 waited at most for a core, in seconds.
    pub waits: [f64; 2],
    /// How long they waited for a rate limit, in seconds of each second.
    pub held: f64,
    /// Weight.
    pub weight: u64,
    /// Operations and bytes a second, where they are limited.
    pub limits: [Option<u64>; 2],
}

/// Room.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// In use.
    pub used: u64,
    /// What is never passed.
    pub hard: Option<u64>,
    /// What is passed for a while at most.
    pub soft: Option<u64>,
}

const COLUMNS: &[Column] = &[
    Column::text("TENANT", 14, 100),
    Column::number("REQ/s", 6),
    Column::number("SHARE", 5),
    Column::number("WAIT50", 6),
    Column::number("WAIT99", 6),
    Column::number("HELD/s", 6),
    Column::number("WEIGHT", 6),
    Column::number("USED", 5),
    Column::number("HARD", 5),
    Column::number("USE%", 5),
    Column::number("INODES", 6),
    Column::number("OF", 5),
];

/// Tenants at `now`; what they did since `before`, or ever if there is none.
pub fn between(
    before: Option<&Value>,
    now: &Value,
    quota: Option<&Report>,
    seconds: f64,
) -> Vec<TenantRow> {
    let list = |value: &Value| value["tenants"].as_array().cloned().unwrap_or_default();
    let old = before.map(list).unwrap_or_default();
    let rows = list(now);
    let was = |row: &Value| old.iter().find(|o| o["tenant"] == row["tenant"]);
    let ran: Vec<u64> = rows
        .iter()
        .map(|row| counted(was(row), row, "run_ns"))
        .collect();
    let all = ran.iter().sum::<u64>().max(1) as f64;
    let mut tenants: Vec<TenantRow> = Vec::new();
    learn_names_in(rows.iter().filter_map(|row| row["tenant"].as_str()));
    for (row, ran) in rows.iter().zip(ran) {
        let work = work(was(row), row, ran as f64 / all, seconds);
        let id = row["tenant"].as_str().unwrap_or_default();
        let record = quota.and_then(|quota| quota.records.iter().find(|r| name(r) == id));
        tenants.push(TenantRow {
            name: with_names(id),
            work: Some(work),
            ..usage(record)
        });
    }
    let known = |record: &Record| rows.iter().any(|row| row["tenant"] == *name(record));
    let others = quota.iter().flat_map(|quota| &quota.records);
    let others = others.filter(|record| !known(record) && is_worth_a_row(record));
    let others: Vec<_> = others.map(|record| (record, name(record))).collect();
    learn_names_in(others.iter().map(|(_, name)| &**name));
    for (record, name) in others {
        tenants.push(TenantRow {
            name: with_names(&name),
            ..usage(Some(record))
        });
    }
    tenants
}

/// Whether somebody who did nothing is shown: who has a limit, and every project.
fn is_worth_a_row(record: &Record) -> bool {
    let is_limited = |usage: &Usage| usage.hard.is_some() || usage.soft.is_some();
    match (record.who.kind, record.who.id) {
        (QuotaKind::Volume, _) => true,
        (QuotaKind::Project, id) if id != 0 => true,
        _ => is_limited(&record.bytes) || is_limited(&record.inodes),
    }
}

fn name(record: &Record) -> String {
    match record.who.kind {
        QuotaKind::Volume => "volume".to_owned(),
        kind => format!("{}:{}", kind.name(), record.who.id),
    }
}

fn usage(record: Option<&Record>) -> TenantRow {
    let of = |usage: &Usage| Use {
        used: usage.used,
        hard: usage.hard,
        soft: usage.soft,
    };
    TenantRow {
        bytes: record.map(|record| of(&record.bytes)),
        inodes: record.map(|record| of(&record.inodes)),
        ..TenantRow::default()
    }
}

/// What was counted since `before`; all of it if there is less now, which is another mount.
fn counted(before: Option<&Value>, now: &Value, field: &str) -> u64 {
    let count = |value: &Value| value[field].as_u64().unwrap_or(0);
    let now = count(now);
    now.checked_sub(before.map_or(0, count)).unwrap_or(now)
}

fn work(before: Option<&Value>, now: &Value, share: f64, seconds: f64) -> Work {
    Work {
        per_second: counted(before, now, "requests") as f64 / seconds,
        share,
        waits: waits(before, now),
        held: counted(before, now, "throttled_ns") as f64 / 1e9 / seconds,
        weight: now["weight"].as_u64().unwrap_or(0),
        limits: ["iops", "bw"].map(|limit| now[limit].as_u64()),
    }
}

/// Waits of half of the requests and of 99 in 100: those served at once waited for nothing.
fn waits(before: Option<&Value>, now: &Value) -> [f64; 2] {
    let steps = |value: &Value| -> Vec<(u64, u64)> {
        let steps = value["wait_ns"].as_array().into_iter().flatten();
        steps
            .filter_map(|step| Some((step[0].as_u64()?, step[1].as_u64()?)))
            .collect()
    };
    let old = before.map(steps).unwrap_or_default();
    let of_old = |bound| {
        let found = old.iter().find(|(old, _)| *old == bound);
        found.map_or(0, |(_, count)| *count)
    };
    let new = steps(now).into_iter();
    let new: Vec<(u64, u64)> = new
        .map(|(bound, count)| (bound, count.saturating_sub(of_old(bound))))
        .collect();
    let at_once = counted(before, now, "at_once");
    let all = at_once + new.iter().map(|(_, count)| count).sum::<u64>();
    [0.5, 0.99].map(|part| {
        let wanted = (all as f64 * part).ceil() as u64;
        let mut below = at_once;
        for (bound, count) in &new {
            if below >= wanted {
                break;
            }
            below += count;
            if below >= wanted {
                return *bound as f64 / 1e9;
            }
        }
        0.0
    })
}

/// The rows of a table.
pub fn grid(tenants: &[TenantRow]) -> Grid {
    let row = |tenant: &TenantRow| {
        let work = tenant.work;
        let number = |of: fn(&Work) -> f64| work.as_ref().map(of);
        let bytes = |of: fn(&Use) -> Option<u64>| tenant.bytes.as_ref().and_then(of);
        let inodes = |of: fn(&Use) -> Option<u64>| tenant.inodes.as_ref().and_then(of);
        let part = tenant
            .bytes
            .and_then(|u| Some(u.used as f64 / u.hard? as f64));
        vec![
            Cell::text(&*tenant.name),
            Cell::number(number(|w| w.per_second), number::rate),
            Cell::number(number(|w| w.share), number::percent),
            Cell::number(number(|w| w.waits[0]), number::time),
            Cell::number(number(|w| w.waits[1]), number::time),
            Cell::number(number(|w| w.held), number::time),
            Cell::number(number(|w| w.weight as f64), number::count),
            Cell::number(bytes(|u| Some(u.used)).map(|u| u as f64), number::bytes),
            Cell::number(bytes(|u| u.hard).map(|u| u as f64), number::bytes),
            Cell::number(part, number::percent).toned(fullness(tenant)),
            Cell::number(inodes(|u| Some(u.used)).map(|u| u as f64), number::count),
            Cell::number(inodes(|u| u.hard).map(|u| u as f64), number::count),
        ]
    };
    Grid {
        columns: COLUMNS,
        rows: tenants.iter().map(row).collect(),
    }
}

/// At a hard limit, above a soft one or near a hard one, or neither.
fn fullness(tenant: &TenantRow) -> Tone {
    let uses = [tenant.bytes, tenant.inodes].into_iter().flatten();
    let tone = |u: Use| match (u.soft, u.hard) {
        (_, Some(hard)) if u.used >= hard && u.used > 0 => 2,
        (Some(soft), _) if u.used > soft => 1,
        (_, Some(hard)) if u.used as f64 >= hard as f64 * 0.9 && u.used > 0 => 1,
        _ => 0,
    };
    match uses.map(tone).max() {
        Some(2) => Tone::Bad,
        Some(1) => Tone::Warn,
        _ => Tone::Plain,
    }
}

/// A tenant as an object.
pub fn object(tenant: &TenantRow) -> Value {
    let room =
        |room: Option<Use>| room.map(|u| json!({ "used": u.used, "hard": u.hard, "soft": u.soft }));
    let work = tenant.work.map(|w| {
        json!({
            "requests_per_second": w.per_second,
            "share": w.share,
            "wait_p50_seconds": w.waits[0],
            "wait_p99_seconds": w.waits[1],
            "held_seconds_per_second": w.held,
            "weight": w.weight,
            "iops": w.limits[0],
            "bw": w.limits[1],
        })
    });
    json!({
        "tenant": tenant.name,
        "work": work,
        "bytes": room(tenant.bytes),
        "inodes": room(tenant.inodes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth::QuotaId;

    fn sched(requests: u64, at_once: u64, run: u64, wait: u64) -> Value {
        json!({ "tenants": [
            { "tenant": "user:4000000000", "weight": 100, "requests": requests,
              "at_once": at_once, "run_ns": run, "throttled_ns": run,
              "wait_ns": [[1000, wait], [2_000_000, 2]], "iops": 50, "bw": null },
            { "tenant": "system", "weight": 10, "requests": 0, "at_once": 0,
              "run_ns": 3_000_000_000_u64, "throttled_ns": 0, "wait_ns": [] },
        ]})
    }

    fn report() -> Report {
        let usage = |used, hard| Usage {
            used,
            hard,
            ..Usage::default()
        };
        let record = |who, used, hard| Record {
            who,
            bytes: usage(used, hard),
            inodes: usage(1, None),
        };
        Report {
            kinds: Vec::new(),
            records: vec![
                record(QuotaId::VOLUME, 95, Some(100)),
                record(QuotaId::user(4_000_000_000), 4096, Some(4096)),
                record(QuotaId::user(4_000_000_001), 4096, None),
                record(QuotaId::project(0), 4096, None),
                record(QuotaId::project(7), 4096, None),
            ],
        }
    }

    #[test]
    fn work_is_that_of_the_interval_and_room_that_of_now() {
        let before = sched(100, 90, 1_000_000_000, 8);
        let now = sched(300, 270, 3_000_000_000, 28);
        let found = between(Some(&before), &now, Some(&report()), 2.0);
        let user = &found[0];
        assert_eq!(user.name, "user:4000000000");
        let work = user.work.unwrap();
        assert_eq!((work.per_second, work.share, work.held), (100.0, 1.0, 1.0));
        // Of 200 requests 180 were served at once and 20 waited up to a microsecond.
        assert_eq!(work.waits, [0.0, 1e-6]);
        assert_eq!(work.limits, [Some(50), None]);
        assert_eq!(user.bytes.unwrap().hard, Some(4096));
        assert_eq!(fullness(user), Tone::Bad);
        assert_eq!(
            (&*found[1].name, found[1].work.unwrap().share),
            ("system", 0.0)
        );
        let volume = &found[2];
        assert_eq!((&*volume.name, volume.work), ("volume", None));
        assert_eq!(fullness(volume), Tone::Warn);
        // Who did nothing and has no limit is left out, unless it is a project.
        assert_eq!((&*found[3].name, found.len()), ("project:7", 4));
        assert_eq!(grid(&found).rows[2].len(), COLUMNS.len());
    }

    #[test]
    fn a_first_look_tells_what_was_ever_done() {
        let now = sched(300, 270, 1_000_000_000, 28);
        let work = between(None, &now, None, 1.0)[0].work.unwrap();
        assert_eq!((work.per_second, work.share), (300.0, 0.25));
        // A new mount has counted less: nothing is negative.
        let earlier = sched(100, 90, 1_000_000, 8);
        let work = between(Some(&now), &earlier, None, 1.0)[0].work.unwrap();
        assert_eq!(work.per_second, 100.0);
    }
}
