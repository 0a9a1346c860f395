//! The program `hearth-bench sched` from outside.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

#[test]
fn an_unknown_part_is_refused_in_one_line_that_names_the_parts() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_hearth-bench"));
    let output = bench.args(["sched", "--only", "sdett"]).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("unknown part 'sdett'")
            && said.contains("yield, yield-instructions, sdet, chat, neighbour, background"),
        "{said}"
    );
}
