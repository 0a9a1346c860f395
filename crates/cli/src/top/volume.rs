//! What a volume holds, and what a store has to write.

use super::grid::{Cell, Column, Grid, Tone};
use super::number;
use crate::printable::printable;
use crate::stats::{Samples, json_number, operations};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What is known of the volume itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    /// What serves it: transport, version, what lies below.
    pub labels: BTreeMap<String, String>,
    /// Operations in a second of the interval.
    pub ops_per_second: f64,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Seconds for which the disk has not answered.
    pub silent: f64,
    /// Calls that wait for flock or fcntl.
    pub file_locks: f64,
    /// Inodes of the volume, and those in memory.
    pub inodes: [f64; 2],
    /// Bytes of file contents, and those in memory that could be given back.
    pub bytes: [f64; 2],
    /// Objects that came from the backend, and that went back, in a second.
    pub traffic: [f64; 2],
    /// Panics of the daemon since the mount.
    pub panics: f64,
    /// Of a volume that is kept.
    pub store: Option<Store>,
}

impl Volume {
    /// Whether inodes and bytes are those of the filesystem that holds a host directory: only
    /// quotas count the directory.
    fn of_filesystem_below(&self) -> bool {
        self.labels.contains_key("below") && !self.labels.contains_key("quota")
    }
}

/// A store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Store {
    /// Bytes that were written and may not have reached it.
    pub dirty: f64,
    /// Commits in a second of the interval, and since the mount.
    pub commits: [f64; 2],
    /// Mean time of an fsync of the interval, in seconds.
    pub fsync: Option<f64>,
    /// Bytes of its disk, and of them free.
    pub room: Option<[f64; 2]>,
}

const COLUMNS: &[Column] = &[Column::text("WHAT", 24, 30), Column::text("VALUE", 40, 70)];

/// What `now` says; rates are of `since`, counted in `seconds`.
pub fn between(since: &Samples, now: &Samples, seconds: f64) -> Volume {
    let of = |samples: &Samples, name: &str| -> Option<f64> {
        let mut values = samples.iter();
        values.find(|(key, _)| key.name == name).map(|(_, v)| v)
    };
    let value = |name: &str| of(now, name).unwrap_or(0.0);
    let rate = |name: &str| of(since, name).unwrap_or(0.0) / seconds;
    let info = now.iter().find(|(key, _)| key.name == "hearth_info");
    let done = operations(since);
    let fsync = done.get("fsync").filter(|row| row.count > 0.0);
    let store = of(now, "hearth_store_dirty_bytes").map(|dirty| Store {
        dirty,
        commits: [rate("hearth_commits_total"), value("hearth_commits_total")],
        fsync: fsync.map(|row| row.sum / row.count),
        room: of(now, "hearth_store_size_bytes")
            .map(|size| [size, value("hearth_store_free_bytes")]),
    });
    Volume {
        labels: info.map_or_else(BTreeMap::new, |(key, _)| key.labels.clone()),
        ops_per_second: done.values().map(|row| row.count).sum::<f64>() / seconds,
        read_only: value("hearth_read_only") > 0.0,
        silent: value("hearth_disk_silent_seconds"),
        file_locks: value("hearth_lock_waiters"),
        inodes: [value("hearth_inodes"), value("hearth_inodes_in_memory")],
        bytes: [value("hearth_page_bytes"), value("hearth_resident_bytes")],
        traffic: [
            rate("hearth_home_loads_total"),
            rate("hearth_reclaimed_objects_total"),
        ],
        panics: value("hearth_panics_total"),
        store,
    }
}

