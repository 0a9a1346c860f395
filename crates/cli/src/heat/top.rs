//! `hearth heat top`.

use super::args::{By, TopArgs};
use super::palette::Shades;
use super::place::{ask_json, read_json};
use super::row::{accesses, count, grade, is_sampled, list, number, on_mount, shown_path};
use super::units::{ago, bytes, rate, span};
use crate::failure::Failure;
use crate::output;
use crate::printable::printable_path;
use crate::quota::who::name_of;
use crate::which::mount_of;
use hearth::{QuotaId, QuotaKind};
use hearth_sync::primitive::thread;
use serde_json::Value;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Between two looks of `--watch`.
const INTERVAL: Duration = Duration::from_secs(2);
/// Places of a temperature's bar.
const BAR: usize = 10;

/// Prints the hottest, once or again and again.
pub fn run(args: &TopArgs) -> Result<(), Failure> {
    let mount = mount_of(args.mount.as_deref())?;
    loop {
        let text = look(&mount, args)?;
        if !args.watch {
            return output::print(&text);
        }
        let clear = match std::io::stdout().is_terminal() && !args.json {
            true => "\x1b[H\x1b[J",
            false => "",
        };
        output::print(&format!("{clear}{text}"))?;
        thread::sleep(INTERVAL);
    }
}

/// A table, or JSON; when watched, one list a line.
fn look(mount: &Path, args: &TopArgs) -> Result<String, Failure> {
    let most = args.count.unwrap_or(if args.json { 100 } else { 20 });
    let since = match args.since {
        Some(since) => since.as_millis().to_string(),
        None => "-".to_owned(),
    };
    let (by, rank) = (args.by.word(), args.rank());
    let mut answer = ask_json(mount, &format!("heat top {by} {rank} {most} {since}"))?;
    let Some(rows) = answer.as_array_mut() else {
        return Ok("[]\n".to_owned());
    };
    // On a mount with ro the answer is a file: those with most accesses, in that order.
    if rank == "temperature" {
        let of = |row: &Value| number(row, "temperature");
        rows.sort_by(|a, b| of(b).total_cmp(&of(a)));
    }
    rows.truncate(most as usize);
    if args.json {
        rows.iter_mut().for_each(|row| on_mount(mount, row));
        return Ok(match args.watch {
            true => format!("{answer}\n"),
            false => list(rows),
        });
    }
    let status = read_json(mount, "status.json")?;
    Ok(table(mount, args, rows, &status))
}

fn table(mount: &Path, args: &TopArgs, rows: &[Value], status: &Value) -> String {
    let shades = Shades::for_stdout();
    let mut text = String::new();
    let off = match status["on"].as_bool() {
        Some(false) => format!("; off, 'hearth heat on {}' begins", printable_path(mount)),
        _ => String::new(),
    };
    let dropped = match count(status, "dropped") {
        0 => String::new(),
        dropped => format!("; {dropped} accesses missed"),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}: hottest by {}, {} files and {} ranges known{dropped}{off}",
        printable_path(mount),
        args.rank(),
        count(status, "files"),
        count(status, "ranges"),
    );
    if rows.is_empty() {
        return text + "nothing was used in this time\n";
    }
    let head = format!(
        "{:>5}  {:<bar$}  {:<4} {:>7} {:>7} {:>11} {:>8} {:>8} {:>10} {:>4}  {}",
        "TEMP",
        "",
        "",
        "READS",
        "WRITES",
        "BYTES",
        "reads",
        "writes",
        "bytes",
        "LAST",
        place_head(args.by),
        bar = BAR,
    );
    let _ = writeln!(text, "{}", shades.bold(&head));
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0.0, |now| now.as_secs_f64());
    for row in rows {
        let temperature = number(row, "temperature");
        let per_second = bytes(number(row, "bytes_per_second") * 3600.0);
        let _ = writeln!(
            text,
            "{temperature:>5.1}  {}  {:<4} {:>7} {:>7} {:>11} {:>8} {:>8} {:>10} {:>4}  {}",
            shades.bar(temperature / 100.0, BAR, temperature),
            grade(row),
            rate(number(row, "reads_per_second")),
            rate(number(row, "writes_per_second")),
            format!("{per_second}/h"),
            accesses(row, "reads"),
            accesses(row, "writes"),
            bytes(number(row, "bytes")),
            ago(row["last_access"].as_f64(), now),
            place(args.by, mount, row),
        );
    }
    text.push_str(counted(status));
    if rows.iter().any(is_sampled) {
        text.push_str("~ is the estimate of a sample: the accesses came too fast to see each\n");
    }
    let _ = writeln!(
        text,
        "warm from {}, hot from {}; READS, WRITES, BYTES are rates that halve every {}",
        number(status, "warm_from"),
        number(status, "hot_from"),
        match status["half_lives_s"][0].as_f64() {
            None | Some(3600.0) => "hour".to_owned(),
            Some(seconds) => span(seconds),
        },
    );
    text
}

/// What is said where not every access is counted.
pub fn counted(status: &Value) -> &'static str {
    match status["counts"].as_str() {
        Some("opens") => {
            "heat=opens: each open counts as a use of the whole file; what is read and written is \
             not seen\n"
        }
        _ => "",
    }
}

fn place_head(by: By) -> &'static str {
    match by {
        By::File => "OWNER     PATH",
        By::Range => "OWNER     RANGE (MiB) OF PATH",
        By::Dir => "FILES     DIRECTORY",
        By::User => "USER",
        By::Group => "GROUP",
        By::Project => "PROJECT",
    }
}

/// What stands at the end of a row.
fn place(by: By, mount: &Path, row: &Value) -> String {
    let path = || shown_path(mount, row);
    let owner = || owner(QuotaKind::User, count(row, "uid"));
    match by {
        By::File => format!("{:<9} {}", owner(), path()),
        By::Range => {
            let mib = count(row, "start") >> 20;
            format!("{:<9} {mib:>7} {}", owner(), path())
        }
        By::Dir => format!("{:<9} {}", count(row, "files"), path()),
        By::User => owner_of_row(QuotaKind::User, row),
        By::Group => owner_of_row(QuotaKind::Group, row),
        By::Project => owner_of_row(QuotaKind::Project, row),
    }
}

fn owner_of_row(kind: QuotaKind, row: &Value) -> String {
    owner(kind, count(row, "id"))
}

/// The name of a user, group or project, or its number.
pub fn owner(kind: QuotaKind, id: u64) -> String {
    let who = u32::try_from(id).map(|id| QuotaId { kind, id });
    let name = who.ok().and_then(name_of);
    name.unwrap_or_else(|| id.to_string())
}
