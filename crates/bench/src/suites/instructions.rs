//! `hearth-counted instructions`: what a warm operation costs in instructions, and how many of them
//! lock, which a busy machine does not change, held against the counts in
//! `docs/benchmarks/instructions.json`.

use crate::callgrind::{CallCounts, counted, counts_of, only_in_release};
use crate::cells;
use crate::failure::Context;
use crate::loops::{self, LoopFixture, Operation};
use crate::options::Options;
use crate::pinned::pin_first;
use crate::record::{RECORD, folder};
use crate::row::{Row, write_json};
use crate::stats::Metric;
use crate::table::Table;
use hearth::{LimitChange, LimitUpdate, QuotaId, Volume};
use hearth_testing::place::Place;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "instructions-loops";
/// Files that a loop goes round, so that the place of one name in its table decides nothing.
const FILES: usize = 64;
/// Times that a loop runs before it is counted: tables have grown, garbage is being freed.
const WARM: usize = 1_024;
/// Times that it is counted: many turns of the collector, which works at every 128th pin.
const TIMES: usize = 8_192;
/// How much more than recorded an operation may take.
const MAY_GROW: f64 = 0.05;
/// How many more locked instructions: a turn of the collector more or less.
const MAY_LOCK: f64 = 0.2;
const INSTRUCTIONS: Metric = ("instructions_per_op", "1");
const LOCKED: Metric = ("locked_instructions_per_op", "1");
/// A volume as it comes, and one with limits and with heat.
const PLAIN: &str = "lib";
const TRACKED: &str = "lib, limits and heat";
/// One in a directory, which logs every change. Other threads commit, after an hour: what they do
/// is not counted.
const STORED: &str = "lib, store";
const STORE_OPTIONS: &str = "create,commit=3600";
/// All of them.
const VOLUMES: [&str; 3] = [PLAIN, TRACKED, STORED];
/// The project of the files there.
const PROJECT: u32 = 7;
/// Far from every count.
const LIMIT: u64 = 1 << 40;
/// How the message about too many instructions begins.
const TOO_MUCH: &str = "an operation takes over 5 % more instructions than recorded; make it \
                        cheaper, or commit with your change what \
                        `cargo xtask bench instructions --record` writes";

/// What is counted, in the order of its counts.
const ALL: [(&str, Operation<FILES>); 12] = [
    ("open+close", loops::open_close),
    ("stat, depth 1", loops::stat),
    ("stat, depth 8", loops::stat_deep),
    ("create+unlink", loops::create_unlink),
    ("pread 4 KiB", loops::read_page),
    ("readdir of 64", loops::list),
    ("pwrite 4 KiB", loops::write_page),
    ("fstat", loops::fstat),
    ("rename in place", loops::rename),
    ("mkdir+rmdir", loops::mkdir_rmdir),
    ("readlink", loops::readlink),
    ("open+read 4 KiB+close", loops::open_read_close),
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
    let program = std::env::current_exe().text()?;
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
    let rows = match &grown(&before, &rows)[..] {
        [] => rows,
        _ => least([rows, count(&program)?, count(&program)?]),
    };
    println!("{}", table(&rows, &before));
    match &grown(&before, &rows)[..] {
        [] => Ok(()),
        grown => Err(format!("{TOO_MUCH}: {}", grown.join("; "))),
    }
}

/// The least of each row. No two volumes hash names alike: where the names of a listing met in few
/// buckets, one run found 7,500 for 7,000. What has grown has grown in all runs.
fn least([mut rows, second, third]: [Vec<Row>; 3]) -> Vec<Row> {
    for (row, others) in rows.iter_mut().zip(second.iter().zip(&third)) {
        row.value = row.value.min(others.0.value).min(others.1.value);
    }
    rows
}

/// Counts every loop of `program`, which is this one or another build of it, on both volumes.
pub fn count(program: &Path) -> Result<Vec<Row>, String> {
    let count = |target: &str| {
        let args = [LOOPS.to_owned(), target.to_owned()];
        counts_of(program, &args, ALL.len())
    };
    // Side by side: instructions do not mind.
    let counted = std::thread::scope(|scope| {
        let counting = VOLUMES.map(|target| scope.spawn(move || count(target)));
        counting.map(|one| one.join())
    });
    let mut rows = Vec::new();
    for (target, counts) in VOLUMES.into_iter().zip(counted) {
        let counts = counts.map_err(|_| "counting panicked")??;
        for ((name, _), counts) in ALL.iter().zip(counts) {
            rows.extend(rows_of(name, target, counts)?);
        }
    }
    Ok(rows)
}

fn rows_of(name: &str, target: &str, counts: CallCounts) -> Result<[Row; 2], String> {
    // The loop itself takes some instructions; an operation takes hundreds.
    if counts.instructions < 100 * TIMES as u64 {
        return Err(format!(
            "{name}: callgrind saw no loop, only {} instructions",
            counts.instructions
        ));
    }
    let each = |count: u64| count as f64 / TIMES as f64;
    let locked = (each(counts.locked) * 10.0).round() / 10.0;
    Ok([
        row(
            name,
            target,
            INSTRUCTIONS,
            each(counts.instructions).round(),
        ),
        row(name, target, LOCKED, locked),
    ])
}

fn row(name: &str, target: &str, metric: Metric, value: f64) -> Row {
    Row::exact("instructions", (name, target, 1), metric, value)
}

