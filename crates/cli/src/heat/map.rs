//! `hearth heat map`: a terminal, a picture, a page or JSON.

use super::args::MapArgs;
use super::palette::Shades;
use super::picture;
use super::place::ask_json;
use super::row::{cells, grade, list, number, on_mount, shown_path};
use super::top::counted;
use super::units::bytes;
use crate::failure::{Failure, reason};
use crate::output;
use crate::printable::printable_path;
use crate::which::mount_of;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// Temperatures along a file in a picture and in JSON.
const CELLS: usize = 256;
/// Places of a line that is no terminal's.
const WIDTH: usize = 120;
/// Places for temperature, name and size.
const LEFT: usize = 23;

/// Shows the map, or writes it to files.
pub fn run(args: &MapArgs) -> Result<(), Failure> {
    let mount = mount_of(args.mount.as_deref())?;
    if args.json {
        let mut rows = rows(&mount, args.count, CELLS)?;
        rows.iter_mut().for_each(|row| on_mount(&mount, row));
        return output::print(&list(&rows));
    }
    let files = [(&args.svg, false), (&args.html, true)];
    if files.iter().all(|(file, _)| file.is_none()) {
        let width = width();
        // Half of a line for the ranges leaves a path its place.
        let cells = (width / 2).saturating_sub(LEFT / 2).max(16);
        let rows = rows(&mount, args.count, cells)?;
        return output::print(&lines(&mount, &rows, cells));
    }
    let rows = rows(&mount, args.count, CELLS)?;
    let files = files
        .into_iter()
        .filter_map(|(file, page)| Some((file.as_deref()?, page)));
    for (file, page) in files {
        let text = match page {
            true => picture::page(&mount, &rows),
            false => picture::svg(&mount, &rows),
        };
        std::fs::write(file, text).map_err(|error| {
            let what = format!("{}; name a file that can be written", reason(&error));
            Failure::at(file, what)
        })?;
    }
    Ok(())
}

fn rows(mount: &Path, most: u32, cells: usize) -> Result<Vec<Value>, Failure> {
    match ask_json(mount, &format!("heat map {most} {cells}"))? {
        Value::Array(rows) => Ok(rows),
        _ => Ok(Vec::new()),
    }
}

/// Places of a line of the terminal.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns < 60 { WIDTH } else { columns }
}

fn lines(mount: &Path, rows: &[Value], most: usize) -> String {
    let shades = Shades::for_stdout();
    let mut text = format!(
        "{}: the hottest files, from first range to last\n",
        printable_path(mount)
    );
    if rows.is_empty() {
        return text + "nothing was used yet, or tracking is off: 'hearth heat on' begins\n";
    }
    text.push_str(rows.first().map_or("", counted));
    for row in rows {
        let cells = cells(row);
        let rest = " ".repeat(most.saturating_sub(cells.len()));
        let temperature = number(row, "temperature");
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} {:<4} {:>10}  {}{rest}  {}",
            shades.paint(temperature, &format!("{temperature:>5.1}")),
            grade(row),
            bytes(number(row, "size")),
            shades.band(&cells),
            shown_path(mount, row),
        );
    }
    let scale: Vec<Option<f64>> = (0..=40).map(|step| Some(f64::from(step) * 2.5)).collect();
    let _ = writeln!(text, "\n0 {} 100   · no record", shades.band(&scale));
    let _ = writeln!(text, "  {:<10}{:<14}hot 60", "cold", "warm 25");
    text
}