/// The rows of a table.
pub fn grid(volume: &Volume) -> Grid {
    let mut rows = Vec::new();
    let mut row = |what: &str, value: String, tone| {
        rows.push(vec![Cell::text(what), Cell::text(value).toned(tone)]);
    };
    if let Some(store) = &volume.store {
        row("dirty", number::bytes(store.dirty), Tone::Plain);
        let [now, ever] = store.commits.map(number::rate);
        let commits = format!("{now}/s, {ever} since the mount");
        row("commits", commits, Tone::Plain);
        let fsync = store.fsync.map_or("-".to_owned(), number::time);
        row("fsync, mean", fsync, Tone::Plain);
        if let Some([size, free]) = store.room {
            let text = format!("{} of {}", number::bytes(free), number::bytes(size));
            row("free on its disk", text, room_tone(size, free));
        }
        let silent = match volume.silent {
            0.0 => ("answers".to_owned(), Tone::Plain),
            s => (format!("silent for {}", number::time(s)), Tone::Bad),
        };
        row("disk", silent.0, silent.1);
    }
    if let Some(below) = volume.labels.get("below") {
        row("host directory", printable(below), Tone::Plain);
    }
    let state = match volume.read_only {
        true => ("refused: the volume is read-only", Tone::Bad),
        false => ("taken", Tone::Plain),
    };
    row("changes", state.0.to_owned(), state.1);
    let of_whom = match volume.of_filesystem_below() {
        true => " of its whole filesystem",
        false => "",
    };
    let [inodes, near] = volume.inodes.map(number::count);
    let text = format!("{inodes}{of_whom}, {near} in memory");
    row("inodes", text, Tone::Plain);
    let [contents, resident] = volume.bytes.map(number::bytes);
    row("file contents", format!("{contents}{of_whom}"), Tone::Plain);
    if volume.store.is_some() {
        row("kept in memory", resident, Tone::Plain);
        let [loads, gone] = volume.traffic.map(number::rate);
        let traffic = format!("{loads}/s in, {gone}/s out");
        row("objects", traffic, Tone::Plain);
    }
    if volume.panics > 0.0 {
        row("panics", number::count(volume.panics), Tone::Bad);
    }
    let labels = volume.labels.iter().filter(|(name, _)| *name != "below");
    for (name, value) in labels {
        row(&name.replace('_', " "), printable(value), Tone::Plain);
    }
    Grid {
        columns: COLUMNS,
        rows,
    }
}

fn room_tone(size: f64, free: f64) -> Tone {
    match free / size {
        part if part < 0.02 => Tone::Bad,
        part if part < 0.1 => Tone::Warn,
        _ => Tone::Plain,
    }
}

/// The volume as an object; `store` is null where there is none.
pub fn object(volume: &Volume) -> Value {
    let store = volume.store.map(|s| {
        json!({
            "dirty_bytes": json_number(s.dirty),
            "commits_per_second": s.commits[0],
            "commits": json_number(s.commits[1]),
            "fsync_mean_seconds": s.fsync,
            "size_bytes": s.room.map(|room| json_number(room[0])),
            "free_bytes": s.room.map(|room| json_number(room[1])),
            "disk_silent_seconds": json_number(volume.silent),
        })
    });
    let labels = volume.labels.iter();
    let labels = labels.map(|(name, value)| (name.clone(), Value::from(&**value)));
    json!({
        "info": labels.collect::<Map<_, _>>(),
        "ops_per_second": volume.ops_per_second,
        "read_only": volume.read_only,
        "file_lock_waiters": json_number(volume.file_locks),
        "inodes": json_number(volume.inodes[0]),
        "inodes_in_memory": json_number(volume.inodes[1]),
        "contents_bytes": json_number(volume.bytes[0]),
        "of_filesystem_below": volume.of_filesystem_below(),
        "resident_bytes": json_number(volume.bytes[1]),
        "panics": json_number(volume.panics),
        "store": store,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "hearth_info{version=\"1\",transport=\"dev\"} 1\n\
        # TYPE hearth_commits_total counter\nhearth_commits_total 12\n\
        hearth_store_dirty_bytes 2048\nhearth_store_size_bytes 1000\nhearth_store_free_bytes 50\n\
        hearth_disk_silent_seconds 9\nhearth_inodes 7\n";

    fn value(grid: &Grid, what: &str) -> Option<Cell> {
        let named = |row: &&Vec<Cell>| row[0] == Cell::text(what);
        grid.rows.iter().find(named).map(|row| row[1].clone())
    }

    #[test]
    fn a_store_tells_what_it_has_to_write_and_its_room() {
        let now = Samples::parse(STORE);
        let before = Samples::parse(&STORE.replace("total 12", "total 2"));
        let volume = between(&now.since(&before), &now, 2.0);
        assert_eq!(volume.store.unwrap().commits, [5.0, 12.0]);
        let grid = grid(&volume);
        assert_eq!(value(&grid, "dirty"), Some(Cell::text("2.0K")));
        let room = Cell::text("50 of 1000").toned(Tone::Warn);
        assert_eq!(value(&grid, "free on its disk"), Some(room));
        let silent = Cell::text("silent for 9.0s").toned(Tone::Bad);
        assert_eq!(value(&grid, "disk"), Some(silent));
        assert_eq!(value(&grid, "transport"), Some(Cell::text("dev")));
        assert_eq!(object(&volume)["store"]["commits"], 12);
    }

    #[test]
    fn another_volume_has_no_store() {
        let now = Samples::parse("hearth_inodes 7\nhearth_read_only 1\n");
        let volume = between(&now, &now, 1.0);
        assert_eq!(volume.store, None);
        let grid = grid(&volume);
        assert_eq!(value(&grid, "dirty"), None);
        assert_eq!(value(&grid, "changes").unwrap().tone, Tone::Bad);
        assert_eq!(object(&volume)["store"], Value::Null);
    }
}
