//! Curves as SVG.

use crate::failure::Context;
use crate::table::short;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A curve for each of several things over the number of tasks.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    title: String,
    unit: String,
    curves: Vec<(String, Vec<(f64, f64)>)>,
}

const COLOURS: [&str; 8] = [
    "#c0392b", "#1f618d", "#1e8449", "#b7950b", "#6c3483", "#5d6d7e", "#d35400", "#148f77",
];
/// Width and height of a panel with its margins, in pixels.
const PANEL: (f64, f64) = (720.0, 380.0);
/// Left, top, right, bottom; the names of the curves stand to the right.
const MARGINS: (f64, f64, f64, f64) = (64.0, 40.0, 200.0, 44.0);

impl Chart {
    /// A chart without curves; `unit` is what the vertical axis counts.
    pub fn new(title: impl Into<String>, unit: impl Into<String>) -> Chart {
        Chart {
            title: title.into(),
            unit: unit.into(),
            curves: Vec::new(),
        }
    }

    /// Adds a curve of (tasks, value); points that were not measured are left out.
    pub fn curve(&mut self, name: impl Into<String>, points: Vec<(usize, Option<f64>)>) {
        let points: Vec<(f64, f64)> = points
            .into_iter()
            .filter_map(|(tasks, value)| Some((tasks as f64, value.filter(|v| v.is_finite())?)))
            .collect();
        if !points.is_empty() {
            self.curves.push((name.into(), points));
        }
    }

    pub fn svg(&self) -> String {
        let (width, height) = PANEL;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
             <text x=\"{}\" y=\"22\" font-size=\"15\">{}</text>\n",
            MARGINS.0,
            escaped(&self.title)
        );
        self.axes(&mut out);
        for (n, (name, points)) in self.curves.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            let at: Vec<(f64, f64)> = points.iter().map(|&point| self.place(point)).collect();
            let line: Vec<String> = at.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                line.join(" ")
            );
            for (x, y) in at {
                let _ = writeln!(
                    out,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
                );
            }
            let (x, y) = (width - MARGINS.2 + 14.0, MARGINS.1 + 8.0 + 18.0 * n as f64);
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>",
                y - 6.0,
                x + 18.0,
                y,
                escaped(name)
            );
        }
        out.push_str("</svg>\n");
        out
    }

    /// Draws it as `NAME.svg`: beside the rows if they are kept in a file, else in `folder`.
    pub fn draw(&self, name: &str, rows: Option<&Path>, folder: &str) -> Result<PathBuf, String> {
        let path = match rows {
            Some(rows) => {
                let stem = rows.file_stem().unwrap_or_default().to_string_lossy();
                rows.with_file_name(format!("{stem}-{name}.svg"))
            }
            None => {
                std::fs::create_dir_all(folder).context(folder)?;
                Path::new(folder).join(format!("{name}.svg"))
            }
        };
        std::fs::write(&path, self.svg()).at(&path)?;
        Ok(path)
    }

    fn axes(&self, out: &mut String) {
        let (width, height) = PANEL;
        let (left, bottom) = (MARGINS.0, height - MARGINS.3);
        let right = width - MARGINS.2;
        let top = self.top();
        for step in 0..=4 {
            let value = top * f64::from(step) / 4.0;
            let (_, y) = self.place((1.0, value));
            let _ = writeln!(
                out,
                "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" \
                 stroke=\"#dddddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 4.0,
                short(value)
            );
        }
        let mut tasks: Vec<f64> = self.points().map(|(tasks, _)| tasks).collect();
        tasks.sort_by(f64::total_cmp);
        tasks.dedup();
        for tasks in tasks {
            let (x, _) = self.place((tasks, 0.0));
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tasks}</text>",
                bottom + 16.0
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">tasks; upright: {}</text>",
            f64::midpoint(left, right),
            height - 8.0,
            escaped(&self.unit)
        );
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.curves
            .iter()
            .flat_map(|(_, points)| points.iter().copied())
    }

    /// The largest value, with some air.
    fn top(&self) -> f64 {
        let top = self.points().map(|(_, value)| value).fold(0.0, f64::max);
        if top > 0.0 { top * 1.05 } else { 1.0 }
    }

    /// Where a point lies: twice the tasks is one step to the right.
    fn place(&self, (tasks, value): (f64, f64)) -> (f64, f64) {
        let most = self.points().map(|(tasks, _)| tasks).fold(2.0, f64::max);
        let share = tasks.max(1.0).log2() / most.log2();
        let (across, up) = (
            PANEL.0 - MARGINS.0 - MARGINS.2,
            PANEL.1 - MARGINS.1 - MARGINS.3,
        );
        (
            MARGINS.0 + share * across,
            PANEL.1 - MARGINS.3 - value / self.top() * up,
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let mut chart = Chart::new("open & close", "operations per second");
        chart.curve("lib", vec![(1, Some(10.0)), (2, None), (4, Some(40.0))]);
        chart.curve("nothing", vec![(1, None)]);
        chart
    }

    #[test]
    fn what_was_measured_is_drawn_and_nothing_else() {
        let svg = chart().svg();
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("open &amp; close") && !svg.contains("nothing"));
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn more_is_higher_and_further_to_the_right() {
        let chart = chart();
        let (low, high) = (chart.place((1.0, 10.0)), chart.place((4.0, 40.0)));
        assert!(high.0 > low.0 && high.1 < low.1);
        assert!(high.0 <= PANEL.0 - MARGINS.2 && high.1 >= MARGINS.1);
        let middle = chart.place((2.0, 0.0));
        assert!((middle.0 - f64::midpoint(low.0, high.0)).abs() < 0.01);
    }
}
