//! Prometheus text as far as `.hearth/stats` uses it.

use std::collections::BTreeMap;

/// What identifies a number: its name and its labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Name of the metric.
    pub name: String,
    /// Labels by name.
    pub labels: BTreeMap<String, String>,
}

/// All numbers of one reading, in the order of the file.
#[derive(Debug, Default)]
pub struct Samples {
    values: Vec<(Key, f64)>,
    kinds: BTreeMap<String, String>,
}

impl Samples {
    /// Reads the text; lines that are no sample are left out.
    pub fn parse(text: &str) -> Samples {
        let mut samples = Samples::default();
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                if let Some((name, kind)) = kind.split_once(' ') {
                    samples.kinds.insert(name.to_owned(), kind.to_owned());
                }
            } else if let Some(value) = sample(line) {
                samples.values.push(value);
            }
        }
        samples
    }

    /// Every number with its key.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, f64)> {
        self.values.iter().map(|(key, value)| (key, *value))
    }

    /// Names of the metrics that are histograms.
    pub fn histograms(&self) -> impl Iterator<Item = &str> {
        let kinds = self.kinds.iter();
        kinds
            .filter(|(_, kind)| *kind == "histogram")
            .map(|(name, _)| &**name)
    }

    /// What was counted after `before`; what does not count up (gauges) stays as it is, and so does
    /// what is less than before: it is of another volume, mounted there since.
    pub fn since(&self, before: &Samples) -> Samples {
        let old: BTreeMap<&Key, f64> = before.iter().collect();
        let difference = |key: &Key, value: f64| match old.get(key) {
            Some(old) if self.counts_up(&key.name) && *old <= value => value - old,
            _ => value,
        };
        Samples {
            values: self
                .iter()
                .map(|(key, value)| (key.clone(), difference(key, value)))
                .collect(),
            kinds: self.kinds.clone(),
        }
    }

    fn counts_up(&self, name: &str) -> bool {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|part| name.strip_suffix(part))
            .unwrap_or(name);
        [name, base].iter().any(|name| {
            let kind = self.kinds.get(*name).map(String::as_str);
            matches!(kind, Some("counter" | "histogram"))
        })
    }

    /// One object: metric name to number, or to a list of `{labels, value}`.
    pub fn json(&self) -> serde_json::Value {
        let mut object = serde_json::Map::new();
        for (key, value) in self.iter() {
            if key.labels.is_empty() {
                object.insert(key.name.clone(), number(value));
                continue;
            }
            let list = object
                .entry(key.name.clone())
                .or_insert_with(|| serde_json::Value::Array(Vec::new()));
            if let Some(list) = list.as_array_mut() {
                let entry = serde_json::json!({ "labels": key.labels, "value": number(value) });
                list.push(entry);
            }
        }
        serde_json::Value::Object(object)
    }
}

/// A number for JSON, where whole ones stay whole.
pub fn number(value: f64) -> serde_json::Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        serde_json::json!(value as i64)
    } else {
        serde_json::json!(value)
    }
}

/// `name{label="value",...} number`; nothing for a comment, and for what is no sample.
pub fn sample(line: &str) -> Option<(Key, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (key, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let (name, labels) = match key.trim().split_once('{') {
        Some((name, labels)) => (name, pairs(labels.strip_suffix('}')?)?),
        None => (key.trim(), BTreeMap::new()),
    };
    let name = name.to_owned();
    Some((Key { name, labels }, value))
}

/// `a="x",b="y"`, where a value may hold `\"`, `\\` and `\n`.
fn pairs(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"")?;
        let (mut value, mut end, mut escaped) = (String::new(), None, false);
        for (at, c) in rest.char_indices() {
            match c {
                'n' if escaped => value.push('\n'),
                _ if escaped => value.push(c),
                '\\' => {
                    escaped = true;
                    continue;
                }
                '"' => {
                    end = Some(at);
                    break;
                }
                _ => value.push(c),
            }
            escaped = false;
        }
        pairs.insert(name.trim().to_owned(), value);
        text = rest[end? + 1..].trim_start_matches(',');
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP a_total things\n# TYPE a_total counter\n\
        a_total{op=\"read\",why=\"a \\\"b\\\", c\"} 3\n# TYPE level gauge\nlevel 2.5\n\
        # TYPE t histogram\nt_bucket{le=\"+Inf\"} 7\n\nnonsense\n";

    #[test]
    fn labels_with_quotes_and_commas_are_read() {
        let samples = Samples::parse(TEXT);
        let (key, value) = samples.iter().next().expect("the counter");
        assert_eq!((&*key.labels["why"], value), ("a \"b\", c", 3.0));
        assert_eq!(samples.iter().count(), 3);
    }

    #[test]
    fn a_difference_leaves_gauges_as_they_are() {
        let later = Samples::parse(&TEXT.replace(" 3", " 10").replace(" 7", " 9"));
        let since = later.since(&Samples::parse(TEXT));
        let values: Vec<f64> = since.iter().map(|(_, value)| value).collect();
        assert_eq!(values, [7.0, 2.5, 2.0]);
    }

    #[test]
    fn what_a_new_mount_has_counted_is_not_less_than_nothing() {
        let anew = Samples::parse(&TEXT.replace(" 3", " 1"));
        let since = anew.since(&Samples::parse(TEXT));
        let values: Vec<f64> = since.iter().map(|(_, value)| value).collect();
        assert_eq!(values, [1.0, 2.5, 0.0]);
    }

    #[test]
    fn json_has_numbers_and_lists() {
        let json = Samples::parse(TEXT).json();
        assert_eq!(json["level"], 2.5);
        assert_eq!(json["a_total"][0]["value"], 3);
        assert_eq!(json["a_total"][0]["labels"]["op"], "read");
    }
}
