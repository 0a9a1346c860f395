//! Tables for people.

use std::fmt::Write;

/// Rows of cells under a heading; the first column is left-aligned, the others right-aligned.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this heading.
    pub fn new<T: Into<String>>(heading: impl IntoIterator<Item = T>) -> Table {
        let heading = heading.into_iter().map(Into::into);
        Table {
            rows: vec![heading.collect()],
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether it has a heading only.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// The table in Markdown.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cell = |row: &Vec<String>| row.get(column).map_or(0, |cell| cell.chars().count());
            self.rows.iter().map(cell).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for (n, row) in self.rows.iter().enumerate() {
            for (column, &width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", |cell| cell);
                let _ = match column {
                    0 => write!(out, "| {cell:width$} |"),
                    _ => write!(out, " {cell:>width$} |"),
                };
            }
            out.push('\n');
            if n == 0 {
                for (column, &width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(width);
                    let edge = if column == 0 { "|" } else { "" };
                    let end = if column == 0 { "-" } else { ":" };
                    let _ = write!(out, "{edge}-{dashes}{end}|");
                }
                out.push('\n');
            }
        }
        out
    }
}

/// Cells of a row, from whatever can be displayed.
#[macro_export]
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { [$($cell.to_string()),*] };
}

/// Half of an interval in percent of the value, or a dash if there is none.
pub fn percent(value: f64, half: f64) -> String {
    match half.is_nan() {
        true => "-".to_owned(),
        false => format!("{:.0}%", 100.0 * half / value),
    }
}

/// Half of an interval in the unit of the value, with `digits` digits, or a dash.
pub fn width(half: f64, digits: usize) -> String {
    match half.is_nan() {
        true => "-".to_owned(),
        false => format!("{half:.digits$}"),
    }
}

/// A number with three digits that count and a unit of thousands.
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let digits = match scaled {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{unit}")
}

/// The cells of a line of a table in Markdown.
#[cfg(test)]
pub fn cells_of(text: &str, line: usize) -> Vec<String> {
    let line = text.lines().nth(line).expect("a line");
    let line = line
        .strip_prefix('|')
        .and_then(|line| line.strip_suffix('|'));
    let cells = line.expect("a line of a table").split('|');
    cells.map(|cell| cell.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        for (value, text) in [
            (0.5, "0.50"),
            (12.34, "12.3"),
            (999.0, "999"),
            (1234.0, "1.23k"),
            (2.5e7, "25.0M"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!(
            (percent(2.0, 0.5), percent(2.0, f64::NAN)),
            ("25%".into(), "-".into())
        );
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["a", "bb"]);
        assert!(table.is_empty());
        table.row(cells!["long", 1]);
        assert_eq!(
            table.text(),
            "| a    | bb |\n|------|---:|\n| long |  1 |\n"
        );
    }
}
