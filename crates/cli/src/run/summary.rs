//! What a program did to its directory, told at the end.

use crate::heat::bytes;
use crate::printable::printable;
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
    let directory = account["directory"].as_str().unwrap_or("?");
    let mut text = format!("hearth: {}\n", printable(directory));
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
        text += &refusal(account, refused);
    }
    for file in rows(account, "files").take(SHOWN) {
        text += &moved(file, &path_of(file));
    }
    text += &ranges(account);
    text + &waits(account)
}

/// What was refused, and where.
fn refusal(account: &Value, refused: &Value) -> String {
    let resource = refused["resource"].as_str().unwrap_or("?");
    let shown = if resource == "bytes" { size } else { number };
    let (used, limit) = (count(refused, "used"), count(refused, "limit"));
    let places = rows(account, "refused_at").filter(|place| place["resource"] == resource);
    let places: Vec<String> = places.map(path_of).collect();
    let named = places[..places.len().min(SHOWN)].join(", ");
    let more = match places.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let at = match (places.is_empty(), resource) {
        (true, _) => String::new(),
        (false, "inodes") => format!(", in {named}{more}"),
        (false, _) => format!(", at {named}{more}"),
    };
    let (used, limit) = (shown(used), shown(limit));
    format!("  refused      {resource} beyond {limit}, with {used} in use{at}\n")
}

/// A file or a range with what was read and written of it.
fn moved(row: &Value, name: &str) -> String {
    let (read, written) = (count(row, "read_bytes"), count(row, "written_bytes"));
    let (read, written) = (size(read), size(written));
    format!("  {read:>9} read, {written:>9} written  {name}\n")
}

/// The hottest ranges, where there is a file that has more than one.
fn ranges(account: &Value) -> String {
    let is_whole = |range: &&Value| {
        let same = |other: &&Value| other["inode"] == range["inode"];
        rows(account, "ranges").filter(same).count() < 2
    };
    let parts = rows(account, "ranges").filter(|range| !is_whole(range));
    let parts = parts.take(SHOWN).map(|range| {
        let (start, len) = (count(range, "start") >> 20, count(range, "len") >> 20);
        let name = format!("{}, MiB {start} to {}", path_of(range), start + len);
        moved(range, &name)
    });
    parts.collect()
}

/// What the program waited for, the longest first.
fn waits(account: &Value) -> String {
    let sum: u64 = rows(account, "operations")
        .map(|one| count(one, "count"))
        .sum();
    let all = account["waited_seconds"].as_f64().unwrap_or_default();
    let mut text = format!("  waited       {all:.3} s for {sum} operations");
    for (n, one) in rows(account, "operations").take(SHOWN).enumerate() {
        let name = one["name"].as_str().unwrap_or("?");
        let seconds = one["seconds"].as_f64().unwrap_or_default();
        let begin = if n == 0 { ": " } else { ", " };
        text += &format!("{begin}{name} {seconds:.3} s ({})", count(one, "count"));
    }
    text + "\n"
}

/// The path of a row, whose parts the program has named as it liked.
fn path_of(row: &Value) -> String {
    printable(row["path"].as_str().unwrap_or("(removed)"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_forges_no_line_and_sends_no_escape_to_the_terminal() {
        let name = "/x\n  refused      bytes\u{1b}]0;title\u{7}";
        let row = json!({"path": name, "inode": 2, "start": 0, "len": 1 << 20});
        let text = text(&json!({
            "directory": "/d\u{1b}[31m",
            "refused": [{"resource": "bytes", "used": 1, "limit": 2}],
            "refused_at": [{"path": name, "resource": "bytes"}],
            "files": [row],
            "ranges": [row, row],
        }));
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        let forged = text.lines().filter(|line| line.starts_with("  refused"));
        assert_eq!(forged.count(), 1, "{text}");
    }
}
