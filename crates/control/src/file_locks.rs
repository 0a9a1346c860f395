//! `.hearth/file-locks.json`: who holds which file lock, and who waits for whom.

use crate::hex::hex;
use hearth::{FileLockRow, LockKind, LockRequest, Volume};
use serde_json::{Value, json};

/// Locks that are listed at most.
const MOST: usize = 10_000;

/// One object: the locks, and how many more there are.
pub(crate) fn text(volume: &Volume) -> String {
    let report = match volume.file_locks(MOST) {
        Ok(report) => report,
        Err(errno) => return format!("{}\n", json!({ "error": errno.to_string() })),
    };
    let rows: Vec<String> = report
        .rows
        .iter()
        .map(|row| row_of(row).to_string())
        .collect();
    let rows = match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}\n", rows.join(",\n")),
    };
    format!("{{\"left_out\":{},\"locks\":[{rows}]}}\n", report.left_out)
}

fn row_of(row: &FileLockRow) -> Value {
    let lock = &row.listed.lock;
    let mut value = json!({
        "ino": row.ino,
        "path": row.path.as_deref().map(String::from_utf8_lossy),
        "type": kind_of(lock),
        "mode": mode_of(lock),
        "start": lock.start,
        "end": end_of(lock),
        "pid": pid_of(lock),
        "owner": format!("{:x}", lock.owner),
        "state": if row.listed.waits_for.is_some() { "waiting" } else { "held" },
    });
    if let Some(path) = &row.path
        && std::str::from_utf8(path).is_err()
    {
        value["path_hex"] = json!(hex(path));
    }
    if let Some(held) = &row.listed.waits_for {
        let held = held.iter().map(|lock| {
            json!({
                "pid": pid_of(lock),
                "owner": format!("{:x}", lock.owner),
                "mode": mode_of(lock),
                "start": lock.start,
                "end": end_of(lock),
            })
        });
        value["waits_for"] = held.collect();
    }
    value
}

/// As lslocks(8) calls it. A kernel in front does not tell which of its record locks are those of
/// an open file description.
fn kind_of(lock: &LockRequest) -> &'static str {
    match (lock.flock, lock.pid) {
        (true, _) => "FLOCK",
        (false, LockRequest::OFD_PID) => "OFDLCK",
        (false, _) => "POSIX",
    }
}

fn mode_of(lock: &LockRequest) -> &'static str {
    match lock.kind {
        LockKind::Read => "READ",
        LockKind::Write => "WRITE",
        LockKind::Unlock => "UNLOCK",
    }
}

/// The last byte; `None` for a lock to the end of the file, however long it grows.
fn end_of(lock: &LockRequest) -> Option<u64> {
    (lock.end != LockRequest::EOF).then_some(lock.end)
}

fn pid_of(lock: &LockRequest) -> Option<u32> {
    (lock.pid != LockRequest::OFD_PID).then_some(lock.pid)
}
