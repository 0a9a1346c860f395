//! A frame as text: hot files first, then what was done, by whom, and what it waited for.

use super::frame::Frame;
use super::grid::{Cell, Column, Content, Grid, Tone, fitting, path_end, squeezed};
use super::page::{page, sorting};
use super::tab::{Ranked, Tab};
use crate::heat::palette::Shades;
use crate::output::{Colour, Paint};
use crate::printable::printable;
use std::fmt::Write;
use std::path::Path;

/// The order of the tabs, and most rows of each.
const SECTIONS: [(Tab, usize); 5] = [
    (Tab::Heat, 10),
    (Tab::Operations, 12),
    (Tab::Tenants, 12),
    (Tab::Locks, 8),
    (Tab::Store, 24),
];
/// Rows of a tab that is the only one.
const ALONE: usize = 100;

/// The whole text, `width` places wide.
pub fn text(mount: &Path, frame: &Frame, only: Option<Tab>, width: usize) -> String {
    let (shades, paint) = (Shades::for_stdout(), Paint::for_stdout());
    let mut text = String::new();
    let source = frame.volume.labels.get("below").map_or_else(
        || match frame.volume.store {
            Some(_) => "a store".to_owned(),
            None => "in memory".to_owned(),
        },
        |below| format!("host:{below}"),
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}: {}, {} operations/s over {}",
        printable(&mount.to_string_lossy()),
        printable(&source),
        super::number::count(frame.volume.ops_per_second),
        super::number::time(frame.seconds),
    );
    let sections = SECTIONS.iter().filter(|(tab, _)| match only {
        Some(only) => only == *tab,
        None => true,
    });
    for (tab, most) in sections {
        let most = if only.is_some() { ALONE } else { *most };
        section(
            &mut text,
            mount,
            frame,
            (*tab, most, width),
            (shades, paint),
        );
    }
    text
}

fn section(
    text: &mut String,
    mount: &Path,
    frame: &Frame,
    (tab, most, width): (Tab, usize, usize),
    (shades, paint): (Shades, Paint),
) {
    let mut page = page(mount, frame, tab, Ranked::Files);
    page.grid.sort(sorting(tab));
    let _ = writeln!(text, "\n{}: {}", tab.name().to_uppercase(), page.note);
    if page.grid.rows.is_empty() {
        return;
    }
    let fitted = page.grid.fitted(width);
    let head = head(&page.grid, &fitted);
    let _ = writeln!(text, "{}", paint.paint(Colour::Bold, &head));
    for row in page.grid.rows.iter().take(most) {
        let cells = fitted.iter().map(|(number, places)| {
            shown(
                &row[*number],
                &page.grid.columns[*number],
                *places,
                shades,
                paint,
            )
        });
        let line = cells.collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if page.grid.rows.len() > most {
        let _ = writeln!(text, "... {} more", page.grid.rows.len() - most);
    }
}

fn head(grid: &Grid, fitted: &[(usize, usize)]) -> String {
    let heads = fitted.iter().map(|(number, places)| {
        let column = &grid.columns[*number];
        fitting(column.head, *places, column.left, '…')
    });
    heads.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

fn shown(cell: &Cell, column: &Column, places: usize, shades: Shades, paint: Paint) -> String {
    let text = match &cell.content {
        Content::Text(text) => fitting(text, places, column.left, '…'),
        Content::Path(path) => fitting(&path_end(path, places, '…'), places, column.left, '…'),
        Content::Strip(cells) => {
            let cells = squeezed(cells, places);
            let rest = " ".repeat(places - cells.len());
            return shades.strip(&cells) + &rest;
        }
    };
    match cell.tone {
        Tone::Plain => text,
        Tone::Hot(temperature) => shades.paint(temperature, &text),
        Tone::Warn => paint.paint(Colour::Yellow, &text),
        Tone::Bad => paint.paint(Colour::Red, &text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::sample;

    #[test]
    fn hot_files_come_first_and_every_line_fits_eighty_places() {
        let text = text(Path::new("/mnt"), &sample::frame(), None, 80);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "/mnt: a store, 1.5k operations/s over 2.0s");
        assert!(lines[2].starts_with("HEAT: files: 2 files"), "{text}");
        assert!(
            lines[3].starts_with("FILE ") && lines[3].ends_with("RANGES"),
            "{text}"
        );
        assert!(
            lines[4].starts_with("/logs/hot.log ") && lines[4].contains(" 99.5 "),
            "{text}"
        );
        assert!(lines[4].ends_with("█▁·"), "{text}");
        assert!(
            lines
                .iter()
                .all(|line| super::super::grid::width(line) <= 80),
            "{text}"
        );
        for section in ["OPERATIONS: ", "TENANTS: ", "LOCKS: ", "STORE: "] {
            assert!(
                lines.iter().any(|line| line.starts_with(section)),
                "{section}\n{text}"
            );
        }
        assert!(!text.contains('\x1b'), "{text}");
    }

    #[test]
    fn one_tab_alone_is_the_only_one() {
        let text = text(Path::new("/mnt"), &sample::frame(), Some(Tab::Tenants), 80);
        assert!(text.contains("TENANTS") && !text.contains("HEAT"), "{text}");
        assert!(text.contains("project:7"), "{text}");
    }
}
