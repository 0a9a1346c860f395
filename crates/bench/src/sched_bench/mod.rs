//! `sched`: the scheduler by itself.

mod confidence;
mod yields;

use crate::options::Options;
use crate::row::{Row, write_json};

/// A part of the benchmark: its name and what it measures.
type Part = (&'static str, fn(&Options) -> Result<Vec<Row>, String>);

const PARTS: [Part; 1] = [("yield", yields::run)];

/// Runs the parts that were asked for, prints their tables.
///
/// # Errors
/// A part is unknown or cannot be measured.
pub fn run(options: &Options) -> Result<(), String> {
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let parts: Vec<_> = PARTS.iter().filter(|(name, _)| wanted(name)).collect();
    if parts.is_empty() {
        let names = PARTS.map(|(name, _)| name).join(", ");
        let only = options.only.as_deref().unwrap_or_default();
        return Err(format!("--only {only}: unknown; the parts are: {names}"));
    }
    let mut rows = Vec::new();
    for (_, part) in parts {
        rows.extend(part(options)?);
    }
    match &options.json {
        Some(path) => write_json(path, &rows),
        None => Ok(()),
    }
}
