//! `hearth info` of a mount: what it serves, and what lies below a directory of the host.

use crate::failure::Failure;
use crate::mounts::{self, Mounted};
use crate::printable::printable;
use crate::wrong_place::{OWNERS, unreached};
use crate::{control_file, output};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// Labels of a mount that are shown, each with its row.
const ROWS: [(&str, &str); 7] = [
    ("source", "source"),
    ("below", "below"),
    ("below_type", "type below"),
    ("found_by", "found by"),
    ("rights_of", "rights of"),
    ("passthrough", "passthrough"),
    ("quota", "quotas"),
];

/// The mount of Hearth at `place`.
pub fn at(place: &Path) -> Option<Mounted> {
    mounts::at(place).ok().flatten().filter(Mounted::is_ours)
}

/// Describes a mount.
pub fn run(mounted: &Mounted, in_json: bool) -> Result<(), Failure> {
    let facts = facts(mounted)?;
    if in_json {
        return output::print(&format!("{}\n", json!(facts)));
    }
    let rows = ROWS.into_iter().chain([
        ("mounted", "mounted at"),
        ("pid", "process"),
        ("transport", "transport"),
        ("version", "version"),
    ]);
    let rows = rows.filter_map(|(label, row)| Some((row, facts.get(label)?)));
    let text: String = rows
        .map(|(row, value)| format!("{row:<11} {}\n", printable(value)))
        .collect();
    output::print(&text)
}

/// What is known of a mount: its labels, and what follows from them.
///
/// # Errors
/// Those of [`labels`].
pub fn facts(mounted: &Mounted) -> Result<BTreeMap<String, String>, Failure> {
    let mut labels = labels(&mounted.at)?;
    let named = mounted.source.to_string_lossy();
    let source = match (labels.get("below"), labels.get("store")) {
        (Some(below), _) => format!("host:{below}"),
        (None, Some(store)) => format!("store:{store}"),
        // A mount without these may have any name.
        (None, None) => match labels.get("source") {
            Some(told) => told.clone(),
            None if named == "memory" => "memory:".to_owned(),
            None => named.into_owned(),
        },
    };
    labels.insert("source".to_owned(), source);
    if let Some(below) = labels.get("below").cloned() {
        let holding = mounts::holding(Path::new(&below)).ok().flatten();
        let kind = holding.map_or_else(|| "unknown".to_owned(), |mount| mount.kind);
        labels.insert("below_type".to_owned(), kind);
    }
    labels.insert("mounted".to_owned(), mounted.at.display().to_string());
    if let Ok(pid) = control_file::read(&mounted.at, "pid") {
        labels.insert("pid".to_owned(), pid.trim().to_owned());
    }
    Ok(labels)
}

/// What the daemon says of itself; nothing where the tree hides its control files.
///
/// # Errors
/// The daemon has ended, or this caller may not ask it.
pub fn labels(at: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let text = match control_file::read(at, "stats") {
        Err(error) if is_hidden(&error) => String::new(),
        text => text.map_err(|error| unreached(at, "stats", &error, OWNERS))?,
    };
    let line = text.lines().find_map(|line| {
        let line = line.strip_prefix("hearth_info{")?;
        line.strip_suffix("} 1")
    });
    Ok(parse(line.unwrap_or_default()))
}

fn is_hidden(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// `a="b",c="d"`, with quotes, backslashes and newlines written as Prometheus does.
fn parse(mut line: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    while let Some((key, rest)) = line.split_once("=\"") {
        let (mut value, mut chars) = (String::new(), rest.char_indices());
        let mut end = rest.len();
        while let Some((at, char)) = chars.next() {
            match char {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, other)) => value.push(other),
                    None => {}
                },
                other => value.push(other),
            }
        }
        labels.insert(key.trim_start_matches(',').to_owned(), value);
        line = &rest[end..];
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_they_were_written() {
        let found = parse(r#"a="1",path="/x \"y\", z\\\n",last="""#);
        let wanted = [("a", "1"), ("path", "/x \"y\", z\\\n"), ("last", "")];
        let wanted = wanted.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(found, wanted.into());
        assert!(parse("").is_empty());
    }
}
