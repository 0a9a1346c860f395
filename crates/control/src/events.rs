//! `.hearth/events`: names that are made, removed and renamed, a JSON object a line.

use crate::hex::hex;
use hearth::{
    ControlStream, EventInode, NameChange, NameEvent, NamePlace, NameWatch, Origin, Volume,
};
use serde_json::{Value, json};
use std::fmt::Write;

/// What an open of the file reads: everything from then on.
pub(crate) fn stream(volume: &Volume) -> Box<dyn ControlStream> {
    Box::new(Stream(volume.watch()))
}

struct Stream(NameWatch);

impl ControlStream for Stream {
    fn next(&mut self, volume: &Volume) -> String {
        let news = self.0.read(volume);
        let mut out = String::new();
        if news.lost > 0 {
            out.push_str(&lost(news.lost));
        }
        news.events
            .iter()
            .for_each(|event| out.push_str(&line(event)));
        out
    }
}

/// What stands for events that a slow reader has lost.
fn lost(events: u64) -> String {
    format!("{{\"event\":\"overflow\",\"lost\":{events}}}\n")
}

/// An event: its number and time, what happened, where, and who did it.
fn line(event: &NameEvent) -> String {
    let mut out = format!(
        "{{\"sequence\":{},\"time\":{}.{:09},\"event\":\"{}\",\"kind\":{},\"ino\":{},\
         \"generation\":{}",
        event.sequence,
        event.time.sec,
        event.time.nsec,
        event.change.word(),
        json!(event.what.map(|(_, kind)| kind.name())),
        json!(event.what.map(|(id, _)| id.ino)),
        json!(event.what.map(|(id, _)| id.generation)),
    );
    place(&mut out, "", &event.at);
    if let NameChange::Rename {
        to,
        displaced,
        exchange,
    } = &event.change
    {
        place(&mut out, "new_", to);
        let displaced = displaced.map(|(id, _)| id);
        let (replaced, exchanged) = match exchange {
            true => (None, displaced),
            false => (displaced, None),
        };
        other(&mut out, "replaced", replaced);
        other(&mut out, "exchanged", exchanged);
    }
    let origin = match event.by.origin {
        Origin::Kernel => "mount",
        Origin::Library => "library",
    };
    field(&mut out, "origin", &json!(origin));
    field(&mut out, "uid", &json!(event.by.uid));
    field(&mut out, "gid", &json!(event.by.gid));
    field(&mut out, "pid", &json!(event.by.pid));
    out.push_str("}\n");
    out
}

/// Number and generation of an inode that lost its name or has another one.
fn other(out: &mut String, prefix: &str, id: Option<EventInode>) {
    field(out, &format!("{prefix}_ino"), &json!(id.map(|id| id.ino)));
    let generation = json!(id.map(|id| id.generation));
    field(out, &format!("{prefix}_generation"), &generation);
}

/// Directory, name and path. What is not UTF-8 is there in hexadecimal as well.
fn place(out: &mut String, prefix: &str, at: &NamePlace) {
    let directory = at.directory;
    field(out, &format!("{prefix}directory"), &json!(directory.ino));
    let generation = json!(directory.generation);
    field(out, &format!("{prefix}directory_generation"), &generation);
    bytes(out, &format!("{prefix}name"), Some(&at.name));
    bytes(out, &format!("{prefix}path"), at.path.as_deref());
}

/// A field with bytes as text, and in hexadecimal as well if they are not UTF-8.
pub(crate) fn bytes(out: &mut String, name: &str, bytes: Option<&[u8]>) {
    let text = bytes.map(String::from_utf8_lossy);
    if let (Some(text), Some(bytes)) = (&text, bytes)
        && text.as_bytes() != bytes
    {
        field(out, &format!("{name}_hex"), &json!(hex(bytes)));
    }
    field(out, name, &json!(text));
}

/// A field behind a comma.
pub(crate) fn field(out: &mut String, name: &str, value: &Value) {
    let _ = write!(out, ",\"{name}\":{value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth::{Credentials, Kind};

    fn inode(ino: u64, generation: u32) -> EventInode {
        EventInode { ino, generation }
    }

    fn at(directory: EventInode, path: &str) -> NamePlace {
        let (_, name) = path.rsplit_once('/').expect("a path");
        NamePlace {
            directory,
            name: name.as_bytes().into(),
            path: Some(path.as_bytes().into()),
        }
    }

    /// A rename in which each number is another one.
    fn rename(exchange: bool) -> Value {
        let volume = Volume::memory();
        let mut watch = volume.watch();
        let process = volume.process(Credentials::root());
        process.mkdir("/d", 0o755).expect("a directory");
        let mut event = watch.read(&volume).events.remove(0);
        event.what = Some((inode(1, 101), Kind::File));
        event.at = at(inode(2, 102), "/a/from");
        event.change = NameChange::Rename {
            to: at(inode(3, 103), "/b/to"),
            displaced: Some((inode(4, 104), Kind::File)),
            exchange,
        };
        serde_json::from_str(&line(&event)).expect("JSON")
    }

    #[test]
    fn each_inode_of_a_rename_has_its_own_number_and_generation() {
        let parts = [
            "",
            "directory_",
            "new_directory_",
            "replaced_",
            "exchanged_",
        ];
        let numbers = |event: &Value| {
            parts.map(|part| {
                let number = match part.strip_suffix("directory_") {
                    Some(prefix) => format!("{prefix}directory"),
                    None => format!("{part}ino"),
                };
                (
                    event[number].as_u64(),
                    event[format!("{part}generation")].as_u64(),
                )
            })
        };
        let is = |n: u64| (Some(n), Some(100 + n));
        let none = (None, None);
        assert_eq!(numbers(&rename(false)), [is(1), is(2), is(3), is(4), none]);
        assert_eq!(numbers(&rename(true)), [is(1), is(2), is(3), none, is(4)]);
    }
}
