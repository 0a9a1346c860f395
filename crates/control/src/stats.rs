//! `.hearth/stats`: the volume's counters as Prometheus text (exposition format 0.0.4).

use hearth::{BLOCK, BUCKETS, Call, Event, Op, Volume};
use std::fmt::Write;

pub(crate) fn text(volume: &Volume) -> String {
    let mut out = String::with_capacity(16 << 10);
    // Writing to a string cannot fail.
    let _ = write_all(volume, &mut out);
    out
}

fn write_all(volume: &Volume, out: &mut String) -> std::fmt::Result {
    head(
        out,
        "hearth_info",
        "gauge",
        "What serves this volume, always 1.",
    )?;
    write!(
        out,
        "hearth_info{{version=\"{}\"",
        env!("CARGO_PKG_VERSION")
    )?;
    for (key, value) in volume.stats().info() {
        let value = match key {
            "passthrough" if value == "on" => not_passed(volume).unwrap_or("on"),
            _ => &value,
        };
        write!(out, ",{key}=\"{}\"", escape(value))?;
    }
    writeln!(out, "}} 1")?;
    operations(volume, out)?;
    calls(volume, out)?;
    rates(volume, out)?;
    events(volume, out)?;
    objects(volume, out)?;
    store(volume, out)?;
    heat(volume, out)
}

/// Why a kernel that could read and write the files below by itself has to ask all the same, as of
/// now: heat is switched while a mount is in use.
fn not_passed(volume: &Volume) -> Option<&'static str> {
    let keeps_quotas = volume.quota().is_kept().is_ok();
    let heat = volume.heat();
    let by_range = heat.is_on() && heat.counts() == "accesses";
    match (keeps_quotas, by_range) {
        (true, _) => Some("quotas have to see what is written; quota=off leaves them out"),
        (_, true) => Some("heat by range has to see the data; heat=opens does not"),
        _ => None,
    }
}

fn operations(volume: &Volume, out: &mut String) -> std::fmt::Result {
    let sums: Vec<_> = Op::ALL
        .iter()
        .map(|&op| (op, volume.stats().op(op)))
        .collect();
    let seen = || sums.iter().filter(|(_, sum)| sum.count > 0);
    head(
        out,
        "hearth_op_errors_total",
        "counter",
        "Operations that returned an error.",
    )?;
    for (op, sum) in seen() {
        writeln!(
            out,
            "hearth_op_errors_total{{op=\"{}\"}} {}",
            op.name(),
            sum.errors
        )?;
    }
    head(
        out,
        "hearth_op_seconds",
        "histogram",
        "Time from request to reply.",
    )?;
    for (op, sum) in seen() {
        let mut below = 0;
        for (bucket, count) in sum.buckets.iter().enumerate().take(BUCKETS - 1) {
            below += count;
            let bound = (1u64 << (bucket + 8)) as f64 / 1e9;
            writeln!(
                out,
                "hearth_op_seconds_bucket{{op=\"{}\",le=\"{bound}\"}} {below}",
                op.name()
            )?;
        }
        let name = op.name();
        writeln!(
            out,
            "hearth_op_seconds_bucket{{op=\"{name}\",le=\"+Inf\"}} {}",
            sum.count
        )?;
        writeln!(
            out,
            "hearth_op_seconds_sum{{op=\"{name}\"}} {}",
            sum.ns as f64 / 1e9
        )?;
        writeln!(
            out,
            "hearth_op_seconds_count{{op=\"{name}\"}} {}",
            sum.count
        )?;
    }
    Ok(())
}

/// Calls of the library, in families of their own beside the operations of front ends.
fn calls(volume: &Volume, out: &mut String) -> std::fmt::Result {
    let sums = Call::ALL
        .iter()
        .map(|&call| (call, volume.stats().call(call)));
    let seen: Vec<_> = sums.filter(|(_, sum)| sum.count > 0).collect();
    let name = "hearth_library_ops_total";
    head(
        out,
        name,
        "counter",
        "Calls of programs that use the library.",
    )?;
    for (call, sum) in &seen {
        writeln!(out, "{name}{{op=\"{}\"}} {}", call.name(), sum.count)?;
    }
    let name = "hearth_library_op_errors_total";
    head(out, name, "counter", "Calls that returned an error.")?;
    for (call, sum) in &seen {
        writeln!(out, "{name}{{op=\"{}\"}} {}", call.name(), sum.errors)?;
    }
    Ok(())
}

fn rates(volume: &Volume, out: &mut String) -> std::fmt::Result {
    let help = "Operations per second, averaged as /proc/loadavg does.";
    head(out, "hearth_ops_per_second", "gauge", help)?;
    for (window, rate) in volume.stats().ops_per_second() {
        writeln!(
            out,
            "hearth_ops_per_second{{window=\"{window}\"}} {rate:.2}"
        )?;
    }
    Ok(())
}

fn events(volume: &Volume, out: &mut String) -> std::fmt::Result {
    for &event in Event::ALL {
        let name = format!("hearth_{}_total", event.name());
        head(out, &name, "counter", event.help())?;
        writeln!(out, "{name} {}", volume.stats().events(event))?;
    }
    Ok(())
}

