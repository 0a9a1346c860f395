//! `hearth quota events`.

use super::args::EventsArgs;
use super::question;
use super::record::{foreign, object};
use super::who::with_names;
use crate::failure::Failure;
use crate::moment::iso;
use crate::output;
use hearth_sync::primitive::thread;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// The pause between two questions with `--follow`.
const PACE: Duration = Duration::from_millis(500);

/// Prints the events that are kept, and with `--follow` those that come.
pub fn run(args: &EventsArgs) -> Result<(), Failure> {
    let mut after = args.after;
    loop {
        for event in since(&args.mount, after)? {
            let sequence = event["sequence"].as_u64();
            after = sequence.ok_or_else(|| foreign(&args.mount))?;
            output::print(&match args.json {
                true => format!("{event}\n"),
                false => shown(&event),
            })?;
        }
        if !args.follow {
            return Ok(());
        }
        thread::sleep(PACE);
    }
}

fn since(mount: &Path, after: u64) -> Result<Vec<Value>, Failure> {
    let answer = question(mount, &["events".to_owned(), after.to_string()])?;
    match &mut object(&answer, mount)?["events"] {
        Value::Array(events) => Ok(std::mem::take(events)),
        _ => Err(foreign(mount)),
    }
}

/// `17 2025-11-21T10:13:20Z user:alice soft-crossed until=2025-11-28T10:13:20Z bytes=8192
/// limit=4096`.
fn shown(event: &Value) -> String {
    let word = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let who = match &*word("kind") {
        "volume" => "volume".to_owned(),
        // The owner of a file, whom nobody could tell.
        kind if event["id"].is_null() => format!("{kind}:unknown"),
        kind => with_names(&format!("{kind}:{}", event["id"])),
    };
    let until = match &event["deadline"] {
        Value::Null => String::new(),
        deadline => format!(" until={}", moment(deadline)),
    };
    let times = match event["times"].as_u64() {
        None | Some(1) => String::new(),
        Some(times) => format!(" times={times}"),
    };
    format!(
        "{} {} {who} {}{until}{} {}={} limit={}{times}\n",
        event["sequence"],
        moment(&event["time"]),
        word("what"),
        about_file(event),
        word("resource"),
        event["used"],
        event["limit"],
    )
}

/// ` errno=EDQUOT lost=4096 inode=7 generation=1 path="/a/b"`; nothing for an event that is about
/// no file.
fn about_file(event: &Value) -> String {
    let names = [
        ("errno", "errno"),
        ("lost", "lost"),
        ("uid", "by"),
        ("pid", "pid"),
        ("inode", "inode"),
        ("generation", "generation"),
    ];
    let mut out = String::new();
    for (name, shown) in names {
        match &event[name] {
            Value::Null if name == "lost" && event["what"] == "write-lost" => {
                out += " lost=unknown";
            }
            Value::Null => {}
            Value::String(word) => out += &format!(" {shown}={word}"),
            number => out += &format!(" {shown}={number}"),
        }
    }
    if let Some(path) = event["path"].as_str() {
        out += &format!(" path={path:?}");
    }
    out
}

/// Seconds since 1970 for people.
fn moment(seconds: &Value) -> String {
    seconds.as_i64().map_or_else(|| seconds.to_string(), iso)
}
