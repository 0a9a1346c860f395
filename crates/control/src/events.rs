//! `.hearth/events`: names that are made, removed and renamed, a JSON object a line.

use crate::hex::hex;
use hearth::{ControlStream, NameChange, NameEvent, NamePlace, NameWatch, Origin, Volume};
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
        "{{\"sequence\":{},\"time\":{}.{:09},\"event\":\"{}\",\"kind\":{},\"ino\":{}",
        event.sequence,
        event.time.sec,
        event.time.nsec,
        event.change.word(),
        json!(event.what.map(|(_, kind)| kind.name())),
        json!(event.what.map(|(ino, _)| ino)),
    );
    place(&mut out, "", &event.at);
    if let NameChange::Rename {
        to,
        displaced,
        exchange,
    } = &event.change
    {
        place(&mut out, "new_", to);
        let displaced = displaced.map(|(ino, _)| ino);
        let (replaced, exchanged) = match exchange {
            true => (None, displaced),
            false => (displaced, None),
        };
        field(&mut out, "replaced_ino", &json!(replaced));
        field(&mut out, "exchanged_ino", &json!(exchanged));
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

/// Directory, name and path. What is not UTF-8 is there in hexadecimal as well.
fn place(out: &mut String, prefix: &str, at: &NamePlace) {
    field(out, &format!("{prefix}directory"), &json!(at.directory));
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
