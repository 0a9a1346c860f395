//! Exported records as lines of JSON.

use super::parse::{ESTIMATED, LONG_RATES, RATES, TOTALS};
use hearth::heat::{ExportedHeat, HeatRates};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The records of an export as text: one JSON object a line, with times in seconds since the epoch.
/// [`super::bad_lines`] and the control file `heat/import` read it.
pub fn export_text(records: &[ExportedHeat]) -> String {
    let mut text = String::new();
    for record in records {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line(record));
    }
    text
}

fn line(record: &ExportedHeat) -> Value {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    set("ino", json!(record.ino));
    set("start", json!(record.start));
    set("at", json!(record.at_ms / 1000.0));
    set("temperature", json!(record.temperature));
    let totals = [
        record.reads,
        record.read_bytes,
        record.writes,
        record.written_bytes,
        record.loads,
    ];
    for (name, total) in TOTALS.iter().zip(totals) {
        set(name, json!(total));
    }
    set(ESTIMATED, json!(record.estimated));
    for (names, rates) in [(RATES, record.rates), (LONG_RATES, record.long_rates)] {
        let HeatRates {
            reads,
            writes,
            bytes,
        } = rates;
        for (name, rate) in names.iter().zip([reads, writes, bytes]) {
            set(name, json!(rate));
        }
    }
    let seconds = |at_ms: Option<f64>| json!(at_ms.map(|at_ms| at_ms / 1000.0));
    set("last_read", seconds(record.last_read_ms));
    set("last_write", seconds(record.last_write_ms));
    path_fields(&mut fields, &record.path);
    Value::Object(fields)
}

/// Adds `path` as text, and byte by byte in hexadecimal if it is not UTF-8.
pub(super) fn path_fields(fields: &mut Map<String, Value>, path: &[u8]) {
    let text = String::from_utf8_lossy(path);
    if text.as_bytes() != path {
        let hex = path.iter().map(|byte| format!("{byte:02x}"));
        fields.insert("path_hex".to_owned(), json!(hex.collect::<String>()));
    }
    fields.insert("path".to_owned(), json!(text));
}
