//! Fields of the objects that a volume answers.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// A number; 0 if it is not there.
pub fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or(0.0)
}

/// A count; 0 if it is not there.
pub fn count(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or(0)
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

/// Where it is for people: the path on the mount, with the number of its other names.
pub fn shown_path(mount: &Path, row: &Value) -> String {
    match row["path"].as_str() {
        Some(path) => {
            let path = below(mount, path).display().to_string();
            let path = path.replace(|c: char| c.is_control(), "?");
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
pub fn below(mount: &Path, path: &str) -> PathBuf {
    match path.trim_start_matches('/') {
        "" => mount.to_owned(),
        path => mount.join(path),
    }
}

/// Rewrites the path of a row to that on the mount.
pub fn on_mount(mount: &Path, row: &mut Value) {
    if let Some(path) = row["path"].as_str() {
        row["path"] = Value::from(below(mount, path).to_string_lossy());
    }
}
