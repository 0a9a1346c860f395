//! `sched`: the scheduler by itself, and what it does for those who share a mount.

mod background;
mod chat;
mod confidence;
mod neighbour;
mod sdet;
pub mod yields;

use crate::options::Options;
use crate::row::{Row, write_json};
use crate::seeds::ask::{self, Ask};

/// What a part has measured, and what was asked of it.
#[derive(Default)]
pub struct Report {
    /// The rows of its table.
    pub rows: Vec<Row>,
    /// What it must show.
    pub asks: Vec<Ask>,
}

/// A part of the benchmark: its name and what it measures.
type Part = (&'static str, fn(&Options) -> Result<Report, String>);

const PARTS: [Part; 6] = [
    ("yield", yields::run),
    ("yield-instructions", |_| {
        yields::counted::check().map(|()| Report::default())
    }),
    ("sdet", sdet::run),
    ("chat", chat::run),
    ("neighbour", neighbour::run),
    ("background", background::run),
];

/// Runs the parts that were asked for, prints their tables.
///
/// # Errors
/// A part is unknown or cannot be measured, or, unless it is a quick look, an ask is not met.
pub fn run(options: &Options) -> Result<(), String> {
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let parts: Vec<_> = PARTS.iter().filter(|(name, _)| wanted(name)).collect();
    if parts.is_empty() {
        let names = PARTS.map(|(name, _)| name).join(", ");
        let only = options.only.as_deref().unwrap_or_default();
        return Err(format!("--only {only}: unknown; the parts are: {names}"));
    }
    let mut all = Report::default();
    for (name, part) in parts {
        let report = part(options).map_err(|what| format!("{name}: {what}"))?;
        all.rows.extend(report.rows);
        all.asks.extend(report.asks);
        // After each part: what comes later may be cut short.
        if let Some(path) = &options.json {
            write_json(path, &all.rows)?;
        }
    }
    verdict(&all.asks, options.quick)
}

fn verdict(asks: &[Ask], quick: bool) -> Result<(), String> {
    if asks.is_empty() {
        return Ok(());
    }
    println!("What it must show\n\n{}", ask::table(asks));
    let missed = asks.iter().filter(|ask| ask.is_met() == Some(false));
    match missed.count() {
        0 => Ok(()),
        missed if quick => {
            println!("{missed} of {} not met in this first look", asks.len());
            Ok(())
        }
        missed => Err(format!("{missed} of {} asks are not met", asks.len())),
    }
}
