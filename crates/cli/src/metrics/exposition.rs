//! The text that Prometheus reads (exposition format 0.0.4).

use crate::stats::sample;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// A metric that is made here.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    kind: &'static str,
    help: &'static str,
}

impl Metric {
    pub const fn gauge(name: &'static str, help: &'static str) -> Metric {
        Metric {
            name,
            kind: "gauge",
            help,
        }
    }

    pub const fn counter(name: &'static str, help: &'static str) -> Metric {
        Metric {
            name,
            kind: "counter",
            help,
        }
    }

    pub const fn histogram(name: &'static str, help: &'static str) -> Metric {
        Metric {
            name,
            kind: "histogram",
            help,
        }
    }
}

/// Labels in the order in which they are written.
pub type Labels<'a> = [(&'a str, &'a str)];

/// The samples of all mounts, those of a metric together, as the format wants them.
#[derive(Debug, Default)]
pub struct Exposition(BTreeMap<String, Family>);

#[derive(Debug)]
struct Family {
    kind: String,
    help: String,
    lines: Vec<String>,
}

impl Exposition {
    /// Adds a sample.
    pub fn add(&mut self, metric: &Metric, labels: &Labels<'_>, value: f64) {
        self.add_part(metric, "", labels, value);
    }

    /// Adds a sample of a part of a histogram: `_bucket`, `_sum`, `_count`.
    pub fn add_part(&mut self, metric: &Metric, part: &str, labels: &Labels<'_>, value: f64) {
        let line = line(&format!("{}{part}", metric.name), labels, value);
        self.put(metric.name, metric.kind, metric.help, line);
    }

    /// Adds what a mount says of itself, each sample with the label `mount`. What is no sample, or
    /// of another type than on a mount before, is left out: one line that Prometheus cannot read
    /// would cost all others.
    pub fn add_text(&mut self, text: &str, mount: &str) {
        let (mut kinds, mut helps) = (HashMap::new(), HashMap::new());
        for text in text.lines() {
            if let Some((name, help)) = after(text, "# HELP ") {
                helps.insert(name, help);
            } else if let Some((name, kind)) = after(text, "# TYPE ") {
                kinds.insert(name, kind);
            } else if let Some((key, value)) = sample(text) {
                let Some(family) = family(&key.name, &kinds) else {
                    continue;
                };
                let own = key.labels.iter().filter(|(name, _)| *name != "mount");
                let own = own.map(|(name, value)| (&**name, &**value));
                let labels: Vec<_> = [("mount", mount)].into_iter().chain(own).collect();
                let line = line(&key.name, &labels, value);
                let help = helps.get(family).copied().unwrap_or_default();
                self.put(family, kinds[family], help, line);
            }
        }
    }

    /// The whole text.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(64 << 10);
        for (name, family) in &self.0 {
            // `String` takes whatever is written to it.
            let _ = writeln!(text, "# HELP {name} {}", family.help);
            let _ = writeln!(text, "# TYPE {name} {}", family.kind);
            for line in &family.lines {
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }

    fn put(&mut self, name: &str, kind: &str, help: &str, line: String) {
        let new = || Family {
            kind: kind.to_owned(),
            help: help.to_owned(),
            lines: Vec::new(),
        };
        let family = self.0.entry(name.to_owned()).or_insert_with(new);
        if family.kind == kind {
            family.lines.push(line);
        }
    }
}

/// The two words, or the word and the rest, behind a prefix.
fn after<'a>(line: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(prefix)?.split_once(' ')
}

/// The metric that a sample belongs to, among those whose type was said.
fn family<'a>(sample: &'a str, kinds: &HashMap<&str, &str>) -> Option<&'a str> {
    if kinds.contains_key(sample) {
        return Some(sample);
    }
    let parts = ["_bucket", "_sum", "_count"];
    let base = parts.iter().find_map(|part| sample.strip_suffix(part))?;
    (kinds.get(base) == Some(&"histogram")).then_some(base)
}

fn line(name: &str, labels: &Labels<'_>, value: f64) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
    let pairs: Vec<String> = labels.iter().map(pair).collect();
    match pairs.is_empty() {
        true => format!("{name} {value}"),
        false => format!("{name}{{{}}} {value}", pairs.join(",")),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP a_total Things.\n# TYPE a_total counter\n\
        a_total{op=\"x\\\"y\"} 3\n# HELP t Times.\n# TYPE t histogram\n\
        t_bucket{le=\"+Inf\"} 2\nt_sum 0.5\nt_count 2\nuntyped 1\nnonsense\n";

    #[test]
    fn samples_of_two_mounts_stand_below_one_head() {
        let mut page = Exposition::default();
        page.add_text(TEXT, "/a \"1\"\n");
        page.add_text("# TYPE a_total counter\na_total 4\n", "/b");
        assert_eq!(
            page.text(),
            "# HELP a_total Things.\n# TYPE a_total counter\n\
             a_total{mount=\"/a \\\"1\\\"\\n\",op=\"x\\\"y\"} 3\na_total{mount=\"/b\"} 4\n\
             # HELP t Times.\n# TYPE t histogram\n\
             t_bucket{mount=\"/a \\\"1\\\"\\n\",le=\"+Inf\"} 2\n\
             t_sum{mount=\"/a \\\"1\\\"\\n\"} 0.5\nt_count{mount=\"/a \\\"1\\\"\\n\"} 2\n"
        );
    }

    #[test]
    fn a_metric_of_another_type_than_before_is_left_out() {
        let mut page = Exposition::default();
        page.add(&Metric::gauge("a_total", "A."), &[], 1.0);
        page.add_text(TEXT, "/a");
        assert!(
            page.text()
                .starts_with("# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n# ")
        );
    }
}
