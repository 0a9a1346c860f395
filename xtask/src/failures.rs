//! What a `cargo test` printed about its failures, kept for the end of the run.
//!
//! A run prints tens of thousands of lines. Its end lists every failed test with the last lines
//! that the test printed, so that a reader need not search the rest.

use std::collections::VecDeque;

/// Lines kept of what one test printed before it failed: its last ones, where the panic is.
const KEPT: usize = 40;

/// Reads the output line by line.
#[derive(Debug, Default)]
pub struct Failures {
    /// The part that is running, or the program of it, as cargo named it.
    program: String,
    /// What runs the part again, or one test of it where `{}` stands.
    again: String,
    /// The failed test whose output is being printed.
    section: Option<(String, VecDeque<String>)>,
    /// Whether the lines are those of a backtrace: the panic's place stands above it.
    backtrace: bool,
    /// The last lines of all, for a run that fails without a failed test.
    last: VecDeque<String>,
    reports: Vec<String>,
}

impl Failures {
    /// A reader for the output of `part`; `again` is the command that runs the part again.
    pub fn of(part: &str, again: &str) -> Failures {
        Failures {
            program: part.to_owned(),
            again: again.to_owned(),
            ..Failures::default()
        }
    }

    pub fn line(&mut self, line: &str) {
        push(&mut self.last, line);
        if let Some(program) = line.trim_start().strip_prefix("Running ") {
            program.clone_into(&mut self.program);
        } else if let Some(name) = section(line) {
            self.close();
            self.section = Some((name.to_owned(), VecDeque::new()));
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.close();
        } else if let Some((_, said)) = &mut self.section {
            self.backtrace |= line == "stack backtrace:";
            if !self.backtrace {
                push(said, line);
            }
            self.backtrace &= !line.starts_with("note: ");
        }
    }

    /// A run that ended badly by itself: it did not compile, or a test program died.
    pub fn died(&mut self, what: &str) {
        self.close();
        self.report(what.to_owned(), self.last.clone());
    }

    /// One report for each failure, in the order they came.
    pub fn reports(mut self) -> Vec<String> {
        self.close();
        self.reports
    }

    fn close(&mut self) {
        self.backtrace = false;
        if let Some((name, said)) = self.section.take() {
            let heading = format!("{name}, of {}", self.program);
            let again = match self.again.split_once("{}") {
                Some((before, behind)) => format!("again: {before}{name}{behind}"),
                None => format!("again: {} -- --exact {name}", self.again),
            };
            self.report(heading, std::iter::once(again).chain(said).collect());
        }
    }

    fn report(&mut self, heading: String, said: VecDeque<String>) {
        let lines = std::iter::once(format!("---- {heading}")).chain(said);
        self.reports.push(lines.collect::<Vec<_>>().join("\n"));
    }
}

/// The test that a heading such as `---- dev::a_name stdout ----` names.
fn section(line: &str) -> Option<&str> {
    let inner = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    inner.strip_suffix(" stdout")
}

fn push(lines: &mut VecDeque<String>, line: &str) {
    if lines.len() == KEPT {
        lines.pop_front();
    }
    lines.push_back(line.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> Failures {
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.line(line));
        failures
    }

    #[test]
    fn every_failed_test_is_kept_with_what_it_said() {
        let output = "     Running tests/mount.rs (target/debug/deps/mount-83)\n\
                      test dev::one ... FAILED\ntest dev::two ... ok\n\nfailures:\n\n\
                      ---- dev::one stdout ----\nthe wheel broke\nstack backtrace:\n\
                      0: rust_begin_unwind\nnote: Some details\nand fell\n\n\
                      ---- dev::three stdout ----\nso did the axle\n\n\
                      failures:\n    dev::one\n    dev::three\n\ntest result: FAILED. 1 passed";
        let reports = read(output).reports();
        assert_eq!(reports.len(), 2, "{reports:?}");
        assert!(reports[0].starts_with("---- dev::one, of tests/mount.rs"));
        assert!(reports[0].contains("the wheel broke") && !reports[0].contains("axle"));
        assert!(reports[0].contains("and fell") && !reports[0].contains("unwind"));
        assert!(reports[1].contains("so did the axle") && !reports[1].contains("dev::one"));
    }

    #[test]
    fn the_command_for_one_test_is_told() {
        let line = "---- test_a.py::test_b stdout ----";
        for (again, told) in [
            (
                "cargo test",
                "again: cargo test -- --exact test_a.py::test_b",
            ),
            ("pytest {} -x", "again: pytest test_a.py::test_b -x"),
        ] {
            let mut failures = Failures::of("part", again);
            failures.line(line);
            assert!(failures.reports()[0].contains(told));
        }
    }

    #[test]
    fn a_run_that_died_is_kept_with_its_last_lines() {
        let mut failures = read("   Compiling hearth\nerror: no such thing");
        failures.died("`cargo test` ended with exit status: 101");
        let reports = failures.reports();
        assert_eq!(reports.len(), 1);
        assert!(reports[0].contains("101") && reports[0].contains("no such thing"));
    }

    #[test]
    fn of_a_long_output_the_end_is_kept() {
        let said: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let reports = read(&format!("---- long stdout ----\n{said}")).reports();
        assert!(reports[0].ends_with("line 99") && !reports[0].contains("line 59\n"));
    }
}
