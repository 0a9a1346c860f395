//! What a program did to its directory, told at the end.

use crate::heat::bytes;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Rows of a list that are shown to people.
const SHOWN: usize = 5;

/// Prints the account of a server to standard error, which may be closed.
pub fn print(directory: &Path, account: &str, in_json: bool) {
    let Ok(mut account) = serde_json::from_str::<Value>(account) else {
        return;
    };
    account["directory"] = directory.to_string_lossy().into();
    let text = match in_json {
        true => format!("{account}\n"),
        false => text(&account),
    };
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn text(account: &Value) -> String {
    let mut text = format!("hearth: {}\n", account["directory"].as_str().unwrap_or("?"));
    for (key, shown) in [("bytes", size as fn(u64) -> String), ("inodes", number)] {
        if let Some(used) = account[key]["used"].as_u64() {
            let of = account[key]["limit"]
                .as_u64()
                .map(|limit| format!(" of {}", shown(limit)));
            let _ = writeln!(
                text,
                "  {key:<12} {}{}",
                shown(used),
                of.unwrap_or_default()
            );
        }
    }
    for refused in rows(account, "refused") {
        let resource = refused["resource"].as_str().unwrap_or("?");
        let shown = if resource == "bytes" { size } else { number };
        let (used, limit) = (count(refused, "used"), count(refused, "limit"));
        let (used, limit) = (shown(used), shown(limit));
        let _ = writeln!(
            text,
            "  refused      {resource} beyond {limit}, with {used} in use"
        );
    }
    for file in rows(account, "files").take(SHOWN) {
        let (read, written) = (count(file, "read_bytes"), count(file, "written_bytes"));
        let _ = writeln!(
            text,
            "  {:>9} read, {:>9} written  {}",
            size(read),
            size(written),
            file["path"].as_str().unwrap_or("(removed)")
        );
    }
    let all = rows(account, "operations");
    let (sum, seconds) = all.fold((0, 0.0), |(sum, seconds), one| {
        let more = one["seconds"].as_f64().unwrap_or_default();
        (sum + count(one, "count"), seconds + more)
    });
    let _ = write!(text, "  {sum} operations, {seconds:.3} s in them");
    for one in rows(account, "operations").take(SHOWN) {
        let name = one["name"].as_str().unwrap_or("?");
        let _ = write!(text, ", {} {name}", count(one, "count"));
    }
    text.push('\n');
    text
}

fn rows<'a>(account: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    account[key].as_array().into_iter().flatten()
}

fn count(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_default()
}

fn size(count: u64) -> String {
    bytes(count as f64)
}

fn number(count: u64) -> String {
    count.to_string()
}
