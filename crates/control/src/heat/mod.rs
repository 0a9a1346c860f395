//! Heat as JSON: the reports in `/.hearth/heat`, and the answers of `.hearth/ask`.

mod lines;
mod parse;

pub use lines::export_text;
pub use parse::{BadLine, bad_lines};

use hearth::heat::{
    Band, DirectoryHeat, FileHeat, HOT_FROM, Heat, HeatRank, HeatStats, HeatTenant, PathInfo,
    RangeHeat, WARM_FROM,
};
use hearth::{ControlError, Errno, QuotaId, Result, Time, Volume};
use lines::path_fields;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// Default number of rows of a report.
const ROWS: usize = 100;
/// Default numbers of files of a map, and of cells of each.
const FILES: usize = 40;
pub(crate) const CELLS: usize = 64;
/// Most lines that the refusal of an import names.
const BAD_LINES: usize = 20;
/// Sizes of a fast tier in percent of the bytes with records.
const CURVE: [u64; 9] = [1, 2, 5, 10, 20, 30, 50, 75, 100];

/// What [`Heat::counts`] says where each access is seen.
const EVERY_ACCESS: &str = "accesses";

/// What a ranking lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    File,
    Range,
    Directory,
    User,
    Group,
    Project,
}

pub(crate) fn top_text(volume: &Volume) -> String {
    lines(top(volume.heat(), By::File, HeatRank::Accesses, ROWS, None))
}

pub(crate) fn ranges_text(volume: &Volume) -> String {
    lines(top(
        volume.heat(),
        By::Range,
        HeatRank::Accesses,
        ROWS,
        None,
    ))
}

pub(crate) fn tenants_text(volume: &Volume) -> String {
    let kinds = [By::User, By::Group, By::Project];
    // All: a reader sums up those that it has no row for, and their table has a bound.
    let of = |by| top(volume.heat(), by, HeatRank::Accesses, usize::MAX, None);
    let all: Result<Vec<Vec<Value>>> = kinds.into_iter().map(of).collect();
    lines(all.map(|all| all.concat()))
}

pub(crate) fn map_text(volume: &Volume) -> String {
    lines(map(volume.heat(), FILES, CELLS))
}

pub(crate) fn histogram_text(volume: &Volume) -> String {
    format!("{}\n", histogram(volume))
}

pub(crate) fn what_if_text(volume: &Volume) -> String {
    format!("{}\n", what_if(volume.heat(), &[]))
}

/// The state of heat tracking.
pub(crate) fn status_text(volume: &Volume) -> String {
    let heat = volume.heat();
    let gauges = heat.gauges();
    let status = json!({
        "on": gauges.on,
        "counts": heat.counts(),
        "update_interval_s": heat.interval(),
        "memory_limit_mib": heat.memory(),
        "files": gauges.files,
        "ranges": gauges.ranges,
        "record_bytes": gauges.record_bytes,
        "core_bytes": gauges.core_bytes,
        "tenant_bytes": gauges.tenant_bytes,
        "recorded": gauges.recorded,
        "accesses": gauges.accesses,
        "dropped": gauges.dropped,
        "warm_from": WARM_FROM,
        "hot_from": HOT_FROM,
        "half_lives_s": heat.half_lives(),
    });
    format!("{status}\n")
}

/// The text of the import file before a write.
pub(crate) fn import_hint(_volume: &Volume) -> String {
    "Write lines of 'heat export', then the line 'end', and read on in the same open file.\n"
        .to_owned()
}

/// Takes the lines of an export, all or none.
pub(crate) fn import(volume: &Volume, text: &str) -> std::result::Result<String, ControlError> {
    match parse::records(text) {
        Ok(records) => {
            let done = volume.heat().import(&records);
            let done = json!({ "records": done.records, "absent": done.absent });
            Ok(format!("{done}\n"))
        }
        Err(bad) => {
            let all = bad.len();
            let shown = bad.iter().take(BAD_LINES);
            let shown: Vec<String> = shown
                .map(|bad| format!("line {}: {}", bad.line, bad.reason))
                .collect();
            let more = match all > BAD_LINES {
                true => format!("; and {} more lines", all - BAD_LINES),
                false => String::new(),
            };
            let shown = shown.join("; ");
            Err(ControlError::invalid(format!(
                "nothing was imported: {shown}{more}"
            )))
        }
    }
}

