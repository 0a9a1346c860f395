//! `cargo xtask test`: every test of the project, and one closing line for all of them.

use crate::{install, place, process};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Sums over the runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sum {
    passed: u64,
    failed: u64,
}

/// A target that needs a feature, and so a build of its own.
struct Extra {
    package: &'static str,
    feature: &'static str,
    source: &'static str,
}

const EXTRAS: &[Extra] = &[
    Extra {
        package: "hearth-sync",
        feature: "loom",
        source: "crates/sync/tests/loom.rs",
    },
    Extra {
        package: "hearth-sync",
        feature: "loom",
        source: "crates/sync/tests/loom_quota.rs",
    },
    Extra {
        package: "hearth-sync",
        feature: "shuttle",
        source: "crates/sync/tests/shuttle.rs",
    },
    Extra {
        package: "hearth-sched",
        feature: "loom",
        source: "crates/sched/tests/loom.rs",
    },
    Extra {
        package: "hearth-sched",
        feature: "shuttle",
        source: "crates/sched/tests/shuttle.rs",
    },
    Extra {
        package: "hearth",
        feature: "shuttle",
        source: "crates/fs/tests/shuttle.rs",
    },
];

/// Installs what is missing and runs everything; `filter` goes to the test programs.
pub fn run(filter: &[String]) -> Result<(), String> {
    install::everything()?;
    unmount_leftovers();
    let start = Instant::now();
    let mut sum = Sum::default();
    let mut all = process::cargo();
    all.args(["test", "--workspace", "--no-fail-fast"]);
    sum.add(tested(&mut all, filter)?);
    for extra in EXTRAS {
        if !place::root().join(extra.source).is_file() {
            println!("no {}: left out", extra.source);
            continue;
        }
        let mut test = process::cargo();
        test.args(["test", "--no-fail-fast", "--package", extra.package])
            .args(["--features", extra.feature, "--test", extra.feature]);
        sum.add(tested(&mut test, filter)?);
    }
    println!("all tests: {} s", start.elapsed().as_secs());
    println!("{} passed, {} failed", sum.passed, sum.failed);
    if sum.failed > 0 {
        // The closing line stays the last one: no message after it.
        std::process::exit(1);
    }
    Ok(())
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// What one line of a test program's output adds.
    fn of_line(line: &str) -> Sum {
        let Some(rest) = line.trim_start().strip_prefix("test result: ") else {
            return Sum::default();
        };
        let number = |word: &str| {
            rest.split([';', '.'])
                .map(str::trim)
                .find_map(|part| part.strip_suffix(word)?.trim().parse().ok())
                .unwrap_or(0)
        };
        Sum {
            passed: number("passed"),
            failed: number("failed"),
        }
    }
}

/// Runs one `cargo test`, shows its output and adds up its result lines. A run that fails without
/// a failed test (it did not compile, a test program died) counts as one failure.
fn tested(command: &mut Command, filter: &[String]) -> Result<Sum, String> {
    command.args(filter);
    let line = process::line(command);
    println!("$ {line}");
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{line}` cannot be started: {error}"))?;
    let mut sum = Sum::default();
    if let Some(out) = child.stdout.take() {
        for text in BufReader::new(out).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&text);
            println!("{text}");
            sum.add(Sum::of_line(&text));
        }
    }
    let status = child.wait().map_err(|error| format!("`{line}`: {error}"))?;
    if !status.success() && sum.failed == 0 {
        println!("`{line}` ended with {status} and no failed test: counted as one failure");
        sum.failed = 1;
    }
    Ok(sum)
}

/// Frees mount points of test programs that were killed: nobody else would, and a dead one makes
/// every walk over the temporary directory fail.
fn unmount_leftovers() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let marker = std::env::temp_dir().join("hearth-test-");
    for place in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        let Some(rest) = place.strip_prefix(&*marker.to_string_lossy()) else {
            continue;
        };
        let owner = rest.split('-').next().unwrap_or_default();
        if !std::path::Path::new("/proc").join(owner).exists() {
            println!("unmounting {place}, left by an earlier run");
            let mut umount = Command::new("umount");
            if let Err(error) = process::run(umount.args(["-l", place])) {
                println!("{error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_added_up() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; \
                    4 filtered out; finished in 0.21s";
        let sum = Sum::of_line(line);
        assert_eq!(
            sum,
            Sum {
                passed: 12,
                failed: 3
            }
        );
        assert_eq!(Sum::of_line("3 passed; 1 failed"), Sum::default());
    }

    /// Cargo leaves out a target whose feature is off, without a word.
    #[test]
    fn every_test_that_needs_a_feature_is_run() {
        for member in crate::crates::members() {
            let manifest = std::fs::read_to_string(member.dir.join("Cargo.toml")).unwrap();
            let defaults = manifest.lines().find(|line| line.starts_with("default = "));
            for block in manifest.split("[[test]]").skip(1) {
                let block = block.split("\n[").next().unwrap_or(block);
                let Some((_, needs)) = block.split_once("required-features = [\"") else {
                    continue;
                };
                let feature = needs.split('"').next().unwrap();
                let on = defaults.is_some_and(|line| line.contains(&format!("\"{feature}\"")));
                let extra = EXTRAS
                    .iter()
                    .any(|extra| extra.package == member.name && extra.feature == feature);
                assert!(on || extra, "{}: nobody runs {feature}", member.name);
            }
        }
    }

    #[test]
    fn a_run_that_dies_without_a_result_line_is_a_failure() {
        let mut dead = Command::new("false");
        assert_eq!(
            tested(&mut dead, &[]),
            Ok(Sum {
                passed: 0,
                failed: 1
            })
        );
    }
}
