//! The quick form of the conflict runner, with a figure below which the tree may not fall.

use hearth_bench::conflicts::instrumented;
use std::process::Command;

/// Cases that commute and share no more than they may, of all that commute, allowed ones counted as
/// what they are: not free. Raise it when the tree gets better, never lower it.
const LEAST: f64 = 0.88;
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

    let value = |metric: &str| {
        rows.lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .find(|row| row["workload"] == "all" && row["metric"] == metric)
            .and_then(|row| row["value"].as_f64())
            .expect("a row for all cases")
    };
    let (share, cases) = (value("conflict_free_share"), value("cases") as u64);
    assert!(cases >= CASES, "only {cases} cases commute\n{text}");
    assert!(
        share >= LEAST,
        "{share:.4} of {cases} cases are free of conflicts\n{text}"
    );
}
