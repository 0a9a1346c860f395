//! A frame of which tests know everything.

use super::frame::Frame;
use super::hot::{Hot, HotList};
use super::operations::Operation;
use super::tab::Ranked;
use super::tenants::{TenantRow, Use, Work};
use super::volume::{Store, Volume};
use serde_json::json;

/// A store with two files, three operations, two tenants and a lock.
pub fn frame() -> Frame {
    Frame {
        seconds: 2.0,
        wall: 1000.0,
        volume: Volume {
            ops_per_second: 1500.0,
            store: Some(Store {
                dirty: 2048.0,
                commits: [2.0, 40.0],
                fsync: Some(0.004),
                room: Some([1e9, 5e8]),
            }),
            ..Volume::default()
        },
        operations: vec![
            operation("getattr", 100.0),
            operation("read", 1400.0),
            operation("unlink", 0.0),
        ],
        tenants: Some(Ok(vec![
            tenant("user:root", 10.0),
            tenant("project:7", 900.0),
        ])),
        no_quota: None,
        heat: Some(Ok((
            json!({ "on": true, "files": 2, "ranges": 3, "warm_from": 25, "hot_from": 60 }),
            vec![ranking(Ranked::Files)],
        ))),
        locks: Some(Ok(
            json!({ "running": true, "elapsed_ns": 5_000_000_000_u64, "locks": [
                { "class": "directory.bucket", "side": "write", "util_percent": 1.5,
                  "con_percent": 20.0, "wait_ns_mean": 900.0, "wait_ns_max": 7000,
                  "hold_ns_mean": 250.0, "hold_ns_max": 9000, "total": 4000 },
            ]}),
        )),
    }
}

/// A ranking of two files.
pub fn ranking(ranked: Ranked) -> HotList {
    let hot = |name: &str, temperature, cells: &[Option<f64>]| Hot {
        name: name.to_owned(),
        temperature,
        rates: Some([temperature, 0.0, temperature * 4096.0]),
        totals: [1234.0, 0.0, 5e6],
        last: "now".to_owned(),
        cells: cells.to_vec(),
        row: json!({ "last_access": 999.0 }),
    };
    HotList {
        ranked,
        rows: vec![
            hot("/logs/hot.log", 99.5, &[Some(99.5), Some(3.0), None]),
            hot("/logs/old/cold.log", 3.0, &[Some(3.0)]),
        ],
    }
}

fn operation(name: &str, per_second: f64) -> Operation {
    let timed = |seconds| (per_second > 0.0).then_some(seconds);
    Operation {
        name: name.to_owned(),
        per_second,
        errors_per_second: 0.0,
        load: Some(per_second * 1e-5),
        mean: timed(1e-5),
        bounds: [timed(16e-6), timed(65e-6)],
        total: 1e6,
    }
}

fn tenant(name: &str, per_second: f64) -> TenantRow {
    TenantRow {
        name: name.to_owned(),
        work: Some(Work {
            per_second,
            share: per_second / 1000.0,
            waits: [0.0, 3e-5],
            held: 0.25,
            weight: 100,
            limits: [Some(900), None],
        }),
        bytes: Some(Use {
            used: 1 << 20,
            hard: Some(1 << 20),
            soft: None,
        }),
        inodes: Some(Use::default()),
    }
}