/// Runs all loops on the volume that `args` name; callgrind counts what `counted` does.
pub fn run_loops(args: &[String]) -> Result<(), String> {
    pin_first()?;
    let place = Place::new("instructions").text()?;
    let volume = match args {
        [target] if target == PLAIN => Volume::memory(),
        [target] if target == TRACKED => tracked()?,
        [target] if target == STORED => {
            let dir = place.path().join("volume");
            hearth::open(&format!("store:{}?{STORE_OPTIONS}", dir.display())).text()?
        }
        _ => return Err(format!("{LOOPS} takes one of {VOLUMES:?}: {args:?}")),
    };
    let fixture = LoopFixture::new(&volume, loops::PAGE).context("preparing")?;
    for (name, operation) in ALL {
        let run = |turns| {
            (0..turns)
                .try_for_each(|turn| operation(&fixture, turn))
                .context(name)
        };
        run(WARM)?;
        counted(&mut || run(TIMES))?;
    }
    Ok(())
}

/// A volume whose files have a project with limits, and which tracks heat.
fn tracked() -> Result<Volume, String> {
    let volume = Volume::builder()
        .hot_track(true)
        .build()
        .context("building")?;
    let limits = LimitChange {
        bytes_hard: LimitUpdate::To(LIMIT),
        inodes_hard: LimitUpdate::To(LIMIT),
        ..LimitChange::default()
    };
    // The user is root, who is never limited; the project of its files is.
    let quota = volume.quota();
    quota
        .set_project_tree("/", PROJECT)
        .and_then(|_| quota.set(QuotaId::project(PROJECT), &limits))
        .context("limits")?;
    Ok(volume)
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

/// The recorded value of the cell and metric of `row`.
fn before(recorded: &Value, row: &Row) -> Option<f64> {
    let rows = recorded["rows"].as_array()?;
    let same = |old: &&Value| {
        old["workload"] == row.workload
            && old["target"] == row.target
            && old["metric"] == row.metric
    };
    rows.iter().find(same)?["value"].as_f64()
}

/// One line for each count that grew too much, is not recorded or is no longer counted.
fn grown(recorded: &Value, rows: &[Row]) -> Vec<String> {
    let mut lines: Vec<String> = rows
        .iter()
        .filter_map(|row| match before(recorded, row) {
            Some(before) if row.value <= most(row, before) => None,
            Some(before) => Some(format!("{}: {} after {before}", cell(row), row.value)),
            None => Some(format!("{}: {}, not recorded", cell(row), row.value)),
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

/// How large a count may be that was `before`.
fn most(row: &Row, before: f64) -> f64 {
    match row.metric == LOCKED.0 {
        true => before + MAY_LOCK,
        false => before * (1.0 + MAY_GROW),
    }
}

fn cell(row: &Row) -> String {
    let what = match row.metric == LOCKED.0 {
        true => ", locked",
        false => "",
    };
    format!("{} ({}{what})", row.workload, row.target)
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

/// A line for each operation and volume: instructions and, of those, the locked ones.
fn table(rows: &[Row], recorded: &Value) -> String {
    let mut table = Table::new([
        "per warm operation",
        "volume",
        "instructions",
        "recorded",
        "change",
        "locked",
        "recorded",
    ]);
    for pair in rows.chunks(2) {
        let [count, locked] = pair else { continue };
        let then = before(recorded, count);
        let change = then.map(|then| format!("{:+.1} %", (count.value / then - 1.0) * 100.0));
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
        table.row(cells![
            count.workload,
            count.target,
            count.value,
            shown(then),
            change.unwrap_or("-".to_owned()),
            locked.value,
            shown(before(recorded, locked))
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
        let row = |name, value| row(name, PLAIN, INSTRUCTIONS, value);
        let before = recorded(&[row("stat", 1000.0), row("open", 500.0)]);
        let grown = |stat, open| super::grown(&before, &[row("stat", stat), row("open", open)]);
        assert!(grown(1050.0, 100.0).is_empty());
        assert_eq!(grown(1051.0, 525.0), ["stat (lib): 1051 after 1000"]);
        let others = super::grown(&before, &[row("stat", 1.0), row("close", 1.0)]);
        assert_eq!(
            others,
            [
                "close (lib): 1, not recorded",
                "open: recorded, not counted"
            ]
        );
    }

    #[test]
    fn one_locked_instruction_more_is_too_many_on_either_volume() {
        let row = |target, value| row("stat", target, LOCKED, value);
        let before = recorded(&[row(PLAIN, 2.0), row(TRACKED, 3.0)]);
        let grown = |a, b| super::grown(&before, &[row(PLAIN, a), row(TRACKED, b)]);
        assert!(grown(2.1, 3.0).is_empty());
        assert_eq!(
            grown(2.0, 4.0),
            ["stat (lib, limits and heat, locked): 4 after 3"]
        );
    }

    #[test]
    fn every_loop_does_what_its_name_says() {
        let on = LoopFixture::new(&tracked().unwrap(), loops::PAGE).unwrap();
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
        on.process.close(on.open).unwrap();
        for path in on.shallow.iter().chain(&on.deep).chain(&on.links) {
            on.process.unlink(path).unwrap();
        }
        for (name, operation) in ALL {
            let makes = ["create+unlink", "mkdir+rmdir"].contains(&name);
            assert_eq!(operation(&on, 0).is_ok(), makes, "{name}");
        }
    }
}
