//! The counts that are committed, and whether new ones are within them.

use crate::row::Row;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How much more than recorded an operation may take.
pub const MAY_GROW: f64 = 0.05;
/// How the message about too many instructions begins.
pub const TOO_MUCH: &str = "an operation takes over 5 % more instructions than recorded; make it \
                            cheaper, or commit with your change what \
                            `cargo xtask bench instructions --record` writes";

/// The file that is committed.
pub fn place() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap_or(here);
    root.join("docs/benchmarks/instructions.json")
}

/// Counts and what they hold for.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded(Value);

impl Recorded {
    /// Counts that were just made.
    pub fn new(rows: &[Row]) -> Recorded {
        let rows: Vec<Value> = rows
            .iter()
            .filter_map(|row| serde_json::from_str(&row.json()).ok())
            .collect();
        Recorded(json!({
            "command": "cargo xtask bench instructions --record",
            "profile": "release",
            "rustc": rustc(),
            "rows": rows,
        }))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read or holds something else.
    pub fn read(path: &Path) -> Result<Recorded, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        serde_json::from_str(&text)
            .map(Recorded)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        std::fs::write(path, format!("{:#}\n", self.0))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The count of an operation.
    pub fn of(&self, operation: &str) -> Option<f64> {
        let rows = self.0["rows"].as_array()?;
        let row = rows.iter().find(|row| row["workload"] == operation)?;
        row["value"].as_f64()
    }

    /// One line for each count that grew too much, is not recorded or is no longer counted.
    pub fn grown(&self, rows: &[Row]) -> Vec<String> {
        let mut lines: Vec<String> = rows
            .iter()
            .filter_map(|row| match self.of(&row.workload) {
                Some(before) if row.value <= before * (1.0 + MAY_GROW) => None,
                Some(before) => Some(format!("{}: {} after {before}", row.workload, row.value)),
                None => Some(format!("{}: {}, not recorded", row.workload, row.value)),
            })
            .collect();
        let recorded = self.0["rows"].as_array().into_iter().flatten();
        let gone = recorded
            .filter_map(|row| row["workload"].as_str())
            .filter(|&name| rows.iter().all(|row| row.workload != name));
        lines.extend(gone.map(|name| format!("{name}: recorded, not counted")));
        let (then, now) = (self.0["rustc"].as_str().unwrap_or_default(), rustc());
        if !lines.is_empty() && then != now {
            lines.push(format!("recorded with {then}, now it is {now}"));
        }
        lines
    }
}

/// The compiler that cargo would use.
fn rustc() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    output.map_or_else(
        |_| "an unknown compiler".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, value: f64) -> Row {
        Row {
            bench: "instructions",
            workload: name.to_owned(),
            target: "lib".to_owned(),
            tasks: 1,
            metric: "instructions_per_op",
            value,
            unit: "1",
            runs: 1,
            ci95: 0.0,
        }
    }

    #[test]
    fn five_percent_more_is_the_most() {
        let recorded = Recorded::new(&[row("stat", 1000.0), row("open", 500.0)]);
        let grown = |stat, open| recorded.grown(&[row("stat", stat), row("open", open)]);
        assert!(grown(1050.0, 100.0).is_empty());
        assert_eq!(grown(1051.0, 525.0), ["stat: 1051 after 1000"]);
        assert_eq!(grown(1000.0, 526.0), ["open: 526 after 500"]);
    }

    #[test]
    fn what_is_not_on_both_sides_is_named() {
        let recorded = Recorded::new(&[row("stat", 1000.0)]);
        assert_eq!(
            recorded.grown(&[row("open", 1.0)]),
            ["open: 1, not recorded", "stat: recorded, not counted"]
        );
    }
}
