//! `cargo xtask test`: every test of the project and the demonstration, and one closing line for
//! all of them.

use crate::failures::Failures;
use crate::{demo, install, place, process};
use std::io::{BufRead, BufReader, PipeReader};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Sums over the runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sum {
    passed: u64,
    failed: u64,
}

/// What one `cargo test` gave: its sums, and a report of each failure.
type Tested = Result<(Sum, Vec<String>), String>;

/// A target that needs a feature, and so a build of its own.
pub struct Extra {
    pub package: &'static str,
    pub feature: &'static str,
    source: &'static str,
}

pub const EXTRAS: &[Extra] = &[
    Extra {
        package: "hearth-sync",
        feature: "loom",
        source: "crates/sync/tests/loom.rs",
    },
    Extra {
        package: "hearth-sync",
        feature: "loom",
        source: "crates/sync/tests/loom_epoch.rs",
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
    let mut all = process::cargo();
    all.args(["test", "--workspace", "--no-fail-fast"]);
    let (mut sum, mut failures) = tested(all, filter)?;
    for extra in EXTRAS {
        if !place::root().join(extra.source).is_file() {
            println!("no {}: left out", extra.source);
            continue;
        }
        let mut test = process::cargo();
        test.args(["test", "--no-fail-fast", "--package", extra.package])
            .args(["--features", extra.feature, "--test", extra.target()]);
        let (more, others) = tested(test, filter)?;
        sum.add(more);
        failures.extend(others);
    }
    if filter.is_empty() {
        sum.add(Sum::of_step(demo::run(), &mut failures));
    }
    if !failures.is_empty() {
        println!("\n== what failed ==\n\n{}\n", failures.join("\n\n"));
    }
    println!("all tests: {} s", start.elapsed().as_secs());
    println!("{} passed, {} failed", sum.passed, sum.failed);
    if sum.failed > 0 {
        // The closing line stays the last one: no message after it.
        std::process::exit(1);
    }
    Ok(())
}

impl Extra {
    /// The name of the test program: that of its file.
    pub fn target(&self) -> &'static str {
        let stem = Path::new(self.source).file_stem();
        stem.and_then(|stem| stem.to_str()).unwrap_or(self.feature)
    }
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// One verb that is run as a test.
    fn of_step(done: Result<(), String>, failures: &mut Vec<String>) -> Sum {
        let failed = u64::from(done.is_err());
        failures.extend(done.err());
        Sum {
            passed: 1 - failed,
            failed,
        }
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
fn tested(mut command: Command, filter: &[String]) -> Tested {
    command.args(filter);
    let line = process::line(&command);
    println!("$ {line}");
    let broken = |error: std::io::Error| format!("`{line}`: {error}");
    // One pipe for both streams: cargo names the programs on the second, they speak on the first.
    let (read, write) = std::io::pipe().map_err(broken)?;
    command.stdout(write.try_clone().map_err(broken)?);
    command.stderr(write);
    let mut child = command.spawn().map_err(broken)?;
    // The command holds the pipe's other end: without this drop the reader would never end.
    drop(command);
    let lines = lines_of(read);
    let mut sum = Sum::default();
    let mut failures = Failures::default();
    let status = loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(text) => {
                println!("{text}");
                sum.add(Sum::of_line(&text));
                failures.line(&text);
            }
            Err(RecvTimeoutError::Disconnected) => break child.wait().map_err(broken)?,
            // A program that a test left behind may hold the pipe open for ever.
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait().map_err(broken)? {
                    break status;
                }
            }
        }
    };
    if !status.success() && sum.failed == 0 {
        let what = format!("`{line}` ended with {status} and no failed test: one failure");
        println!("{what}");
        failures.died(&what);
        sum.failed = 1;
    }
    Ok((sum, failures.reports()))
}

/// The lines of a pipe, as a thread reads them.
fn lines_of(pipe: PipeReader) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for text in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&text).into_owned();
            if send.send(text).is_err() {
                return;
            }
        }
    });
    lines
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

    #[test]
    fn a_step_that_fails_is_a_failure_with_its_report() {
        let mut failures = Vec::new();
        let mut sum = Sum::of_step(Ok(()), &mut failures);
        sum.add(Sum::of_step(Err("no mount".into()), &mut failures));
        assert_eq!((sum.passed, sum.failed), (1, 1));
        assert_eq!(failures, ["no mount"]);
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
                let test = block.split("name = \"").nth(1).unwrap().split('"').next();
                let extra = EXTRAS.iter().any(|extra| {
                    (extra.package, extra.feature) == (&*member.name, feature)
                        && Some(extra.target()) == test
                });
                assert!(on || extra, "{}: nobody runs {test:?}", member.name);
            }
        }
    }

    #[test]
    fn a_run_that_dies_without_a_result_line_is_a_failure() {
        let (sum, failures) = tested(Command::new("false"), &[]).unwrap();
        assert_eq!((sum.passed, sum.failed), (0, 1));
        assert!(failures[0].contains("`false` ended with"), "{failures:?}");
    }
}
