//! The alert rules: promtool's own check and unit tests.

use crate::harness::{succeed, tool};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of rules.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/prometheus");
    folder.canonicalize().unwrap()
}

fn promtool(arguments: &[&str]) -> String {
    succeed(
        Command::new(tool("promtool"))
            .current_dir(folder())
            .args(arguments),
    )
}

#[test]
fn alerts_are_raised_when_they_should_and_not_otherwise() {
    promtool(&[
        "check",
        "rules",
        "--lint=all",
        "--lint-fatal",
        "hearth.rules.yml",
    ]);
    promtool(&["check", "config", "prometheus.yml"]);
    promtool(&["test", "rules", "hearth.rules.test.yml"]);
}

/// Names behind a word in a file of `contrib/prometheus`.
fn names(file: &str, word: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder().join(file)).unwrap();
    let names = text.split(word).skip(1);
    let end = |c: char| !c.is_ascii_alphanumeric();
    names
        .map(|rest| rest.split(end).next().unwrap().to_owned())
        .collect()
}

#[test]
fn each_alert_has_a_test_that_raises_it_and_one_that_does_not() {
    let alerts: BTreeSet<String> = names("hearth.rules.yml", "- alert: ").into_iter().collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    let silent = names("hearth.rules.test.yml", "- {alertname: ");
    let raised: BTreeSet<String> = names("hearth.rules.test.yml", "- alertname: ")
        .into_iter()
        .collect();
    assert_eq!(raised, alerts);
    assert_eq!(silent.into_iter().collect::<BTreeSet<_>>(), alerts);
}
