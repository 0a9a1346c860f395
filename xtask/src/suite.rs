//! `cargo xtask test`: every test of the project and the demonstration, and one closing line for
//! all of them.

use crate::extras::{EXTRAS, Extra};
use crate::failures::Failures;
use crate::parts::{self, Part};
use crate::{dist, install, process, python, supervise};
use std::collections::VecDeque;
use std::fmt::Write;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Sums over the runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sum {
    passed: u64,
    failed: u64,
}

/// What a part gave: its sums, a report of each failure, and how long it took.
#[derive(Default)]
struct Done {
    sum: Sum,
    failures: Vec<String>,
    slow: Vec<(Duration, String)>,
}

/// What the lanes take from.
enum Work {
    /// Build the program of a target that needs a feature, then run it.
    Build(&'static Extra),
    Run(Box<Part>),
}

/// Installs what is missing and runs everything; `filter` goes to the test programs.
///
/// All programs are built first, while the tools are installed that the tests call. Two lanes then
/// run them side by side, because many tests wait for a mount or a process. What measures time runs
/// behind that, by itself.
pub fn run(filter: &[String]) -> Result<(), String> {
    let start = Instant::now();
    let (installed, built) = std::thread::scope(|scope| {
        let told = |name| Done::of(name, start, Ok(()));
        let install = scope.spawn(move || install::everything().map(|()| told("installing")));
        let built = parts::build().map(|parts| (told("building"), parts));
        // A panic there is a mistake of this program, and is told as such.
        (install.join().expect("it ends"), built)
    });
    let mut done = installed?;
    unmount_leftovers();
    match built {
        Ok((built, parts)) => {
            done.add(built);
            let (alone, beside): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.alone);
            // A filter is for test programs of Rust.
            let work = order(beside, filter.is_empty());
            done.add(side_by_side(work.into_iter(), filter));
            for part in alone {
                done.add(tested(part, filter));
            }
        }
        Err(what) => done.add(Done::of("building", start, Err(what))),
    }
    if filter.is_empty() {
        for verb in ["demo", "readme"] {
            done.add(tested(parts::chore(verb), &[]).counted());
        }
    }
    done.show();
    println!("all tests: {} s", start.elapsed().as_secs());
    println!("{} passed, {} failed", done.sum.passed, done.sum.failed);
    if done.sum.failed > 0 {
        // The closing line stays the last one: no message after it.
        std::process::exit(1);
    }
    Ok(())
}

/// What two lanes take, the longest first. Builds come behind the very first: each waits until the
/// one before has unlocked the target folder, so one lane makes them and the other one runs tests.
fn order(tests: Vec<Part>, with_chores: bool) -> Vec<Work> {
    let chores = || [parts::conflict_checker(), dist::part()];
    let mut tests: Vec<Part> = (with_chores.then(chores).into_iter().flatten())
        .chain([parts::documentation()])
        .chain(tests)
        .collect();
    tests.sort_by_key(|part| part.rank);
    let run = |part| Work::Run(Box::new(part));
    let rest = tests.split_off(1);
    let extras = EXTRAS.iter().map(Work::Build);
    let builds = extras.chain(with_chores.then(python::part).map(run));
    let first = tests.into_iter().map(run);
    first
        .chain(builds)
        .chain(rest.into_iter().map(run))
        .collect()
}

/// Runs all of it in two lanes.
fn side_by_side(work: impl Iterator<Item = Work>, filter: &[String]) -> Done {
    let queue = Mutex::new(work.collect::<VecDeque<_>>());
    let next = || queue.lock().ok()?.pop_front();
    let lane = || {
        let mut done = Done::default();
        while let Some(work) = next() {
            match work {
                Work::Run(part) => done.add(tested(*part, filter)),
                Work::Build(extra) => {
                    let start = Instant::now();
                    let built = parts::build_with(extra.package, extra.feature, extra.target());
                    let name = format!("building {} with {}", extra.target(), extra.feature);
                    match built {
                        Ok(parts) => {
                            done.slow.push((start.elapsed(), name));
                            parts
                                .into_iter()
                                .for_each(|part| done.add(tested(part, filter)));
                        }
                        Err(what) => done.add(Done::of(&name, start, Err(what))),
                    }
                }
            }
        }
        done
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(lane);
        let mut done = lane();
        // A panic of a lane is a mistake of this program, and is told as such.
        done.add(other.join().expect("a lane ends"));
        done
    })
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

impl Done {
    /// A step that is counted as a test if it fails, and by its time only if it does not.
    fn of(name: &str, start: Instant, done: Result<(), String>) -> Done {
        let failed = u64::from(done.is_err());
        Done {
            sum: Sum { passed: 0, failed },
            failures: done.err().into_iter().collect(),
            slow: vec![(start.elapsed(), name.to_owned())],
        }
    }

    /// Counts a step that did not fail as a test that passed.
    fn counted(mut self) -> Done {
        self.sum.passed = 1 - self.sum.failed;
        self
    }

