//! The quick form of the conflict checker, with a figure below which the tree may not fall, and its
//! checks of itself.

use hearth_bench::instrumented;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// The recorded figures, written by `cargo xtask conflicts --record`. Those of a quick run should
/// not vary (`docs/design/conflicts.md`, "Memory at hand").
const RECORDED: &str = include_str!("../../../docs/benchmarks/conflicts.json");
/// How far the share with heat on may be below: three cases, because memory is laid out differently
/// then. A link that read more of an inode than its project cost four.
const ASIDE: f64 = 0.001;
/// Fewer commuting cases than this mean that the checker lost some.
const CASES: f64 = 2_500.0;

/// Cache lines that a `stat` may touch more in a directory a hundred times as large: less than one,
/// because tables are not all equally full.
const GROWTH: f64 = 0.75;

/// Part of the text of the traced cases.
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

/// Returns rows and text of a quick run.
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
fn the_checker_sees_a_locked_map_and_an_injected_counter() {
    let output = runner(&["--self-check"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

/// A few cases, free ones and others; the whole sample takes more than half an hour.
#[test]
fn recorder_and_memory_trace_give_the_same_verdicts() {
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
fn a_lackey_check_without_valgrind_fails_before_the_recorder_runs() {
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
fn the_committed_rows_name_their_command_and_commit() {
    let first = RECORDED.lines().next().expect("a first line");
    let from: Value = serde_json::from_str(first).expect("a line of JSON");
    for part in ["command", "commit"] {
        assert!(from[part].is_string(), "{first}");
    }
}

#[test]
fn unknown_arguments_are_refused_by_name() {
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
fn the_committed_page_picture_and_places_are_those_of_the_record() {
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks");
    let read = |name: &str| {
        let text = std::fs::read_to_string(record.join(name)).expect("the record is committed");
        assert!(text.contains("rename"), "{name}");
        text
    };
    let (page, places) = (read("conflicts.md"), read("conflicts-places.jsonl"));
    read("conflicts.svg");
    assert_eq!(places.lines().next(), RECORDED.lines().next());
    let cases = value(RECORDED, "all", "cases");
    assert!(page.contains(&format!("all {cases:>17}")), "{page}");
    let lines = page.lines().count();
    assert!(lines <= 120, "the page is a summary, not {lines} lines");
    for line in places.lines().skip(1) {
        let place: Value = serde_json::from_str(line).expect("a line of JSON");
        assert_eq!(place["sides"].as_array().map(Vec::len), Some(2), "{line}");
        assert!(place["cases"][0].is_string(), "{line}");
    }
}
