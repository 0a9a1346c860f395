//! `hearth tune`: the tunables below `.hearth/sys`, which `.hearth/sys/help` lists.

use crate::args::TuneArgs;
use crate::ask::{LONGEST, refusal};
use crate::control_file;
use crate::failure::Failure;
use crate::output::{self, Colour, Paint};
use crate::wrong_place::{OWNERS, unreached};
use serde_json::json;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// A tunable as the volume lists it.
#[derive(Debug)]
struct Tunable<'a> {
    /// Path below `.hearth/sys`.
    name: &'a str,
    /// What it takes, in a phrase.
    takes: &'a str,
}

/// A tunable and its new value, or none if it is to be shown.
type Order<'a> = (&'a Tunable<'a>, Option<&'a str>);

/// A tunable and what it is now.
type Valued<'a> = (&'a Tunable<'a>, String);

/// Shows tunables of a mounted volume, and sets them.
pub fn run(args: &TuneArgs) -> Result<(), Failure> {
    let mount = &args.mountpoint;
    let help = read(mount, "help")?;
    if help.is_empty() {
        return Err(Failure::empty(mount));
    }
    let all: Vec<Tunable<'_>> = help.lines().filter_map(listed).collect();
    let orders: Vec<Order<'_>> = if args.tunables.is_empty() {
        all.iter().map(|tunable| (tunable, None)).collect()
    } else {
        let typed = args.tunables.iter();
        let orders = typed.map(|typed| order(mount, &all, typed));
        orders.collect::<Result<_, _>>()?
    };
    let mut shown = Vec::new();
    for (tunable, value) in orders {
        match value {
            Some(value) => set(mount, tunable.name, value)?,
            None => shown.push((tunable, value_of(mount, tunable)?)),
        }
    }
    output::print(&if args.tunables.is_empty() && !args.json {
        table(&shown, Paint::for_stdout())
    } else if shown.is_empty() || !args.json {
        shown
            .iter()
            .map(|(_, value)| format!("{value}\n"))
            .collect()
    } else {
        in_json(&shown)
    })
}

/// A line of `.hearth/sys/help`.
fn listed(line: &str) -> Option<Tunable<'_>> {
    let (name, takes) = line.split_once('\t')?;
    Some(Tunable { name, takes })
}

/// What was typed about one tunable.
fn order<'a>(mount: &Path, all: &'a [Tunable<'a>], typed: &'a str) -> Result<Order<'a>, Failure> {
    let (name, value) = match typed.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (typed, None),
    };
    match all.iter().find(|tunable| tunable.name == name) {
        Some(tunable) => Ok((tunable, value)),
        None => Err(Failure::refused(format!(
            "'{name}' is no tunable; 'hearth tune {}' lists them",
            mount.display()
        ))),
    }
}

fn set(mount: &Path, name: &str, value: &str) -> Result<(), Failure> {
    let only_owner = || {
        let what = format!("only the owner of the mount and root may set {name}; ask them");
        Failure::at(mount, what)
    };
    let opened = control_file::open_to_ask(mount, &path(name));
    let mut file = opened.map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => only_owner(),
        ErrorKind::ReadOnlyFilesystem => {
            let what = format!("is mounted with ro; mount it without, then set {name}");
            Failure::at(mount, what)
        }
        _ => unread(mount, name, &error),
    })?;
    // A kernel passes no empty write on, and a long one in pieces.
    let line = format!("{value}\n");
    if line.len() > LONGEST {
        let what = format!(
            "{name}: too long a value; 'hearth tune {}' says what it takes",
            mount.display()
        );
        return Err(Failure::at(mount, what));
    }
    file.write_all(line.as_bytes())
        .map_err(|error| match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::Unsupported => {
                refusal(&file, mount, &path(name), &error)
            }
            _ => unread(mount, name, &error),
        })
}

fn value_of(mount: &Path, tunable: &Tunable<'_>) -> Result<String, Failure> {
    read(mount, tunable.name).map(|text| text.trim_end().to_owned())
}

fn read(mount: &Path, name: &str) -> Result<String, Failure> {
    control_file::read(mount, &path(name)).map_err(|error| unread(mount, name, &error))
}

fn path(name: &str) -> String {
    format!("sys/{name}")
}

fn unread(mount: &Path, name: &str, error: &std::io::Error) -> Failure {
    unreached(mount, &path(name), error, OWNERS)
}

fn in_json(shown: &[Valued<'_>]) -> String {
    let rows = shown.iter().map(
        |(tunable, value)| json!({ "name": tunable.name, "value": value, "takes": tunable.takes }),
    );
    let rows: Vec<_> = rows.collect();
    format!("{}\n", json!({ "tunables": rows }))
}

fn table(shown: &[Valued<'_>], paint: Paint) -> String {
    let longest = |of: fn(&Valued<'_>) -> usize, heading: &str| {
        shown.iter().map(of).max().unwrap_or(0).max(heading.len())
    };
    let name_width = longest(|(tunable, _)| tunable.name.len(), "NAME");
    let value_width = longest(|(_, value)| value.len(), "VALUE");
    let row = |name: &str, value: &str, takes: &str| {
        format!("{name:<name_width$}  {value:<value_width$}  {takes}")
    };
    let mut text = paint.paint(Colour::Bold, &row("NAME", "VALUE", "TAKES")) + "\n";
    for (tunable, value) in shown {
        text += &row(tunable.name, value, tunable.takes);
        text.push('\n');
    }
    text
}
