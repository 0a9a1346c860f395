//! `hearth-bench freeing`: how much memory waits, because it is freed only when no reader can see
//! it.

use super::garbage::{self, READERS, Seen};
use crate::ask::Ask;
use crate::cells;
use crate::children::output;
use crate::daemons::beside;
use crate::options::Options;
use crate::report::Report;
use crate::table::Table;
use std::process::Command;
use std::time::Duration;

/// Most MiB that may wait.
const GARBAGE_MAX: f64 = 8.0;
/// Measures and prints the table: what waits beside every reader, each measured by `hearth-live`
/// in a process of its own.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let seconds = options.pick(1, 5);
    let program = beside("hearth-live");
    if !program.is_file() {
        let program = program.display();
        return Err(format!("{program}: missing; cargo build -p hearth-bench"));
    }
    let mut table = Table::new(["create+unlink beside", "MiB waiting at most"]);
    for (n, (_, reader)) in READERS.into_iter().enumerate() {
        for (place, core) in [("own", "its own core"), ("same", "the same core")] {
            let args = ["garbage", &n.to_string(), place, &seconds.to_string()];
            let text = output(Command::new(&program).args(args))?;
            let bytes: f64 = text
                .trim()
                .parse()
                .map_err(|_| format!("bytes: '{text}'"))?;
            let workload = format!("{reader} on {core}");
            report.add_exact((&workload, "lib", 2), ("garbage_bytes_max", "B"), bytes);
            let mib = bytes / f64::from(1 << 20);
            table.row(cells![workload, format!("{mib:.2}")]);
            let what = format!("MiB that wait beside {workload}");
            report.asks.push(Ask::at_most(what, GARBAGE_MAX, &[mib]));
        }
    }
    println!("{}", table.text());
    Ok(())
}

/// The verb `garbage` of `hearth-live`: number of the reader, `own` or `same`, seconds. Prints the
/// most bytes that waited.
pub fn run_garbage(args: &[String]) -> Result<(), String> {
    let usage = "garbage READER own|same SECONDS";
    let [reader, place, seconds] = args else {
        return Err(usage.to_owned());
    };
    let reader = reader.parse().ok().and_then(|n: usize| READERS.get(n));
    let (&reader, seconds) = reader.zip(seconds.parse().ok()).ok_or(usage)?;
    let length = Duration::from_secs(seconds);
    let Seen {
        bytes,
        pairs,
        reads,
    } = garbage::run(reader, place == "same", length)?;
    if pairs < 1_000 || reads == 0 {
        let name = reader.1;
        return Err(format!(
            "{name}: {pairs} files and {reads} reads are too few"
        ));
    }
    println!("{bytes}");
    Ok(())
}
