//! pjdfstest 0.2.2 as root: nothing fails, and nothing is skipped that kernel tmpfs does not skip.

mod harness;

use harness::{Mount, Place, tool};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const CONFIGURATION: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
allow_remount = false
[dummy_auth]
entries = [ ["nobody", "nogroup"], ["daemon", "daemon"] ]
"#;

/// What one run found.
#[derive(Debug)]
struct Outcome {
    failed: u32,
    passed: u32,
    skipped: BTreeSet<String>,
    text: String,
}

#[test]
fn everything_passes_over_dev_fuse() {
    compare("dev");
}

#[test]
fn everything_passes_over_io_uring() {
    compare("uring");
}

fn compare(transport: &str) {
    let kernel = Place::new();
    kernel.tmpfs();
    let expected = run(&kernel.mount());
    assert_eq!(expected.failed, 0, "on tmpfs:\n{}", expected.text);
    let mount = Mount::start(transport, &[]);
    let outcome = run(&mount.path());
    println!(
        "{transport}: {} passed, {} skipped; tmpfs: {} passed, {} skipped",
        outcome.passed,
        outcome.skipped.len(),
        expected.passed,
        expected.skipped.len()
    );
    assert_eq!(outcome.failed, 0, "{}", outcome.text);
    let more: Vec<_> = outcome.skipped.difference(&expected.skipped).collect();
    assert!(more.is_empty(), "skipped here, not on tmpfs: {more:?}");
    assert!(outcome.passed >= expected.passed, "{}", outcome.text);
    mount.finish();
}

/// Runs the suite in `path`, with another tmpfs as the second filesystem.
fn run(path: &Path) -> Outcome {
    let other = Place::new();
    other.tmpfs();
    let configuration = other.root().join("pjdfstest.toml");
    std::fs::write(&configuration, CONFIGURATION).unwrap();
    let output = Command::new("timeout")
        .args(["-k", "10", "600"])
        .arg(tool("pjdfstest"))
        .arg("-c")
        .arg(&configuration)
        .arg("-p")
        .arg(path)
        .arg("-s")
        .arg(other.mount())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    outcome(text)
}

/// Reads `Summary: 0 failed, 16 skipped, 382 passed, ...` and the names of what was skipped.
fn outcome(text: String) -> Outcome {
    let summary = text.lines().rfind(|line| line.contains("Summary:"));
    let summary = summary.unwrap_or_else(|| panic!("no summary:\n{text}"));
    let number = |word: &str| {
        let words: Vec<&str> = summary.split([' ', ',']).filter(|w| !w.is_empty()).collect();
        let at = words.iter().position(|each| *each == word).unwrap();
        words[at - 1].parse().unwrap()
    };
    let skipped = text
        .lines()
        .filter(|line| line.contains("skipped") && !line.contains("Summary:"))
        .map(|line| line.split_whitespace().next().unwrap_or_default().to_owned())
        .collect();
    let (failed, passed): (u32, u32) = (number("failed"), number("passed"));
    assert!(passed > 300, "the suite has nearly 400 cases:\n{text}");
    Outcome {
        failed,
        passed,
        skipped,
        text,
    }
}
