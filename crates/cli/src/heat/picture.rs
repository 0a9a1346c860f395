//! The map as SVG, and as a page around it.

use super::palette::css;
use super::row::{accesses, cells, grade, number, shown_path};
use super::units::{bytes, rate};
use hearth::is_unprintable;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// Everything is in pixels of a picture this wide.
const WIDTH: f64 = 1280.0;
const MARGIN: f64 = 32.0;
/// Where the first row begins, below title and scale.
const TOP: f64 = 128.0;
const ROW: f64 = 24.0;
const STRIP: f64 = 16.0;
/// Where strips begin, and how long the longest is.
const LEFT: f64 = 440.0;
const LONGEST: f64 = 700.0;
const SHORTEST: f64 = 14.0;
/// Characters of a path that fit.
const PATH: usize = 44;

const BACKGROUND: &str = "#14151f";
const NO_RECORD: &str = "#272938";
const TEXT: &str = "#d9dae6";
const FAINT: &str = "#8a8da3";

/// The picture.
pub fn svg(mount: &Path, rows: &[Value]) -> String {
    let height = TOP + ROW * rows.len().max(1) as f64 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-family=\"ui-monospace, 'DejaVu Sans Mono', \
         Menlo, monospace\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"{BACKGROUND}\"/>\n"
    );
    head(&mut svg, mount, rows);
    if rows.is_empty() {
        text(
            &mut svg,
            (MARGIN, TOP + 16.0),
            FAINT,
            "nothing was used yet, or tracking is off",
        );
    }
    let longest = rows.iter().map(ranges).fold(2.0, f64::max);
    for (n, row) in rows.iter().enumerate() {
        file(&mut svg, row, TOP + ROW * n as f64, longest);
    }
    svg + "</svg>\n"
}

/// A page with the picture and nothing from anywhere else.
pub fn page(mount: &Path, rows: &[Value]) -> String {
    let title = escape(&format!("Heat of {}", mount.display()));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\nbody {{ margin: 0; background: {BACKGROUND}; }}\n\
         svg {{ display: block; margin: 0 auto; max-width: 100%; height: auto; }}\n\
         g.file:hover > text {{ fill: #fff; }}\n\
         g.file rect {{ transition: opacity .15s; }}\n\
         svg:has(g.file:hover) g.file:not(:hover) rect {{ opacity: .35; }}\n\
         </style></head>\n<body>\n{}</body></html>\n",
        svg(mount, rows)
    )
}

/// Title and scale.
fn head(svg: &mut String, mount: &Path, rows: &[Value]) {
    let title = escape(&format!("Heat of {}", mount.display()));
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"46\" fill=\"#fff\" font-size=\"22\" font-weight=\"600\">\
         {title}</text>"
    );
    let about = format!(
        "{} hottest files, each from its first byte to its last; longer is larger",
        rows.len()
    );
    text(svg, (MARGIN, 72.0), FAINT, &about);
    let _ = write!(svg, "<defs><linearGradient id=\"scale\">");
    for step in 0..=20 {
        let temperature = f64::from(step) * 5.0;
        let colour = css(temperature);
        let _ = write!(
            svg,
            "<stop offset=\"{temperature}%\" stop-color=\"{colour}\"/>"
        );
    }
    let (left, length) = (WIDTH - MARGIN - 360.0, 360.0);
    let _ = writeln!(
        svg,
        "</linearGradient></defs>\n<rect x=\"{left}\" y=\"36\" width=\"{length}\" height=\"12\" \
         rx=\"3\" fill=\"url(#scale)\"/>"
    );
    for (at, name) in [
        (0.0, "0 cold"),
        (25.0, "25 warm"),
        (60.0, "60 hot"),
        (95.0, "100"),
    ] {
        text(svg, (left + length * at / 100.0, 66.0), FAINT, name);
    }
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"80\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{NO_RECORD}\"/>"
    );
    text(svg, (left + 20.0, 90.5), FAINT, "no record");
}

