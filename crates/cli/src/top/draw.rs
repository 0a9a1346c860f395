//! The screen: a title, the tabs, a note, a table, the keys.

use super::grid::{Cell, Content, fitting, path_end, squeezed, width};
use super::look::Look;
use super::number;
use super::state::{AROUND, State};
use super::tab::Tab;
use crate::printable::printable;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use std::time::Instant;

/// The least terminal that is drawn in.
pub const LEAST: (u16, u16) = (40, 8);
/// Line of the tabs, and of the headings.
pub const TABS: u16 = 1;
/// Line of the headings.
pub const HEADS: u16 = 3;

const HELP: [&str; 14] = [
    "Tab, Left, Right, 1-5   another tab",
    "s, S                    sort by the next column, by the one before",
    "r                       the other way round",
    "/                       only rows with some words in their name; Esc: all",
    "Space                   freeze the screen, and go on",
    "v                       heat of files, of ranges of 1 MiB, of directories",
    "p                       record the lock profile, and end that; needs the mount's owner",
    "+, -                    look more seldom, more often",
    "Up, Down, Page, Home, End, j, k   scroll",
    "Ctrl-L  draw again      Ctrl-Z  to the shell      q, Ctrl-C  end",
    "",
    "OPERATIONS times are of the last interval; LOAD is how many run at once.",
    "HEAT is 0 (never) to 100, warm from 25, hot from 60, and halves every hour.",
    "Any key goes on.",
];

/// Draws everything.
pub fn draw(screen: &mut Frame, state: &State, look: Look, now: Instant) {
    let area = screen.area();
    if (area.width, area.height) < LEAST || area.height < LEAST.1 {
        let text = format!("{}x{} is too small", area.width, area.height);
        line(screen, 0, Line::raw(text));
        return;
    }
    let places = usize::from(area.width);
    title(screen, state, look, now, places);
    tabs(screen, state);
    if state.has_help {
        for (number, text) in HELP.iter().enumerate() {
            let text = fitting(text, places, true, look.cut());
            line(screen, 3 + number as u16, Line::raw(text));
        }
    } else {
        table(screen, state, look, places);
    }
    keys(screen, state, look, places);
}

/// Puts a line on the screen, if that has it.
fn line(screen: &mut Frame, number: u16, line: Line) {
    let area = screen.area();
    if number < area.height {
        screen.render_widget(line, Rect::new(0, number, area.width, 1));
    }
}

fn title(screen: &mut Frame, state: &State, look: Look, now: Instant, places: usize) {
    let mut right = match state.frame() {
        Some(frame) => format!(
            "{} ops/s, {} ",
            number::count(frame.volume.ops_per_second),
            number::time(state.interval.as_secs_f64()),
        ),
        None => String::new(),
    };
    let silent = state.silent(now);
    if let Some(silent) = silent {
        right = format!("no answer for {}s ", silent.as_secs());
    }
    if state.is_frozen {
        right = format!("FROZEN {right}");
    }
    let left = places.saturating_sub(width(&right));
    let mount = state.mount.display().to_string();
    let mount = printable(&mount);
    let name = "hearth top ";
    let mount = path_end(&mount, left.saturating_sub(name.len() + 1), look.cut());
    let text = fitting(&format!("{name}{mount}"), left, true, look.cut());
    let style = match silent {
        Some(_) => Style::new().add_modifier(Modifier::REVERSED),
        None => Style::new().add_modifier(Modifier::BOLD),
    };
    line(
        screen,
        0,
        Line::from(vec![Span::styled(text + &right, style)]),
    );
}

/// The text of a tab.
fn label(tab: Tab) -> String {
    format!(" {} {} ", tab as usize + 1, tab.name())
}

/// The tab at a column of the screen.
pub fn tab_at(column: u16) -> Option<Tab> {
    let mut from = 0;
    Tab::ALL.into_iter().find(|tab| {
        from += label(*tab).len();
        usize::from(column) < from
    })
}

