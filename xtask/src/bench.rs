//! `cargo xtask bench` and `conflicts`: both are verbs of the program `hearth-bench`.

use crate::{place, process};
use std::process::Command;

/// What measures nothing but the library.
const IN_PROCESS: &[&str] = &[
    "lib",
    "memory",
    "quota",
    "instructions",
    "freeing",
    "latency",
];

/// Builds everything that is measured, then runs `hearth-bench WHAT...`.
pub fn run(what: &[String]) -> Result<(), String> {
    let mut build = process::cargo();
    build.args(["build", "--release"]);
    match what.first() {
        Some(verb) if verb == "sched" => {
            build.args(["--package", "hearth-bench", "--features", "tokio"])
        }
        Some(verb) if IN_PROCESS.contains(&&**verb) => build.args(["--package", "hearth-bench"]),
        _ => build.args(["--workspace", "--bins", "--examples"]),
    };
    process::run(&mut build)?;
    process::run(program().args(what))
}

/// Runs `hearth-bench conflicts WHAT...`.
pub fn conflicts(what: &[String]) -> Result<(), String> {
    let mut build = process::cargo();
    process::run(build.args(["build", "--release", "--package", "hearth-bench"]))?;
    process::run(program().arg("conflicts").args(what))
}

fn program() -> Command {
    let release = place::target().join("release");
    let mut bench = Command::new(release.join("hearth-bench"));
    bench
        .current_dir(place::root())
        .env("HEARTH_BIN", release.join("hearth"));
    bench
}
