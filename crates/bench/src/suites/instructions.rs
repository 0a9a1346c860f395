//! `hearth-bench instructions`: what a warm operation costs in instructions, which a busy machine
//! does not change, held against the counts in `docs/benchmarks/instructions.json`.

use crate::callgrind::{only_in_release, totals_of};
use crate::cells;
use crate::loops::{self, LoopFixture, Operation};
use crate::options::Options;
use crate::pinned::pin_first;
use crate::record::{RECORD, folder};
use crate::row::{Row, write_json};
use crate::table::Table;
use hearth::{Errno, Volume};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "instructions-loops";
/// The function that is counted, as callgrind demangles it.
const COUNTED: &str = "hearth_bench::suites::instructions::counted";
/// Files that a loop goes round, so that the place of one name in its table decides nothing.
const FILES: usize = 64;
/// Times that a loop runs before it is counted: tables have grown, garbage is being freed.
const WARM: usize = 1_024;
/// Times that it is counted: many turns of the collector, which works at every 128th pin.
const TIMES: usize = 8_192;
/// How much more than recorded an operation may take.
const MAY_GROW: f64 = 0.05;
/// How the message about too many instructions begins.
const TOO_MUCH: &str = "an operation takes over 5 % more instructions than recorded; make it \
                        cheaper, or commit with your change what \
                        `cargo xtask bench instructions --record` writes";

/// What is counted, in the order of its counts.
const ALL: [(&str, Operation<FILES>); 6] = [
    ("open+close", loops::open_close),
    ("stat, depth 1", loops::stat),
    ("stat, depth 8", loops::stat_deep),
    ("create+unlink", loops::create_unlink),
    ("pread 4 KiB", loops::read_page),
    ("readdir of 64", loops::list),
];

/// Counts, prints the table, and records or compares.
pub fn run(args: &[String]) -> Result<(), String> {
    let is_recording = args.iter().any(|arg| arg == RECORD);
    let others: Vec<String> = args.iter().filter(|arg| *arg != RECORD).cloned().collect();
    let options = Options::parse("instructions", &others)?;
    if (Options {
        json: None,
        ..options.clone()
    }) != Options::default()
    {
        return Err(format!("there are {RECORD} and --json FILE"));
    }
    only_in_release("instructions")?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let rows = count(&program)?;
    if let Some(path) = &options.json {
        write_json(path, &rows)?;
    }
    let place = folder().join("instructions.json");
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", place.display());
    if is_recording {
        let text = format!("{:#}\n", recorded(&rows));
        std::fs::write(&place, text).map_err(|error| failed(&error))?;
        println!(
            "{}\nrecorded in {}",
            table(&rows, &Value::Null),
            place.display()
        );
        return Ok(());
    }
    let text = std::fs::read_to_string(&place).map_err(|error| failed(&error))?;
    let before = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    println!("{}", table(&rows, &before));
    match &grown(&before, &rows)[..] {
        [] => Ok(()),
        grown => Err(format!("{TOO_MUCH}: {}", grown.join("; "))),
    }
}

/// Counts every loop of `program`, which is this one or another build of it.
pub fn count(program: &Path) -> Result<Vec<Row>, String> {
    let totals = totals_of(program, COUNTED, &[LOOPS.to_owned()], ALL.len())?;
    let rows = ALL.iter().zip(totals).map(|((name, _), total)| {
        // The loop itself takes some instructions; an operation takes hundreds.
        if total < 100 * TIMES as u64 {
            return Err(format!(
                "{name}: callgrind saw no loop, only {total} instructions"
            ));
        }
        Ok(row(name, (total as f64 / TIMES as f64).round()))
    });
    rows.collect()
}

fn row(name: &str, value: f64) -> Row {
    Row::exact(
        "instructions",
        (name, "lib", 1),
        ("instructions_per_op", "1"),
        value,
    )
}

/// Runs all loops; callgrind counts what `counted` does.
pub fn run_loops() -> Result<(), String> {
    pin_first()?;
    let fixture = LoopFixture::new(&Volume::memory(), 0);
    let fixture = fixture.map_err(|errno| format!("preparing: {errno}"))?;
    for (name, operation) in ALL {
        (0..WARM)
            .try_for_each(|turn| operation(&fixture, turn))
            .and_then(|()| counted(&fixture, operation))
            .map_err(|errno| format!("{name}: {errno}"))?;
    }
    Ok(())
}

