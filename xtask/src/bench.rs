//! `cargo xtask bench` and `conflicts`: both are verbs of the program `hearth-bench`; the second
//! builds and runs the program `hearth-conflicts`. `bench instructions` is one of `hearth-counted`.

use crate::{place, process, python};
use std::process::Command;

/// What measures nothing but the library.
const IN_PROCESS: &[&str] = &["lib", "memory", "freeing", "latency"];

/// Builds everything that is measured, then runs `hearth-bench WHAT...`.
pub fn run(what: &[String]) -> Result<(), String> {
    if what.first().is_some_and(|verb| verb == "locks") {
        return locks(what);
    }
    if what.first().is_some_and(|verb| verb == "instructions") {
        let mut build = process::cargo();
        build.args(["build", "--release", "--package", "hearth-bench"]);
        process::run(build.args(["--bin", "hearth-counted"]))?;
        return process::run(program("hearth-counted").args(what));
    }
    if let Some(("python", rest)) = what.split_first().map(|(verb, rest)| (&**verb, rest)) {
        return python::bench(rest);
    }
    let mut build = process::cargo();
    build.args(["build", "--release"]);
    match what.first() {
        Some(verb) if verb == "sched" => build.args([
            "--package",
            "hearth-bench",
            "--package",
            "hearth-cli",
            "--bins",
            "--features",
            "hearth-bench/tokio",
        ]),
        Some(verb) if IN_PROCESS.contains(&&**verb) => build.args(["--package", "hearth-bench"]),
        Some(verb) if ["seeds", "quota", "heat", "store", "host"].contains(&&**verb) => {
            build.args([
                "--package",
                "hearth-bench",
                "--package",
                "hearth-cli",
                "--bins",
            ])
        }
        Some(verb) if verb == "requests" => build.args([
            "--package",
            "hearth-bench",
            "--package",
            "hearth-cli",
            "--bins",
            "--package",
            "hearth-fuse",
            "--example",
            "floor",
        ]),
        _ => build.args(["--workspace", "--bins", "--examples"]),
    };
    process::run(&mut build)?;
    if what.first().is_some_and(|verb| verb == "seeds") && !what.iter().any(|w| w == "--no-count") {
        // So that a quick look is one: the instrumented program takes a minute to build. Where it
        // cannot be built, the benchmark says what it does without.
        let _ = process::run(program("hearth-bench").arg("seeds-build"));
    }
    process::run(program("hearth-bench").args(what))
}

/// Runs `hearth-bench locks...` with a second build at hand that has no lock profile.
fn locks(what: &[String]) -> Result<(), String> {
    let program = place::target().join("release/hearth-bench");
    let unprofiled = program.with_file_name("hearth-bench-unprofiled");
    let build = |more: &[&str]| {
        let mut build = process::cargo();
        let package = ["build", "--release", "--package", "hearth-bench"];
        process::run(build.args(package).args(more))
    };
    build(&["--features", "unprofiled"])?;
    std::fs::copy(&program, &unprofiled)
        .map_err(|error| format!("{}: {error}", unprofiled.display()))?;
    build(&[])?;
    process::run(
        self::program("hearth-bench")
            .args(what)
            .env("HEARTH_BENCH_UNPROFILED", unprofiled),
    )
}

/// Runs `hearth-bench conflicts WHAT...`.
pub fn conflicts(what: &[String]) -> Result<(), String> {
    let mut build = process::cargo();
    process::run(build.args(["build", "--release", "--package", "hearth-bench"]))?;
    process::run(program("hearth-bench").arg("conflicts").args(what))
}

fn program(name: &str) -> Command {
    let release = place::target().join("release");
    let mut bench = Command::new(release.join(name));
    bench
        .current_dir(place::root())
        .env("HEARTH_BIN", release.join("hearth"));
    bench
}
