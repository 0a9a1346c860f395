//! What a program did to its directory, told at the end.

use crate::stats::Samples;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Operations that are shown to people.
const SHOWN: usize = 5;

/// What is told.
pub struct Summary {
    directory: String,
    operations: Vec<Operation>,
}

/// What was done of one kind.
struct Operation {
    name: String,
    count: u64,
    errors: u64,
    seconds: f64,
}

/// Reads the control files of the mount at `directory`.
pub fn of(directory: &Path) -> Summary {
    let text = std::fs::read_to_string(directory.join(".hearth/stats")).unwrap_or_default();
    Summary {
        directory: directory.display().to_string(),
        operations: operations(&Samples::parse(&text)),
    }
}

fn operations(samples: &Samples) -> Vec<Operation> {
    let mut all: Vec<Operation> = Vec::new();
    for (key, value) in samples.iter() {
        let Some(name) = key.labels.get("op") else {
            continue;
        };
        let at = all.iter().position(|operation| operation.name == *name);
        let at = at.unwrap_or_else(|| {
            all.push(Operation {
                name: name.clone(),
                count: 0,
                errors: 0,
                seconds: 0.0,
            });
            all.len() - 1
        });
        match &*key.name {
            "hearth_op_seconds_count" => all[at].count = value as u64,
            "hearth_op_seconds_sum" => all[at].seconds = value,
            "hearth_op_errors_total" => all[at].errors = value as u64,
            _ => {}
        }
    }
    all.retain(|operation| operation.count > 0);
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    all
}

impl Summary {
    /// Prints it to standard error, which may be closed.
    pub fn print(&self, in_json: bool) {
        let text = match in_json {
            true => format!("{}\n", self.json()),
            false => self.text(),
        };
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn json(&self) -> Value {
        let operation = |operation: &Operation| {
            json!({
                "name": operation.name,
                "count": operation.count,
                "errors": operation.errors,
                "seconds": operation.seconds,
            })
        };
        let operations: Vec<Value> = self.operations.iter().map(operation).collect();
        json!({ "directory": self.directory, "operations": operations })
    }

    fn text(&self) -> String {
        let mut text = format!("hearth: {}\n", self.directory);
        let sum: u64 = self.operations.iter().map(|one| one.count).sum();
        let seconds: f64 = self.operations.iter().map(|one| one.seconds).sum();
        let _ = writeln!(text, "  {sum} operations, {seconds:.3} s in them");
        for one in self.operations.iter().take(SHOWN) {
            let Operation {
                name,
                count,
                seconds,
                ..
            } = one;
            let _ = writeln!(text, "  {name:<12} {count:>9}  {seconds:>8.3} s");
        }
        text
    }
}
