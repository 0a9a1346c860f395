//! The quick form of the conflict runner, with a figure below which the tree may not fall.

use hearth_bench::conflicts::instrumented;
use std::process::Command;

/// Cases that commute and share no more than they may, of all that commute, allowed ones counted as
/// what they are: not free. Raise it when the tree gets better, never lower it.
const LEAST: f64 = 0.88;
/// Cache lines that a `stat` may touch more in a directory a hundred times as large: part of one,
/// because tables are not all equally full.
const GROWTH: f64 = 0.75;
/// Fewer commuting cases than this means that the runner lost some.
const CASES: u64 = 2_500;

#[test]
fn commuting_operations_share_no_cache_line() {
    let program = instrumented::build().expect("the runner compiles");
    let name = format!("hearth-test-{}-conflicts.json", std::process::id());
    let json = std::env::temp_dir().join(name);
    let output = Command::new(program)
        .args(["--quick", "--json"])
        .arg(&json)
        .output()
        .expect("the runner starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let rows = std::fs::read_to_string(&json).expect("the runner writes its rows");
    std::fs::remove_file(&json).expect("the rows are there");

    let value = |workload: &str, metric: &str| {
        rows.lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .find(|row| row["workload"] == workload && row["metric"] == metric)
            .and_then(|row| row["value"].as_f64())
            .expect("a row for the workload")
    };
    let (share, cases) = (
        value("all", "conflict_free_share"),
        value("all", "cases") as u64,
    );
    assert!(cases >= CASES, "only {cases} cases commute\n{text}");
    assert!(
        share >= LEAST,
        "{share:.4} of {cases} cases are free of conflicts\n{text}"
    );
    let lines = |files| value(&format!("stat among {files}"), "lines_per_op");
    let (few, many) = (lines(2_000), lines(200_000));
    assert!(few > 5.0, "{few} lines: the recorder sees no lookup");
    assert!(
        many - few < GROWTH,
        "a stat touches {few} cache lines among 2,000 files and {many} among 200,000"
    );
}