    fn add(&mut self, other: Done) {
        self.sum.add(other.sum);
        self.failures.extend(other.failures);
        self.slow.extend(other.slow);
    }

    /// Prints what failed and the ten parts that took longest.
    fn show(&mut self) {
        if !self.failures.is_empty() {
            println!("\n== what failed ==\n\n{}\n", self.failures.join("\n\n"));
        }
        self.slow.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        println!("\nthe slowest parts:");
        for (time, name) in self.slow.iter().take(10) {
            println!("{:>6.1} s  {name}", time.as_secs_f64());
        }
    }
}

/// Runs one part, shows its output and adds up its result lines. A part that fails without a failed
/// test (it did not compile, a test program died) counts as one failure.
fn tested(part: Part, filter: &[String]) -> Done {
    let start = Instant::now();
    let mut failures = Failures::of(&part.name, &part.again);
    let mut sum = Sum::default();
    let mut shown = String::new();
    println!("-- {}", part.name);
    let ended = supervise::output(part.command, filter, supervise::patience(), |text| {
        let _ = writeln!(shown, "{text}");
        sum.add(Sum::of_line(text));
        failures.line(text);
    });
    let seconds = start.elapsed();
    // One call, so that the blocks of two lanes do not mix.
    println!(
        "== {}, {:.1} s ==\n{shown}",
        part.name,
        seconds.as_secs_f64()
    );
    let what = match ended {
        Ok(status) if status.success() || sum.failed > 0 => None,
        Ok(status) => Some(format!(
            "`{}` ended with {status} and no failed test",
            part.again
        )),
        Err(error) => Some(format!("`{}`: {error}", part.again)),
    };
    if let Some(what) = what {
        failures.died(&what);
        sum.failed += 1;
    }
    Done {
        sum,
        failures: failures.reports(),
        slow: vec![(seconds, part.name)],
    }
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
        let mut done = Done::of("one", Instant::now(), Ok(()));
        done.add(Done::of("two", Instant::now(), Err("no mount".into())));
        assert_eq!((done.sum.passed, done.sum.failed), (0, 1));
        assert_eq!(done.failures, ["no mount"]);
        assert_eq!(done.slow.len(), 2);
    }

    #[test]
    fn both_lanes_run_everything_once() {
        let echo = |n: u64| {
            let mut command = Command::new("echo");
            command.arg(format!("test result: ok. {n} passed; 0 failed;"));
            part(command)
        };
        let done = side_by_side(
            [1, 2, 3, 4]
                .map(|n| Work::Run(Box::new(echo(n))))
                .into_iter(),
            &[],
        );
        assert_eq!((done.sum.passed, done.sum.failed), (10, 0));
        assert_eq!(done.slow.len(), 4);
    }

    #[test]
    fn the_longest_is_taken_first_and_the_builds_behind_it() {
        let part = |name: &str, rank| Part {
            name: name.into(),
            rank,
            ..part(Command::new("true"))
        };
        let tests = || vec![part("short", parts::LAST), part("b", 1), part("a", 0)];
        let names = |work: Vec<Work>| -> Vec<String> {
            let name = |work| match work {
                Work::Build(extra) => extra.feature.to_owned(),
                Work::Run(part) => part.name,
            };
            work.into_iter().map(name).collect()
        };
        let whole = names(order(tests(), true));
        assert_eq!((&*whole[0], &*whole[1]), ("a", EXTRAS[0].feature));
        let behind = &whole[1 + EXTRAS.len()..];
        assert_eq!((&*behind[0], &*behind[1]), ("Python", "b"));
        assert_eq!(whole.last().map(|name| &**name), Some("short"));
        let part = names(order(tests(), false));
        assert_eq!(
            part.len(),
            EXTRAS.len() + 4,
            "the examples as well: {part:?}"
        );
        assert!(!part.contains(&"Python".to_owned()));
    }

    #[test]
    fn a_part_that_dies_without_a_result_line_is_a_failure() {
        let done = tested(part(Command::new("false")), &[]);
        assert_eq!((done.sum.passed, done.sum.failed), (0, 1));
        assert!(
            done.failures[0].contains("`cargo test` ended with"),
            "{:?}",
            done.failures
        );
    }

    #[test]
    fn a_failed_test_is_reported_with_the_command_that_runs_it_alone() {
        let mut command = Command::new("printf");
        command.args([
            "%s",
            "---- a::b stdout ----\nbroken\ntest result: FAILED. 0 passed; 1 failed;\n",
        ]);
        let done = tested(part(command), &[]);
        assert_eq!((done.sum.passed, done.sum.failed), (0, 1));
        let report = &done.failures[0];
        assert!(report.contains("cargo test -- --exact a::b"), "{report}");
        assert!(report.contains("broken"), "{report}");
    }

    fn part(command: Command) -> Part {
        Part {
            name: "a part".into(),
            command,
            again: "cargo test".into(),
            alone: false,
            rank: 0,
        }
    }
}
