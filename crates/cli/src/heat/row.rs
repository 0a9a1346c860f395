//! Fields of the objects that a volume returns.

use crate::printable::printable;
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A number; 0 if it is not there.
pub fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or(0.0)
}

/// A count; 0 if it is not there.
pub fn count(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or(0)
}

/// A count of accesses, with `~` before one that is the estimate of a sample.
pub fn accesses(row: &Value, name: &str) -> String {
    let sign = if is_sampled(row) { "~" } else { "" };
    format!("{sign}{}", count(row, name))
}

/// Whether the counts are estimates of a sample.
pub fn is_sampled(row: &Value) -> bool {
    row["sampled"].as_bool() == Some(true)
}

/// The word for the temperature.
pub fn grade(row: &Value) -> &str {
    row["grade"].as_str().unwrap_or("")
}

/// Temperatures along a file.
pub fn cells(row: &Value) -> Vec<Option<f64>> {
    let cells = row["cells"].as_array();
    cells.map_or(Vec::new(), |cells| {
        cells.iter().map(Value::as_f64).collect()
    })
}

/// Rows as JSON, an object a line.
pub fn list(rows: &[Value]) -> String {
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    match rows.is_empty() {
        true => "[]\n".to_owned(),
        false => format!("[\n{}\n]\n", rows.join(",\n")),
    }
}

/// Where it is for people: the path on the mount, with the number of its other names.
pub fn shown_path(mount: &Path, row: &Value) -> String {
    match row["path"].as_str() {
        Some(path) => {
            let path = below(mount, path).display().to_string();
            let path = printable(&path);
            match count(row, "links") {
                links if links > 1 => format!("{path} (1 of {links} links)"),
                _ => path,
            }
        }
        None if row["ino"].is_u64() => {
            format!("(deleted, still open) inode {}", count(row, "ino"))
        }
        None => "(deleted, still open)".to_owned(),
    }
}

/// `path`, which begins at the root of the volume, below the mount point.
pub fn below(mount: &Path, path: impl AsRef<OsStr>) -> PathBuf {
    let below = path.as_ref().as_bytes();
    let first = below.iter().position(|&byte| byte != b'/');
    match first {
        None => mount.to_owned(),
        Some(first) => mount.join(OsStr::from_bytes(&below[first..])),
    }
}

/// Rewrites the path of a row to that on the mount.
pub fn on_mount(mount: &Path, row: &mut Value) {
    let bytes = match row["path_hex"].as_str() {
        Some(hex) => bytes_of_hex(hex),
        None => row["path"].as_str().map(|path| path.as_bytes().to_vec()),
    };
    let Some(bytes) = bytes else { return };
    set_path(row, &below(mount, OsStr::from_bytes(&bytes)));
}

/// Gives a row this path, byte by byte as well where it is no text.
pub fn set_path(row: &mut Value, path: &Path) {
    row["path"] = Value::from(path.to_string_lossy());
    let Some(row) = row.as_object_mut() else {
        return;
    };
    row.remove("path_hex");
    if path.to_str().is_none() {
        let digits = path.as_os_str().as_bytes().iter();
        let hex: String = digits.map(|byte| format!("{byte:02x}")).collect();
        row.insert("path_hex".to_owned(), Value::from(hex));
    }
}

fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect()
}