fn objects(volume: &Volume, out: &mut String) -> std::fmt::Result {
    let held = volume.gauges();
    let gauges = [
        (
            "hearth_inodes",
            held.inodes,
            "Inodes of the volume; over a host directory without quotas those of its whole \
             filesystem.",
        ),
        (
            "hearth_inodes_in_memory",
            held.inodes_in_memory,
            "Inodes in memory.",
        ),
        (
            "hearth_inode_bytes",
            held.inode_bytes,
            "Bytes of inodes in memory, without what a core, attributes and contents add.",
        ),
        (
            "hearth_inode_table_bytes",
            held.inode_table_bytes,
            "Bytes of the blocks of memory in which inodes lie, also where few of a block's are \
             left.",
        ),
        (
            "hearth_dentries",
            held.dentries,
            "Names of directories in memory.",
        ),
        (
            "hearth_dentry_bytes",
            held.dentry_bytes,
            "Bytes of these names and of the tables that find them.",
        ),
        (
            "hearth_pages",
            held.page_bytes / BLOCK,
            "Allocated pages of file contents.",
        ),
        (
            "hearth_page_bytes",
            held.page_bytes,
            "Allocated bytes of file contents; over a host directory without quotas those of its \
             whole filesystem.",
        ),
        (
            "hearth_resident_bytes",
            held.budgeted_bytes,
            "Bytes under the budget: what the backend could take back; 0 if it takes nothing.",
        ),
        (
            "hearth_lock_waiters",
            held.lock_waiters,
            "Calls that wait for a lock of a file: flock, fcntl.",
        ),
        (
            "hearth_disk_silent_seconds",
            volume.disk_silent().as_secs(),
            "Seconds for which commits and write-backs have waited for the disk without an answer.",
        ),
        (
            "hearth_read_only",
            u64::from(volume.read_only()),
            "1 if changes are refused.",
        ),
    ];
    for (name, value, help) in gauges {
        head(out, name, "gauge", help)?;
        writeln!(out, "{name} {value}")?;
    }
    Ok(())
}

/// Of a durable volume; others have none of these numbers.
fn store(volume: &Volume, out: &mut String) -> std::fmt::Result {
    let Some(store) = volume.store_gauges() else {
        return Ok(());
    };
    let dirty = Some(store.dirty_bytes);
    let gauges = [
        (
            "hearth_store_dirty_bytes",
            dirty,
            "Bytes that were written and may not have reached the store.",
        ),
        (
            "hearth_store_size_bytes",
            store.room.map(|room| room.0),
            "Bytes of the disk that holds the store.",
        ),
        (
            "hearth_store_free_bytes",
            store.room.map(|room| room.1),
            "Bytes of that disk that are free.",
        ),
    ];
    for (name, value, help) in gauges {
        if let Some(value) = value {
            head(out, name, "gauge", help)?;
            writeln!(out, "{name} {value}")?;
        }
    }
    Ok(())
}

/// Degrees of one bar of the histogram of heat.
const BAR: usize = 10;

fn heat(volume: &Volume, out: &mut String) -> std::fmt::Result {
    let gauges = volume.heat().gauges();
    let values = [
        (
            "hearth_heat_on",
            "gauge",
            u64::from(gauges.on),
            "1 if accesses are recorded.",
        ),
        (
            "hearth_heat_record_bytes",
            "gauge",
            gauges.record_bytes,
            "Memory of the records, what hot-mem-high-thresh bounds.",
        ),
        (
            "hearth_heat_core_bytes",
            "gauge",
            gauges.core_bytes,
            "Memory of the fixed parts per sb.",
        ),
        (
            "hearth_heat_tenant_bytes",
            "gauge",
            gauges.tenant_bytes,
            "Memory of the sums of users, groups and projects.",
        ),
        (
            "hearth_heat_recorded_total",
            "counter",
            gauges.recorded,
            "Accesses that were recorded, each range of one for itself.",
        ),
        (
            "hearth_heat_accesses_total",
            "counter",
            gauges.accesses,
            "What the recorded ones stand for, more of them where they are a sample.",
        ),
        (
            "hearth_heat_dropped_total",
            "counter",
            gauges.dropped,
            "Accesses that were not recorded because a ring was full.",
        ),
        (
            "hearth_heat_folds_total",
            "counter",
            gauges.drains,
            "Times that counts of the cores went to the records.",
        ),
    ];
    for (name, kind, value, help) in values {
        head(out, name, kind, help)?;
        writeln!(out, "{name} {value}")?;
    }
    let items = "Files and ranges with a record, by temperature as of the last pass, which also \
                 finds those that have ended.";
    head(out, "hearth_heat_items", "gauge", items)?;
    for (kind, buckets) in [
        ("file", &gauges.file_buckets),
        ("range", &gauges.range_buckets),
    ] {
        let mut bars = [0; 100 / BAR];
        for (bucket, count) in buckets.iter().enumerate() {
            bars[bucket * 100 / buckets.len() / BAR] += count;
        }
        for (bar, count) in bars.into_iter().enumerate() {
            let (from, below) = (bar * BAR, (bar + 1) * BAR);
            writeln!(
                out,
                "hearth_heat_items{{kind=\"{kind}\",degrees=\"{from}-{below}\"}} {count}"
            )?;
        }
    }
    Ok(())
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
