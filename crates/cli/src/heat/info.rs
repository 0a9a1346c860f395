//! `hearth heat info`.

use super::palette::Shades;
use super::place::{ask_json, read_json};
use super::row::{accesses, cells, count, grade, number, on_mount, set_path, shown_path};
use super::top::{counted, owner};
use super::units::{ago, bytes, rate};
use crate::failure::Failure;
use crate::output;
use crate::printable::printable_path;
use crate::which::mount_of;
use crate::wrong_place::unseen;
use hearth::QuotaKind;
use serde_json::Value;
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Temperatures along the file: a line of a terminal.
const CELLS: usize = 64;

/// Prints how hot one file is.
pub fn run(path: &Path, json: bool) -> Result<(), Failure> {
    let mount = mount_of(Some(path))?;
    let failed = |error: std::io::Error| unseen(path, &error);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if metadata.is_dir() {
        let what = "is a directory; 'hearth heat top --by dir' ranks directories";
        return Err(Failure::at(path, what));
    }
    let ino = metadata.ino();
    let mut info = ask_json(&mount, &format!("heat info {ino} {CELLS}"))?;
    // The volume knows one of its names; the one that was typed is the one that is meant.
    if let Ok(typed) = path.canonicalize().map_err(failed)?.strip_prefix(&mount) {
        set_path(&mut info, &Path::new("/").join(typed));
    }
    if json {
        on_mount(&mount, &mut info);
        return output::print(&format!("{info}\n"));
    }
    let status = read_json(&mount, "status.json")?;
    output::print(&shown(&mount, &info, &status))
}

fn shown(mount: &Path, info: &Value, status: &Value) -> String {
    let shades = Shades::for_stdout();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0.0, |now| now.as_secs_f64());
    let temperature = number(info, "temperature");
    let mut text = format!("{}\n", shades.bold(&shown_path(mount, info)));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "  temperature  {temperature:>5.1}  {}  {} (warm from {}, hot from {})",
        shades.bar(temperature / 100.0, 20, temperature),
        grade(info),
        number(status, "warm_from"),
        number(status, "hot_from"),
    );
    text.push_str(counted(status));
    if info["recorded"] != Value::Bool(true) {
        let off = match status["on"].as_bool() {
            Some(false) => format!(
                "; tracking is off, 'hearth heat on {}'",
                printable_path(mount)
            ),
            _ => String::new(),
        };
        let _ = writeln!(text, "  nothing is recorded of it{off}");
        return text;
    }
    for (name, verb) in [("reads", "read"), ("writes", "written")] {
        let last = ago(
            info[format!("last_{}", &name[..name.len() - 1])].as_f64(),
            now,
        );
        let last = match &*last {
            "-" => "never".to_owned(),
            "now" => "last just now".to_owned(),
            last => format!("last {last} ago"),
        };
        let _ = writeln!(
            text,
            "  {name:<11}  {:>5}  {:<8} {} {verb}, {last}",
            accesses(info, name),
            rate(number(info, &format!("{name}_per_second"))),
            bytes(number(info, &format!("{verb}_bytes"))),
        );
    }
    let _ = writeln!(
        text,
        "  from below   {:>5}  reads that memory could not answer",
        count(info, "loads")
    );
    let _ = writeln!(
        text,
        "  size         {}, {} of its ranges of 1 MiB with a record; owner {}",
        bytes(number(info, "size")),
        count(info, "ranges"),
        owner(QuotaKind::User, count(info, "uid")),
    );
    let _ = writeln!(
        text,
        "  ranges       |{}|  {} a place",
        shades.strip(&cells(info)),
        bytes(number(info, "cell_bytes")),
    );
    text
}
