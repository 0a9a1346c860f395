//! `hearth locks --files`: file locks in the columns of lslocks(8), which does not see those of a
//! FUSE mount.

use crate::failure::Failure;
use crate::mounted_info::labels;
use crate::printable::printable;
use crate::wrong_place::unreached;
use crate::{control_file, output};
use serde_json::Value;
use std::path::Path;

/// The columns of lslocks(8), but `SIZE` and `M`.
const COLUMNS: [&str; 8] = [
    "COMMAND", "PID", "TYPE", "MODE", "START", "END", "BLOCKER", "PATH",
];

/// Prints who holds which file lock, and who waits.
pub fn run(mount: &Path, json: bool) -> Result<(), Failure> {
    if let Some(how) = of_the_kernel(mount)? {
        let what = format!("{how}; 'lslocks' and /proc/locks show them");
        return Err(Failure::at(mount, what));
    }
    let name = "file-locks.json";
    let denied = "only the owner of the mount and root may see the locks of all; ask them";
    let text =
        control_file::read(mount, name).map_err(|error| unreached(mount, name, &error, denied))?;
    if text.is_empty() {
        return Err(Failure::empty(mount));
    }
    if json {
        return output::print(&text);
    }
    let foreign = || {
        let what = "its daemon writes another form of file locks; use the 'hearth' that mounted it";
        Failure::at(mount, what)
    };
    let report: Value = serde_json::from_str(&text).map_err(|_| foreign())?;
    if let Some(error) = report["error"].as_str() {
        return Err(Failure::at(mount, error));
    }
    let rows = report["locks"].as_array().ok_or_else(foreign)?;
    let left_out = report["left_out"].as_u64().unwrap_or(0);
    let mut table = shown(rows);
    if left_out > 0 {
        table += &format!("and {left_out} more\n");
    }
    output::print(&table)
}

/// Why the daemon does not have the locks, if so.
fn of_the_kernel(mount: &Path) -> Result<Option<&'static str>, Failure> {
    let labels = labels(mount)?;
    let has = |name: &str| {
        let options = labels.get("options").map_or("", String::as_str);
        hearth_fuse::split_options(options).any(|option| option == name)
    };
    Ok(
        match (
            labels.contains_key("below"),
            has("no_open"),
            has("no_flush"),
        ) {
            (true, _, _) => Some("the kernel has the locks of a directory of the host to itself"),
            (_, true, _) => Some("with 'no_open' the kernel has the locks to itself"),
            (_, _, true) => Some("with 'no_flush' the kernel has the locks to itself"),
            _ => None,
        },
    )
}

fn shown(rows: &[Value]) -> String {
    let rows: Vec<[String; 8]> = rows.iter().map(columns).collect();
    let mut widths = COLUMNS.map(str::len);
    for row in &rows {
        for (width, word) in widths.iter_mut().zip(row) {
            *width = (*width).max(word.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(COLUMNS.map(str::to_owned)).chain(rows) {
        let words: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(word, width)| format!("{word:<width$}"))
            .collect();
        text.push_str(words.join(" ").trim_end());
        text.push('\n');
    }
    text
}

fn columns(row: &Value) -> [String; 8] {
    let waits = row["state"] == "waiting";
    let end = match &row["end"] {
        Value::Null => "EOF".to_owned(),
        end => end.to_string(),
    };
    let blockers = row["waits_for"].as_array().map_or(&[][..], Vec::as_slice);
    let mut pids: Vec<String> = blockers.iter().map(pid).collect();
    pids.sort();
    pids.dedup();
    let path = row["path"]
        .as_str()
        .map_or_else(|| format!("(inode {})", row["ino"]), printable);
    let mode = row["mode"].as_str().unwrap_or("?");
    [
        command(&row["pid"]),
        pid(row),
        row["type"].as_str().unwrap_or("?").to_owned(),
        // As lslocks marks who waits.
        format!("{mode}{}", if waits { "*" } else { "" }),
        row["start"].to_string(),
        end,
        pids.join(","),
        path,
    ]
}

fn pid(row: &Value) -> String {
    row["pid"]
        .as_u64()
        .map_or("-1".to_owned(), |pid| pid.to_string())
}

/// The name of the process, if it is there and in this namespace.
fn command(pid: &Value) -> String {
    let name = pid
        .as_u64()
        .and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
    let name = name.unwrap_or_else(|| "(unknown)".to_owned());
    printable(name.trim_end())
}
