//! A table in a given width: which columns fit, in which order rows stand, what a cell shows.

use ratatui::text::Span;
use std::cmp::Ordering;

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Its heading.
    pub head: &'static str,
    /// Least places.
    pub width: usize,
    /// Left-aligned, for names.
    pub left: bool,
    /// Which part of the places that are left it takes, in hundredths.
    pub grow: usize,
}

impl Column {
    /// Numbers, to the right.
    pub const fn number(head: &'static str, width: usize) -> Column {
        Column {
            head,
            width,
            left: false,
            grow: 0,
        }
    }

    /// Text, to the left.
    pub const fn text(head: &'static str, width: usize, grow: usize) -> Column {
        Column {
            head,
            width,
            left: true,
            grow,
        }
    }
}

/// How a cell looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Tone {
    /// As the rest.
    #[default]
    Plain,
    /// In the colour of a temperature.
    Hot(f64),
    /// Worth a look.
    Warn,
    /// Does not work.
    Bad,
}

/// What a cell shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Text; what is too long loses its end.
    Text(String),
    /// A path; what is too long loses its beginning.
    Path(String),
    /// Temperatures from the first range of a file to the last.
    Strip(Vec<Option<f64>>),
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What is shown.
    pub content: Content,
    /// How.
    pub tone: Tone,
    /// What it is sorted by, if that is a number; else its text.
    pub number: Option<f64>,
}

impl Cell {
    /// Text.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell {
            content: Content::Text(text.into()),
            tone: Tone::Plain,
            number: None,
        }
    }

    /// A path.
    pub fn path(path: impl Into<String>) -> Cell {
        Cell {
            content: Content::Path(path.into()),
            tone: Tone::Plain,
            number: None,
        }
    }

    /// A number, as `shown` shows it; without one a dash, which stands behind every number.
    pub fn number(number: Option<f64>, shown: impl FnOnce(f64) -> String) -> Cell {
        Cell {
            content: Content::Text(number.map_or("-".to_owned(), shown)),
            tone: Tone::Plain,
            number: Some(number.unwrap_or(f64::NEG_INFINITY)),
        }
    }

    /// A strip of temperatures, sorted by the hottest.
    pub fn strip(cells: Vec<Option<f64>>) -> Cell {
        let hottest = cells.iter().flatten().fold(-1.0, |a: f64, b| a.max(*b));
        Cell {
            content: Content::Strip(cells),
            tone: Tone::Plain,
            number: Some(hottest),
        }
    }

    /// This cell in another tone.
    pub fn toned(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }
}

/// A table.
#[derive(Debug, Default)]
pub struct Grid {
    /// Its columns; the first is what rows are filtered by.
    pub columns: &'static [Column],
    /// A cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// By which column rows are sorted, and whether the other way round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sorting {
    /// Number of the column.
    pub column: usize,
    /// Smallest number first, last name first.
    pub reversed: bool,
}

impl Grid {
    /// Keeps the rows whose name has `words` in it, in any case.
    pub fn filter(&mut self, words: &str) {
        let words = words.to_lowercase();
        self.rows
            .retain(|row| match row.first().map(|cell| &cell.content) {
                Some(Content::Text(name) | Content::Path(name)) => {
                    name.to_lowercase().contains(&words)
                }
                _ => true,
            });
    }

    /// Largest number first, first name first; equal ones stay in their order.
    pub fn sort(&mut self, by: Sorting) {
        self.rows.sort_by(|a, b| {
            let order = match (a.get(by.column), b.get(by.column)) {
                (Some(a), Some(b)) => largest_first(a, b),
                _ => Ordering::Equal,
            };
            if by.reversed { order.reverse() } else { order }
        });
    }

    /// Numbers and places of the columns that fit into `width`, with a space between two. The first
    /// one always does; then those to the left, and what is left over goes to those that grow.
    pub fn fitted(&self, width: usize) -> Vec<(usize, usize)> {
        let mut fitted: Vec<(usize, usize)> = Vec::new();
        let mut left = width;
        for (number, column) in self.columns.iter().enumerate() {
            let needs = column.width + usize::from(number > 0);
            match needs <= left {
                true => fitted.push((number, column.width)),
                false if number == 0 => fitted.push((0, left)),
                false => continue,
            }
            left = left.saturating_sub(needs);
        }
        let growing = |number: usize| self.columns[number].grow;
        let all: usize = fitted.iter().map(|(number, _)| growing(*number)).sum();
        let over = left;
        for (number, places) in &mut fitted {
            let share = (over * growing(*number)).checked_div(all).unwrap_or(0);
            *places += share;
            left -= share;
        }
        if let (Some(first), true) = (fitted.first_mut(), all > 0) {
            first.1 += left;
        }
        fitted
    }
}

fn largest_first(a: &Cell, b: &Cell) -> Ordering {
    match (a.number, b.number) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        _ => match (&a.content, &b.content) {
            (Content::Text(a) | Content::Path(a), Content::Text(b) | Content::Path(b)) => a.cmp(b),
            _ => Ordering::Equal,
        },
    }
}

/// Places that a text takes.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// `text` in exactly `places`: cut, or filled up with spaces.
pub fn fitting(text: &str, places: usize, left: bool, cut: char) -> String {
    let text = end_cut(text, places, cut);
    let rest = " ".repeat(places.saturating_sub(width(&text)));
    if left { text + &rest } else { rest + &text }
}

/// The beginning that fits, with `cut` for what does not.
fn end_cut(text: &str, places: usize, cut: char) -> String {
    if width(text) <= places {
        return text.to_owned();
    }
    let mut kept = String::new();
    for char in text.chars() {
        let next = format!("{kept}{char}");
        if width(&next) + 1 > places {
            break;
        }
        kept = next;
    }
    if places > 0 {
        kept.push(cut);
    }
    kept
}

/// The end of a path that fits, from a name's beginning where there is one, with `cut` before it.
pub fn path_end(path: &str, places: usize, cut: char) -> String {
    if width(path) <= places {
        return path.to_owned();
    }
    let starts = path.char_indices().map(|(at, _)| at).skip(1);
    let fits: Vec<usize> = starts.filter(|at| width(&path[*at..]) < places).collect();
    let whole_name = fits.iter().find(|at| path[**at..].starts_with('/'));
    // Not if nearly nothing of the places would be used.
    let whole_name = whole_name.filter(|at| width(&path[**at..]) * 2 >= places);
    match whole_name.or(fits.first()) {
        Some(at) => format!("{cut}{}", &path[*at..]),
        None => end_cut(path, places, cut),
    }
}

/// At most `places` temperatures, each the hottest of those that it stands for.
pub fn squeezed(cells: &[Option<f64>], places: usize) -> Vec<Option<f64>> {
    if cells.len() <= places || places == 0 {
        return cells.to_vec();
    }
    let hottest = |place: usize| {
        let from = place * cells.len() / places;
        let to = ((place + 1) * cells.len()).div_ceil(places);
        let known = cells[from..to.min(cells.len())].iter().flatten();
        known.copied().reduce(f64::max)
    };
    (0..places).map(hottest).collect()
}

#[cfg(test)]
mod tests;