/// One object a line; null if the backend failed.
pub(crate) fn lines(rows: Result<Vec<Value>>) -> String {
    let Ok(rows) = rows else {
        return "null\n".to_owned();
    };
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    match rows.is_empty() {
        true => "[]\n".to_owned(),
        false => format!("[\n{}\n]\n", rows.join(",\n")),
    }
}

/// The hottest, hottest first.
pub(crate) fn top(
    heat: Heat<'_>,
    by: By,
    rank: HeatRank,
    most: usize,
    since: Option<Duration>,
) -> Result<Vec<Value>> {
    let mut rows = ranked(heat, by, rank, most, since)?;
    rows.iter_mut().for_each(|row| say_counts(heat, row));
    Ok(rows)
}

/// Where not every access is counted, each row says what is.
fn say_counts(heat: Heat<'_>, row: &mut Value) {
    if heat.counts() != EVERY_ACCESS
        && let Value::Object(fields) = row
    {
        set(fields, "counts", heat.counts());
    }
}

fn ranked(
    heat: Heat<'_>,
    by: By,
    rank: HeatRank,
    most: usize,
    since: Option<Duration>,
) -> Result<Vec<Value>> {
    match by {
        By::File => {
            let files = heat.top_files(rank, most, since);
            let names = heat.paths(&inodes(files.iter().map(|file| file.ino)))?;
            // What has no entry has ended meanwhile.
            let files = files.iter().filter(|row| names.contains_key(&row.ino));
            Ok(files
                .map(|row| file(row, &names))
                .map(Value::Object)
                .collect())
        }
        By::Range => {
            let ranges = heat.top_ranges(rank, most, since);
            let names = heat.paths(&inodes(ranges.iter().map(|range| range.ino)))?;
            let ranges = ranges.iter().filter(|row| names.contains_key(&row.ino));
            Ok(ranges.map(|row| range(row, &names)).collect())
        }
        By::Directory => {
            let rows = heat.top_directories(rank, most, since)?;
            let row = |row: &DirectoryHeat| {
                let mut fields = warm(&row.stats);
                match &row.path {
                    Some(path) => path_fields(&mut fields, path),
                    None => set(&mut fields, "path", Value::Null),
                }
                set(&mut fields, "deleted", row.path.is_none());
                set(&mut fields, "files", row.files);
                Value::Object(fields)
            };
            Ok(rows.iter().map(row).collect())
        }
        By::User | By::Group | By::Project => Ok(tenants(heat, by, rank, most, since)),
    }
}

/// One file with a strip of `cells` temperatures; `Null` fields where nothing is recorded.
pub(crate) fn info(heat: Heat<'_>, ino: u64, cells: usize) -> Result<Value> {
    let known = match heat.file(ino) {
        Err(Errno::ENODATA) => None,
        known => Some(known?),
    };
    let names = heat.paths(&[ino])?;
    let row = known.unwrap_or(FileHeat {
        ino,
        stats: HeatStats::default(),
        ranges: 0,
    });
    let mut fields = file(&row, &names);
    strip(heat, &mut fields, ino, &names, cells);
    set(&mut fields, "recorded", row.stats != HeatStats::default());
    let mut row = Value::Object(fields);
    say_counts(heat, &mut row);
    Ok(row)
}

/// Every range of one file that has a record.
pub(crate) fn ranges_of(heat: Heat<'_>, ino: u64) -> Result<Vec<Value>> {
    let ranges = heat.ranges(ino)?;
    let names = heat.paths(&[ino])?;
    Ok(ranges.iter().map(|row| range(row, &names)).collect())
}

