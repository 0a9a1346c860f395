//! The matrix of all pairs of calls: as text, as a picture, as a page.

use super::verb::Verb;
use super::verdict::{Sum, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The sums by pair of calls.
pub struct Matrix(BTreeMap<(Verb, Verb), Sum>);

/// Width of a cell of the picture, and height of a row.
const CELL: usize = 22;
/// The margin for names.
const MARGIN: usize = 84;

impl Matrix {
    /// Returns the matrix of `verdicts`.
    pub fn of<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Matrix {
        let mut cells: BTreeMap<(Verb, Verb), Sum> = BTreeMap::new();
        for verdict in verdicts {
            let [a, b] = verdict.case.sides.map(|op| op.verb);
            cells.entry((a.min(b), a.max(b))).or_default().add(verdict);
        }
        Matrix(cells)
    }

    /// Returns each pair with its sums.
    pub fn pairs(&self) -> impl Iterator<Item = (Verb, Verb, Sum)> {
        self.0.iter().map(|(&(a, b), &sum)| (a, b, sum))
    }

    /// Returns a triangle of characters: `.` all free, a digit the tenths in conflict, rounded up,
    /// `#` all in conflict, `a` the rest allowed.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (n, row) in Verb::ALL.into_iter().enumerate() {
            let _ = write!(out, "{:>10} ", row.name());
            for column in Verb::ALL.into_iter().take(n + 1) {
                out.push(self.0.get(&(column, row)).map_or(' ', |sum| symbol(*sum)));
            }
            out.push('\n');
        }
        out.push_str(
            "\n. all free   a free but for allowed ones   1-9 tenths in conflict   # all\n",
        );
        out
    }

    /// Returns the matrix as a picture.
    pub fn svg(&self) -> String {
        let side = MARGIN + CELL * Verb::ALL.len() + 8;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{side}\" height=\"{side}\" \
             font-family=\"sans-serif\" font-size=\"10\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        for (n, verb) in Verb::ALL.into_iter().enumerate() {
            let middle = MARGIN + CELL * n + CELL / 2;
            let (name, end) = (verb.name(), MARGIN - 4);
            let _ = writeln!(
                out,
                "<text x=\"{end}\" y=\"{}\" text-anchor=\"end\">{name}</text>\n\
                 <text transform=\"translate({},{end}) rotate(-90)\">{name}</text>",
                middle + 3,
                middle + 3
            );
        }
        for (a, b, sum) in self.pairs() {
            let place = |verb: Verb| MARGIN + CELL * (verb as usize);
            let (x, y) = (place(a), place(b));
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{w}\" fill=\"{}\">\
                 <title>{} | {}: {} of {} free, {} more allowed</title></rect>",
                colour(sum),
                a.name(),
                b.name(),
                sum.free,
                sum.total,
                sum.allowed,
                w = CELL - 1,
            );
            if sum.free < sum.total {
                let (x, y) = (x + CELL / 2, y + CELL / 2 + 3);
                let conflicts = sum.total - sum.free;
                let _ = writeln!(
                    out,
                    "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" font-size=\"8\">\
                     {conflicts}</text>"
                );
            }
        }
        out.push_str("</svg>\n");
        out
    }

    /// Returns the picture as a page, with `text` below.
    pub fn html(&self, text: &str) -> String {
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
        format!(
            "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Conflicts</title>\n\
             <h1>Conflicts of commuting calls</h1>\n\
             <p>Each cell is a pair of calls; green: every case is free of conflicts; the number \
             is that of cases in conflict; grey: all of these are allowed by a named rule.</p>\n\
             {}\n<pre>{escaped}</pre>\n",
            self.svg()
        )
    }
}

fn symbol(sum: Sum) -> char {
    let conflicts = sum.total - sum.free;
    match conflicts {
        0 => '.',
        _ if conflicts == sum.allowed => 'a',
        _ if conflicts == sum.total => '#',
        _ => {
            let tenths = (conflicts * 10).div_ceil(sum.total).min(9);
            char::from_digit(tenths as u32, 10).unwrap_or('9')
        }
    }
}

fn colour(sum: Sum) -> String {
    let conflicts = sum.total - sum.free;
    if conflicts == 0 {
        return "#9fd8a0".to_owned();
    }
    if conflicts == sum.allowed {
        return "#c8c8c8".to_owned();
    }
    // From yellow to red.
    let share = conflicts as f64 / sum.total as f64;
    format!("rgb(255,{},90)", (220.0 * (1.0 - share)) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(total: usize, free: usize, allowed: usize) -> Sum {
        Sum {
            total,
            free,
            allowed,
        }
    }

    #[test]
    fn one_conflict_is_seen_among_many_cases() {
        assert_eq!(symbol(sum(1000, 1000, 0)), '.');
        assert_eq!(symbol(sum(1000, 999, 0)), '1');
        assert_eq!(symbol(sum(1000, 999, 1)), 'a');
        assert_eq!(symbol(sum(10, 0, 3)), '#');
    }

    #[test]
    fn the_picture_has_a_cell_for_each_pair() {
        let cells = [((Verb::Open, Verb::Stat), sum(4, 3, 0))].into();
        let svg = Matrix(cells).svg();
        assert!(svg.contains("open | stat: 3 of 4 free"));
        assert_eq!(svg.matches("<title>").count(), 1);
    }
}
