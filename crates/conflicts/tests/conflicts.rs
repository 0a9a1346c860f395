//! The quick form of the conflict runner, with a figure below which the tree may not fall, and its
//! checks of itself.

use hearth_bench::instrumented;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// The recorded figures; `cargo xtask conflicts --record` writes them. Those of a quick run should
/// not vary (`docs/design/conflicts.md`, "Memory at hand").
const RECORDED: &str = include_str!("../../../docs/benchmarks/conflicts.json");
/// How far the same tree with heat on may be below: three cases, for memory lies elsewhere then. A
/// link that read more of an inode than its project cost four.
const ASIDE: f64 = 0.001;
/// Fewer commuting cases than this means that the runner lost some.
const CASES: f64 = 2_500.0;

/// Cache lines that a `stat` may touch more in a directory a hundred times as large: part of one,
/// because tables are not all equally full.
const GROWTH: f64 = 0.75;

/// Part of the text of the cases that the trace is asked about.
const FEW: &str = "rename(/d1/f, /d1/g) | exit";

fn runner(args: &[&str]) -> Output {
    let program = instrumented::build().expect("the runner compiles");
    let output = Command::new(program).args(args).output();
    output.expect("the runner starts")
}

fn value(rows: &str, workload: &str, metric: &str) -> f64 {
    rows.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|row| row["workload"] == workload && row["metric"] == metric)
        .and_then(|row| row["value"].as_f64())
        .unwrap_or_else(|| panic!("a row for {workload}, {metric}"))
}

/// Rows and text of the quick form.
fn quick(more: &[&str]) -> (String, String) {
    let name = format!("hearth-test-{}-conflicts.json", std::process::id());
    let json = std::env::temp_dir().join(name);
    let output = runner(&[&["--quick", "--json", &json.to_string_lossy()], more].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}{errors}");
    let rows = std::fs::read_to_string(&json).expect("the runner writes its rows");
    std::fs::remove_file(&json).expect("the rows are there");
    (rows, text)
}

#[test]
fn commuting_operations_share_no_cache_line() {
    let (rows, text) = quick(&[]);
    let cases = value(&rows, "all", "cases");
    assert!(cases >= CASES, "only {cases} cases\n{text}");
    for metric in ["conflict_free_share", "conflict_free_share_but_allowed"] {
        let share = value(&rows, "all", metric);
        let recorded = value(RECORDED, "quick", metric);
        assert!(
            share >= recorded,
            "{metric} of {cases} cases is {share:.4}, {recorded:.4} is recorded\n{text}"
        );
    }
    let lines = |files| value(&rows, &format!("stat among {files}"), "lines_per_op");
    let (few, many) = (lines(2_000), lines(200_000));
    assert!(few > 5.0, "{few} lines: the recorder sees no lookup");
    assert!(
        many - few < GROWTH,
        "a stat touches {few} cache lines among 2,000 files and {many} among 200,000"
    );
    for call in ["stat", "access", "readlink", "pread", "fd lookup"] {
        for by in ["", " by a stranger"] {
            let shared = value(&rows, &format!("hot {call}{by}"), "shared_rmw_per_op");
            assert_eq!(shared, 0.0, "{call}{by} modifies a shared line\n{text}");
        }
    }
    let share = value(&rows, "all", "conflict_free_share");
    let (rows, text) = quick(&["--heat"]);
    let with = value(&rows, "all", "conflict_free_share");
    assert!(
        with >= share - ASIDE,
        "{with:.4} with heat, {share:.4} without\n{text}"
    );
}

#[test]
fn the_runner_sees_a_locked_map_and_a_planted_counter() {
    let output = runner(&["--self-check"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

/// A few cases, free ones and others; the sample of the verb itself takes more than half an hour.
#[test]
fn recorder_and_trace_agree() {
    let traced = env!("CARGO_BIN_EXE_hearth-traced");
    let name = format!("hearth-test-{}-lackey.json", std::process::id());
    let json = std::env::temp_dir().join(name);
    let to = json.to_string_lossy();
    let args = ["--check", "lackey", "--traced", traced, "--json", &to];
    let output = runner(&[&args[..], &["--only", FEW, "--every", "1"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let rows = std::fs::read_to_string(&json).expect("the runner writes its rows");
    std::fs::remove_file(&json).expect("the rows are there");
    let of = |metric| value(&rows, "lackey", metric);
    let (cases, free) = (of("cases"), of("free_cases"));
    assert_eq!(of("agreement_share"), 1.0, "{text}");
    assert!(
        free > 0.0 && free < cases,
        "{free} of {cases} are free: {text}"
    );
}

#[test]
fn a_second_opinion_without_valgrind_ends_before_it_begins() {
    let program = instrumented::build().expect("the runner compiles");
    let mut runner = Command::new(program);
    runner.args(["--check", "lackey", "--traced", "/no/such"]);
    let output = runner.env("PATH", "").output().expect("the runner starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("install-tools"),
        "{errors}"
    );
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn the_record_says_which_command_on_which_commit_made_it() {
    let first = RECORDED.lines().next().expect("a first line");
    let from: Value = serde_json::from_str(first).expect("a line of JSON");
    for part in ["command", "commit"] {
        assert!(from[part].is_string(), "{first}");
    }
}

#[test]
fn what_the_runner_does_not_know_is_named_with_a_remedy() {
    for (args, what) in [
        (&["--fast"][..], "'--fast'"),
        (&["--sample", "none"], "'none' is no number"),
        (&["--check", "perf"], "'perf': there is lackey"),
        (&["--only", "no such call"], "no case"),
    ] {
        let output = runner(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(what),
            "{errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn the_page_of_the_record_is_there() {
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks");
    for name in ["conflicts.md", "conflicts.svg"] {
        let text = std::fs::read_to_string(record.join(name)).expect("the record is committed");
        assert!(text.contains("rename"), "{name}");
    }
}