/// The hottest files, each with a strip of `cells` temperatures.
pub(crate) fn map(heat: Heat<'_>, most: usize, cells: usize) -> Result<Vec<Value>> {
    let files = heat.top_files(HeatRank::Accesses, most, None);
    let names = heat.paths(&inodes(files.iter().map(|file| file.ino)))?;
    let row = |row: &FileHeat| {
        let mut fields = file(row, &names);
        strip(heat, &mut fields, row.ino, &names, cells);
        let mut row = Value::Object(fields);
        say_counts(heat, &mut row);
        row
    };
    Ok(files.iter().map(row).collect())
}

/// Bytes by temperature, and all allocated bytes; null where they are not known.
pub(crate) fn histogram(volume: &Volume) -> Value {
    let buckets = volume.heat().bytes_by_bucket();
    let of = |grade| -> u64 {
        let bytes = (0..=u8::MAX).zip(&buckets);
        let of_grade = bytes.filter(|(bucket, _)| Band::of_bucket(*bucket) == grade);
        of_grade.map(|(_, bytes)| bytes).sum()
    };
    // Over a directory of the host without quotas nobody counts what its files take.
    let usage = volume.quota().get(QuotaId::VOLUME).ok();
    let allocated = usage.map(|usage| usage.bytes.used);
    let mut bytes = json!({
        "on": volume.heat().is_on(),
        "warm_from": WARM_FROM,
        "hot_from": HOT_FROM,
        "cold": of(Band::Cold),
        "warm": of(Band::Warm),
        "hot": of(Band::Hot),
        "allocated": allocated,
        "bytes_by_bucket": buckets,
    });
    say_counts(volume.heat(), &mut bytes);
    bytes
}

/// Shares that fast tiers would have served: of `asked` bytes, and of some sizes up to everything.
pub(crate) fn what_if(heat: Heat<'_>, asked: &[u64]) -> Value {
    let recorded = heat.what_if(&[]).recorded_bytes;
    // Whole ranges, since a part of one serves nothing.
    let part = |percent| recorded.saturating_mul(percent).div_ceil(100 << 20) << 20;
    let mut sizes: Vec<u64> = CURVE.map(part).to_vec();
    sizes.extend(asked);
    sizes.sort_unstable();
    sizes.dedup();
    let curve = heat.what_if(&sizes);
    let points: Vec<Value> = curve
        .points
        .iter()
        .map(|point| {
            json!({
                "bytes": point.bytes,
                "reads": point.reads,
                "writes": point.writes,
                "asked": asked.contains(&point.bytes),
            })
        })
        .collect();
    let mut shares = json!({
        "recorded_bytes": curve.recorded_bytes,
        "half_life_s": curve.half_life.as_secs(),
        "points": points,
    });
    say_counts(heat, &mut shares);
    shares
}

fn tenants(
    heat: Heat<'_>,
    by: By,
    rank: HeatRank,
    most: usize,
    since: Option<Duration>,
) -> Vec<Value> {
    let since = since.map_or(0, |since| {
        let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        heat.time().nanos().saturating_sub(since)
    });
    let used = |warm: &HeatStats| warm.last_read.max(warm.last_write).map_or(0, Time::nanos);
    let rows = heat.tenants(rank).into_iter();
    let rows = rows.filter(|row| used(&row.stats) >= since);
    let of_kind = rows.filter_map(|row| {
        let (kind, id) = match (row.tenant, by) {
            (HeatTenant::User(id), By::User) => ("user", id),
            (HeatTenant::Group(id), By::Group) => ("group", id),
            (HeatTenant::Project(id), By::Project) => ("project", id),
            _ => return None,
        };
        let mut fields = warm(&row.stats);
        set(&mut fields, "path", Value::Null);
        set(&mut fields, "kind", kind);
        set(&mut fields, "id", id);
        Some(Value::Object(fields))
    });
    of_kind.take(most).collect()
}