/// One file: path, temperature, strip, size.
fn file(svg: &mut String, row: &Value, top: f64, longest: f64) {
    let (temperature, base) = (number(row, "temperature"), top + STRIP - 3.5);
    let path = shown_path(Path::new("/"), row);
    let _ = writeln!(
        svg,
        "<g class=\"file\"><title>{}\n{temperature:.1} {}, {} reads, {} writes, {} and {} now\
         </title>",
        escape(&path),
        grade(row),
        accesses(row, "reads"),
        accesses(row, "writes"),
        rate(number(row, "reads_per_second")),
        rate(number(row, "writes_per_second")),
    );
    text(svg, (MARGIN, base), TEXT, &end_of(&path));
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{base}\" fill=\"{}\" text-anchor=\"end\">{temperature:.1}</text>",
        LEFT - 16.0,
        // The coldest colours are too dark for letters.
        css(temperature.max(45.0)),
    );
    let share = (1.0 + ranges(row)).ln() / (1.0 + longest).ln();
    let length = (LONGEST * share).max(SHORTEST);
    strip(svg, row, top, length);
    let size = bytes(number(row, "size"));
    text(svg, (LEFT + length + 10.0, base), FAINT, &size);
    svg.push_str("</g>\n");
}

/// The temperatures along a file; neighbours of one colour are one piece.
fn strip(svg: &mut String, row: &Value, top: f64, length: f64) {
    let (cells, each) = (cells(row), number(row, "cell_bytes"));
    let width = length / cells.len().max(1) as f64;
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{length:.2}\" height=\"{STRIP}\" rx=\"2\" \
         fill=\"{NO_RECORD}\"/>"
    );
    let mut first = 0;
    for same in cells.chunk_by(|a, b| a.map(css) == b.map(css)) {
        if let Some(temperature) = same[0] {
            let (from, to) = (first as f64, (first + same.len()) as f64);
            let _ = writeln!(
                svg,
                "<rect x=\"{:.2}\" y=\"{top}\" width=\"{:.2}\" height=\"{STRIP}\" fill=\"{}\">\
                 <title>{} to {}: {temperature:.1}</title></rect>",
                LEFT + from * width,
                // A little over the next, so that no line shows between them.
                (to - from) * width
                    + if first + same.len() < cells.len() {
                        0.3
                    } else {
                        0.0
                    },
                css(temperature),
                bytes(from * each),
                bytes(to * each),
            );
        }
        first += same.len();
    }
}

/// Ranges that the file has.
fn ranges(row: &Value) -> f64 {
    let each = number(row, "cell_bytes");
    (number(row, "size").max(cells(row).len() as f64 * each) / f64::from(1 << 20)).max(1.0)
}

fn text(svg: &mut String, (x, y): (f64, f64), fill: &str, what: &str) {
    let what = escape(what);
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" fill=\"{fill}\">{what}</text>"
    );
}

/// The end of a path that is too long, which tells more than its beginning.
fn end_of(path: &str) -> String {
    let length = path.chars().count();
    match length > PATH {
        true => {
            let end = path.chars().skip(length - (PATH - 1));
            std::iter::once('…').chain(end).collect()
        }
        false => path.to_owned(),
    }
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            // Control characters are not allowed in XML, whatever they are written as.
            c if is_unprintable(c) && c != '\n' => safe.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_picture_has_a_piece_for_each_run_of_one_temperature() {
        let rows = [json!({
            "path": "/a<b>&\"c\"\u{1}", "links": 1, "temperature": 80.0, "grade": "hot",
            "reads": 3, "writes": 0, "size": 4 << 20, "cell_bytes": 1 << 20,
            "cells": [10.0, 10.0, null, 99.5],
        })];
        let svg = svg(Path::new("/mnt"), &rows);
        assert!(svg.contains(">/a&lt;b&gt;&amp;&quot;c&quot;?"), "{svg}");
        assert!(svg.contains("0 B to 2 MiB: 10.0") && svg.contains("3 MiB to 4 MiB: 99.5"));
        assert_eq!(svg.matches(" to ").count() - 1, 2, "{svg}");
        assert!(svg.contains(&css(99.5)) && svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(page(Path::new("/mnt"), &rows).contains(&svg));
    }

    #[test]
    fn a_long_path_keeps_its_end() {
        let path = format!("/{}/end", "x".repeat(100));
        let shown = end_of(&path);
        assert!(shown.starts_with('…') && shown.ends_with("/end") && shown.chars().count() == PATH);
    }
}