fn tabs(screen: &mut Frame, state: &State) {
    let span = |tab: Tab| {
        let style = match tab == state.tab {
            true => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
            false => Style::new(),
        };
        Span::styled(label(tab), style)
    };
    line(screen, TABS, Line::from_iter(Tab::ALL.map(span)));
}

/// The column of the table at a column of the screen.
pub fn column_at(state: &State, places: u16, column: u16) -> Option<usize> {
    let mut from = 0;
    let fitted = state.page().grid.fitted(usize::from(places));
    let found = fitted.into_iter().find(|(_, places)| {
        from += places + 1;
        usize::from(column) < from
    });
    found.map(|(number, _)| number)
}

fn table(screen: &mut Frame, state: &State, look: Look, places: usize) {
    let page = state.page();
    let note = fitting(&page.note, places, true, look.cut());
    line(screen, 2, Line::raw(note));
    let (grid, fitted) = (&page.grid, page.grid.fitted(places));
    let sorting = state.sorting();
    let heads = fitted.iter().map(|(number, places)| {
        let column = &grid.columns[*number];
        let is_sorted = *number == sorting.column;
        let style = Style::new().add_modifier(match is_sorted {
            true => Modifier::REVERSED | Modifier::BOLD,
            false => Modifier::REVERSED,
        });
        let sign = match (is_sorted, sorting.reversed) {
            (false, _) => "",
            (true, false) => "*",
            (true, true) => "^",
        };
        let head = format!("{}{sign}", column.head);
        // A sign that does not fit is not worth a letter of the name.
        let head = match width(&head) <= *places {
            true => head,
            false => column.head.to_owned(),
        };
        Span::styled(
            fitting(&head, *places, column.left, look.cut()) + " ",
            style,
        )
    });
    line(screen, HEADS, Line::from_iter(heads));
    let rows = usize::from(screen.area().height).saturating_sub(AROUND);
    for (number, row) in grid.rows.iter().skip(state.first()).take(rows).enumerate() {
        let spans = fitted.iter().flat_map(|(number, places)| {
            let left = grid.columns[*number].left;
            cell(&row[*number], *places, left, look)
        });
        line(screen, HEADS + 1 + number as u16, Line::from_iter(spans));
    }
}

/// A cell and the space behind it.
fn cell(cell: &Cell, places: usize, left: bool, look: Look) -> Vec<Span<'static>> {
    let text = match &cell.content {
        Content::Text(text) => fitting(text, places, left, look.cut()),
        Content::Path(path) => {
            let path = path_end(path, places, look.cut());
            fitting(&path, places, left, look.cut())
        }
        Content::Strip(cells) => {
            let cells = squeezed(cells, places);
            let rest = " ".repeat(places - cells.len() + 1);
            let sign = |cell: &Option<f64>| {
                let tone = cell.map_or(super::grid::Tone::Plain, super::grid::Tone::Hot);
                Span::styled(look.sign(*cell), look.style(tone))
            };
            let signs = cells.iter().map(sign);
            return signs.chain([Span::raw(rest)]).collect();
        }
    };
    vec![Span::styled(text, look.style(cell.tone)), Span::raw(" ")]
}

fn keys(screen: &mut Frame, state: &State, look: Look, places: usize) {
    let text = match (&state.complaint, state.is_typing, &*state.filter) {
        (Some(complaint), _, _) => complaint.clone(),
        (_, true, filter) => format!("/{filter}_   Enter keeps it, Esc clears it"),
        (_, _, "") => {
            let more = match state.tab {
                Tab::Heat => "v next ranking  ",
                Tab::Locks => "p profile on, off  ",
                _ => "",
            };
            format!("{more}s sort  r reverse  / filter  Space freeze  ? help  q quit")
        }
        (_, _, filter) => format!("rows with '{filter}' alone; Esc shows all  ? help  q quit"),
    };
    let style = Style::new().add_modifier(Modifier::BOLD);
    let text = fitting(&text, places, true, look.cut());
    let last = screen.area().height - 1;
    line(screen, last, Line::from(Span::styled(text, style)));
}

#[cfg(test)]
mod tests;