/// Callgrind knows this function by its name.
#[inline(never)]
fn counted(on: &LoopFixture<FILES>, operation: Operation<FILES>) -> Result<(), Errno> {
    (0..TIMES).try_for_each(|turn| operation(on, turn))
}

/// The file that is committed: counts and what they hold for.
fn recorded(rows: &[Row]) -> Value {
    let json = |row: &Row| serde_json::from_str(&row.json()).ok();
    let rows: Vec<Value> = rows.iter().filter_map(json).collect();
    json!({
        "command": "cargo xtask bench instructions --record",
        "profile": "release",
        "rustc": rustc(),
        "rows": rows,
    })
}

fn count_of(recorded: &Value, operation: &str) -> Option<f64> {
    let rows = recorded["rows"].as_array()?;
    let row = rows.iter().find(|row| row["workload"] == operation)?;
    row["value"].as_f64()
}

/// One line for each count that grew too much, is not recorded or is no longer counted.
fn grown(recorded: &Value, rows: &[Row]) -> Vec<String> {
    let mut lines: Vec<String> = rows
        .iter()
        .filter_map(|row| match count_of(recorded, &row.workload) {
            Some(before) if row.value <= before * (1.0 + MAY_GROW) => None,
            Some(before) => Some(format!("{}: {} after {before}", row.workload, row.value)),
            None => Some(format!("{}: {}, not recorded", row.workload, row.value)),
        })
        .collect();
    let names = recorded["rows"].as_array().into_iter().flatten();
    let gone = names
        .filter_map(|row| row["workload"].as_str())
        .filter(|&name| rows.iter().all(|row| row.workload != name));
    lines.extend(gone.map(|name| format!("{name}: recorded, not counted")));
    let (then, now) = (recorded["rustc"].as_str().unwrap_or_default(), rustc());
    if !lines.is_empty() && then != now {
        lines.push(format!("recorded with {then}, now it is {now}"));
    }
    lines
}

/// The compiler that cargo would use.
fn rustc() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    output.map_or_else(
        |_| "an unknown compiler".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

fn table(rows: &[Row], recorded: &Value) -> String {
    let mut table = Table::new([
        "instructions per warm operation",
        "now",
        "recorded",
        "change",
    ]);
    for row in rows {
        let before = count_of(recorded, &row.workload);
        let change = before.map(|before| format!("{:+.1} %", (row.value / before - 1.0) * 100.0));
        let before = before.map_or("-".to_owned(), |before| format!("{before:.0}"));
        let change = change.unwrap_or("-".to_owned());
        table.row(cells![
            row.workload,
            format!("{:.0}", row.value),
            before,
            change
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_is_unknown_or_incomplete_is_named() {
        let run = |args: &[&str]| {
            run(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>()).unwrap_err()
        };
        assert!(run(&["--json"]).contains("--json"));
        assert!(run(&["--write"]).contains("--write"));
        assert!(run(&["--quick"]).contains("there are"));
    }

    #[test]
    fn five_percent_more_is_the_most_and_what_is_on_one_side_only_is_named() {
        let before = recorded(&[row("stat", 1000.0), row("open", 500.0)]);
        let grown = |stat, open| super::grown(&before, &[row("stat", stat), row("open", open)]);
        assert!(grown(1050.0, 100.0).is_empty());
        assert_eq!(grown(1051.0, 525.0), ["stat: 1051 after 1000"]);
        let others = super::grown(&before, &[row("stat", 1.0), row("close", 1.0)]);
        assert_eq!(
            others,
            ["close: 1, not recorded", "open: recorded, not counted"]
        );
    }

    #[test]
    fn every_loop_does_what_its_name_says() {
        let on = LoopFixture::new(&Volume::memory(), 0).unwrap();
        let depth = |path: &str| path.matches('/').count();
        assert!(on.shallow.iter().all(|path| depth(path) == 1));
        assert!(on.deep.iter().all(|path| depth(path) == 8));
        let before = on.process.volume().inodes_in_memory();
        for (name, operation) in ALL {
            (0..2 * FILES).for_each(|turn| operation(&on, turn).expect(name));
            assert_eq!(on.process.volume().inodes_in_memory(), before, "{name}");
            assert_eq!(on.process.open_fds(), [on.open], "{name}");
        }
        // What the loops work on is what decides whether they succeed.
        on.process.ftruncate(on.open, 0).unwrap();
        for path in on.shallow.iter().chain(&on.deep) {
            on.process.unlink(path).unwrap();
        }
        for (name, operation) in ALL {
            assert_eq!(operation(&on, 0).is_ok(), name == "create+unlink", "{name}");
        }
    }
}
