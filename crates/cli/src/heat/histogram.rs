//! `hearth heat histogram` and `hearth heat report`.

use super::palette::Shades;
use super::place::{ask_json, read_json};
use super::row::{count, number};
use super::top::counted;
use super::units::{bytes, span};
use crate::failure::Failure;
use crate::output;
use crate::printable::printable_path;
use crate::which::mount_of;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// Degrees of one bar.
const DEGREES: usize = 5;
/// Places of the longest bar.
const BAR: usize = 40;

/// Prints how much of the data is how hot.
pub fn run(mount: Option<&Path>, json: bool) -> Result<(), Failure> {
    let mount = mount_of(mount)?;
    let histogram = read_json(&mount, "histogram.json")?;
    output::print(&match json {
        true => format!("{histogram}\n"),
        false => bars(&mount, &histogram),
    })
}

fn bars(mount: &Path, histogram: &Value) -> String {
    let shades = Shades::for_stdout();
    let (grades, unknown) = shares(histogram);
    let buckets: Vec<f64> = match histogram["bytes_by_bucket"].as_array() {
        Some(buckets) => buckets.iter().filter_map(Value::as_f64).collect(),
        None => Vec::new(),
    };
    let mut bars = [0.0; 100 / DEGREES];
    for (bucket, bytes) in buckets.iter().enumerate() {
        bars[bucket * 100 / buckets.len() / DEGREES] += bytes;
    }
    let most = bars.iter().copied().fold(1.0, f64::max);
    let mut text = format!("{}: bytes by temperature\n", printable_path(mount));
    text.push_str(counted(histogram));
    let mut last = "";
    for (bar, size) in bars.iter().enumerate().rev() {
        let middle = ((bar * DEGREES) as f64) + DEGREES as f64 / 2.0;
        let name = grade(histogram, (bar * DEGREES) as f64);
        let shown = if name == last { "" } else { name };
        last = name;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{shown:>5} {:>3}-{:<3} {} {}",
            bar * DEGREES,
            (bar + 1) * DEGREES,
            shades.bar(size / most, BAR, middle),
            if *size > 0.0 {
                bytes(*size)
            } else {
                String::new()
            },
        );
    }
    for (name, size) in grades {
        let from = match name {
            "hot" => format!("from {}", number(histogram, "hot_from")),
            "warm" => format!("from {}", number(histogram, "warm_from")),
            _ => "below".to_owned(),
        };
        let share = percent(size, known(histogram) + unknown);
        let _ = writeln!(text, "{name:>5} {from:<8} {:>10}  {share}", bytes(size));
    }
    // Without quotas nobody knows how much a host directory holds.
    if !histogram["allocated"].is_null() {
        let share = percent(unknown, known(histogram) + unknown);
        let _ = writeln!(text, "never used     {:>10}  {share}", bytes(unknown));
    }
    if histogram["on"] == Value::Bool(false) {
        let _ = writeln!(
            text,
            "tracking is off; 'hearth heat on {}' begins",
            printable_path(mount)
        );
    }
    text
}

fn shares(histogram: &Value) -> ([(&'static str, f64); 3], f64) {
    let grades = ["hot", "warm", "cold"].map(|name| (name, number(histogram, name)));
    let unknown = (number(histogram, "allocated") - known(histogram)).max(0.0);
    (grades, unknown)
}

/// Bytes that have a record.
fn known(histogram: &Value) -> f64 {
    ["hot", "warm", "cold"]
        .iter()
        .map(|name| number(histogram, name))
        .sum()
}

fn grade(histogram: &Value, temperature: f64) -> &'static str {
    match temperature {
        t if t >= number(histogram, "hot_from") => "hot",
        t if t >= number(histogram, "warm_from") => "warm",
        _ => "cold",
    }
}

/// Prints what fast tiers would have served.
pub fn report(mount: Option<&Path>, sizes: &[u64], json: bool) -> Result<(), Failure> {
    let mount = mount_of(mount)?;
    let mut question = "heat what-if".to_owned();
    for size in sizes {
        let _ = write!(question, " {size}");
    }
    let curve = ask_json(&mount, &question)?;
    output::print(&match json {
        true => format!("{curve}\n"),
        false => shown(&mount, &curve),
    })
}

fn shown(mount: &Path, curve: &Value) -> String {
    let shades = Shades::for_stdout();
    let mut text = format!(
        "{}: what a fast tier would have served of the accesses, which went to {}\n\
         An access weighs half as much with each {} of age\n",
        printable_path(mount),
        bytes(number(curve, "recorded_bytes")),
        span(number(curve, "half_life_s")),
    );
    text.push_str(counted(curve));
    let head = format!("{:>12}  {:<27} {:<27}", "SIZE", "READS", "WRITES");
    let _ = writeln!(text, "{}", shades.bold(head.trim_end()));
    for point in curve["points"].as_array().map_or(&[][..], Vec::as_slice) {
        let mark = if point["asked"] == Value::Bool(true) {
            '>'
        } else {
            ' '
        };
        let (reads, writes) = (number(point, "reads"), number(point, "writes"));
        let _ = writeln!(
            text,
            "{mark}{:>11}  {} {:>6} {} {:>6}",
            bytes(count(point, "bytes") as f64),
            shades.bar(reads, 20, 100.0 * reads),
            percent(reads, 1.0),
            shades.bar(writes, 20, 100.0 * writes),
            percent(writes, 1.0),
        );
    }
    text + "It held the ranges that proved hottest from the beginning: a mover reaches less\n"
}

fn percent(part: f64, whole: f64) -> String {
    match whole > 0.0 {
        true => format!("{:.1}%", 100.0 * part / whole),
        false => "-".to_owned(),
    }
}