fn file(row: &FileHeat, names: &HashMap<u64, PathInfo>) -> Map<String, Value> {
    let mut fields = warm(&row.stats);
    place(&mut fields, row.ino, names);
    set(&mut fields, "ranges", row.ranges);
    fields
}

fn range(row: &RangeHeat, names: &HashMap<u64, PathInfo>) -> Value {
    let mut fields = warm(&row.stats);
    place(&mut fields, row.ino, names);
    set(&mut fields, "start", row.start);
    set(&mut fields, "len", row.len);
    Value::Object(fields)
}

fn place(fields: &mut Map<String, Value>, ino: u64, names: &HashMap<u64, PathInfo>) {
    let unknown = PathInfo::default();
    let names = names.get(&ino).unwrap_or(&unknown);
    match &names.path {
        Some(path) => path_fields(fields, path),
        None => set(fields, "path", Value::Null),
    }
    set(fields, "deleted", names.links == 0);
    set(fields, "ino", ino);
    set(fields, "links", names.links);
    set(fields, "uid", names.uid);
    set(fields, "gid", names.gid);
    set(fields, "size", names.size);
}

/// Cells of equal length over the whole file, each as hot as its hottest range; null where nothing
/// is recorded.
fn strip(
    heat: Heat<'_>,
    fields: &mut Map<String, Value>,
    ino: u64,
    names: &HashMap<u64, PathInfo>,
    cells: usize,
) {
    let ranges = heat.ranges(ino).unwrap_or_default();
    let size = names.get(&ino).map_or(0, |names| names.size);
    let end = ranges.last().map_or(0, |last| last.start + last.len);
    let len = ranges.first().map_or(1 << 20, |range| range.len);
    let count = size.max(end).div_ceil(len).max(1);
    let each = count.div_ceil(cells.max(1) as u64);
    let mut hottest: Vec<Option<f64>> = vec![None; count.div_ceil(each) as usize];
    for range in &ranges {
        let cell = &mut hottest[(range.start / len / each) as usize];
        let temperature = rounded(range.stats.temperature);
        *cell = Some(cell.map_or(temperature, |was| was.max(temperature)));
    }
    set(fields, "cell_bytes", each * len);
    set(fields, "cells", hottest);
}

fn warm(warm: &HeatStats) -> Map<String, Value> {
    let mut fields = Map::new();
    set(&mut fields, "temperature", rounded(warm.temperature));
    set(&mut fields, "grade", Band::of(warm.temperature).name());
    set(&mut fields, "bucket", warm.bucket);
    set(&mut fields, "reads", warm.reads);
    set(&mut fields, "writes", warm.writes);
    let bytes = warm.read_bytes.saturating_add(warm.written_bytes);
    set(&mut fields, "bytes", bytes);
    set(&mut fields, "read_bytes", warm.read_bytes);
    set(&mut fields, "written_bytes", warm.written_bytes);
    set(&mut fields, "sampled", warm.estimated > 0);
    set(&mut fields, "estimated", warm.estimated);
    set(&mut fields, "loads", warm.loads);
    set(&mut fields, "reads_per_second", warm.reads_per_second);
    set(&mut fields, "writes_per_second", warm.writes_per_second);
    set(&mut fields, "bytes_per_second", warm.bytes_per_second);
    let seconds = |time: Option<Time>| time.map(|time| time.nanos() as f64 / 1e9);
    set(&mut fields, "last_read", seconds(warm.last_read));
    set(&mut fields, "last_write", seconds(warm.last_write));
    let last = warm.last_read.max(warm.last_write);
    set(&mut fields, "last_access", seconds(last));
    fields
}

fn set(fields: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    fields.insert(name.to_owned(), value.into());
}

/// Two digits are what a temperature is worth.
fn rounded(temperature: f64) -> f64 {
    (temperature * 100.0).round() / 100.0
}

fn inodes(each: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut inodes: Vec<u64> = each.collect();
    inodes.sort_unstable();
    inodes.dedup();
    inodes
}
