//! Instructions per warm operation, against those that are committed, and with heat and with quotas
//! against those without.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the program with the release profile: that is what users run, and what is recorded.
fn release_build() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here
        .ancestors()
        .nth(2)
        .expect("the crate is in the workspace");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "--release", "--package", "hearth-bench"])
        .args(["--bin", "hearth-counted"])
        .env("CARGO_INCREMENTAL", "0")
        .status()
        .expect("cargo starts");
    assert!(status.success(), "the release build: {status}");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join("release/hearth-counted")
}

#[test]
fn no_operation_takes_more_instructions_than_are_recorded() {
    passes(&["instructions"]);
}

/// 1.01 times as many are allowed, and 1.015 times of the whole life of a file; the program's exit
/// says so.
#[test]
fn heat_takes_hardly_any_instructions() {
    passes(&["heat", "--only", "instructions"]);
}

/// The scheduler of 2001 took 32 times as long with 4,096 tasks as with 16.
#[test]
fn a_yield_takes_as_many_instructions_with_many_tasks_as_with_few() {
    passes(&["sched", "--only", "yield-instructions"]);
}

/// Two hundredths are allowed, of a create and of a write of 4 KiB.
#[test]
fn quotas_take_hardly_any_instructions() {
    passes(&["quota", "--only", "instructions"]);
}

fn passes(args: &[&str]) {
    let output = Command::new(release_build())
        .args(args)
        .output()
        .expect("the benchmark starts");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
