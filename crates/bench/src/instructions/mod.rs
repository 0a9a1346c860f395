//! `hearth-bench instructions`: what a warm operation costs in instructions, which a busy machine
//! does not change.
//!
//! The program runs [`loops`] of itself under valgrind's callgrind, which counts inside one
//! function only, and holds the counts against those in `docs/benchmarks/instructions.json`. Under
//! valgrind a thread has no restartable-sequence area and its clock is a system call, so a count is
//! some instructions off what the processor executes; it is the same every time, which is its use.

mod callgrind;
pub mod loops;
mod recorded;

pub use callgrind::{count, totals};
use recorded::{Recorded, TOO_MUCH};

use crate::row::{Row, write_json};
use crate::table::Table;
use std::path::PathBuf;

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "instructions-loops";

/// What the verb understands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    record: bool,
    json: Option<PathBuf>,
}

/// Counts, prints the table, and records or compares.
///
/// # Errors
/// valgrind is missing or fails, or an operation takes more instructions than it did.
pub fn run(args: &[String]) -> Result<(), String> {
    let wanted = Wanted::parse(args)?;
    if cfg!(debug_assertions) {
        return Err("counts mean the release profile: cargo xtask bench instructions".to_owned());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let rows = count(&program)?;
    if let Some(path) = &wanted.json {
        write_json(path, &rows)?;
    }
    let place = recorded::place();
    if wanted.record {
        Recorded::new(&rows).write(&place)?;
        println!("{}", table(&rows, None));
        println!("recorded in {}", place.display());
        return Ok(());
    }
    let recorded = Recorded::read(&place)?;
    println!("{}", table(&rows, Some(&recorded)));
    let grown = recorded.grown(&rows);
    if grown.is_empty() {
        return Ok(());
    }
    Err(format!("{TOO_MUCH}: {}", grown.join("; ")))
}

impl Wanted {
    fn parse(args: &[String]) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match &**arg {
                "--record" => wanted.record = true,
                "--json" => wanted.json = Some(args.next().ok_or("--json needs a file")?.into()),
                other => {
                    return Err(format!(
                        "unknown argument '{other}'; there are --record and --json FILE"
                    ));
                }
            }
        }
        Ok(wanted)
    }
}

fn table(rows: &[Row], recorded: Option<&Recorded>) -> String {
    let heading = [
        "instructions per warm operation",
        "now",
        "recorded",
        "change",
    ];
    let mut table = Table::new(heading.map(str::to_owned));
    for row in rows {
        let before = recorded.and_then(|recorded| recorded.of(&row.workload));
        let change = before.map(|before| (row.value / before - 1.0) * 100.0);
        table.row([
            row.workload.clone(),
            format!("{:.0}", row.value),
            before.map_or("-".to_owned(), |before| format!("{before:.0}")),
            change.map_or("-".to_owned(), |change| format!("{change:+.1} %")),
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_is_unknown_or_incomplete_is_named() {
        let parse = |args: &[&str]| {
            Wanted::parse(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
        };
        assert!(parse(&["--record"]).unwrap().record);
        assert!(parse(&["--json"]).unwrap_err().contains("--json"));
        assert!(parse(&["--write"]).unwrap_err().contains("--write"));
    }
}
