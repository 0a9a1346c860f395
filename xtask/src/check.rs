//! `cargo xtask check`: everything that needs no running program.

use crate::extras::EXTRAS;
use crate::{install, layers, place, process, tidy};

/// Runs all checks, also after a failure, and names those that failed.
pub fn run() -> Result<(), String> {
    let mut failed = Vec::new();
    let mut note = |name: &'static str, done: Result<(), String>| {
        if let Err(what) = done {
            eprintln!("{name}: {what}");
            failed.push(name);
        }
    };
    note(
        "fmt",
        process::run(process::cargo().args(["fmt", "--all", "--check"])),
    );
    note("clippy", clippy());
    note("doc", documentation());
    note("tidy", tidy::run());
    note("layers", layers::run());
    note("deny", licences());
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("failed: {}", failed.join(", ")))
}

/// Runs clippy on the default build, and on each test that needs a feature: no other build compiles
/// the code behind a feature.
fn clippy() -> Result<(), String> {
    let mut clippy = process::cargo();
    clippy.args(["clippy", "--workspace", "--all-targets", "--quiet"]);
    process::run(clippy.args(["--", "-D", "warnings"]))?;
    for extra in EXTRAS {
        let mut clippy = process::cargo();
        clippy.args(["clippy", "--quiet", "--package", extra.package]);
        clippy.args(["--features", extra.feature, "--test", extra.target()]);
        // The values of a model checker are large.
        let large = ["-Aclippy::result_large_err", "-Aclippy::large_enum_variant"];
        process::run(clippy.args(["--", "-D", "warnings"]).args(large))?;
    }
    Ok(())
}

fn documentation() -> Result<(), String> {
    let mut doc = process::cargo();
    doc.args([
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ]);
    process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks licences, sources and duplicates of the packages, and known faults if the database of
/// advisories can be fetched. Prints a line if it cannot.
fn licences() -> Result<(), String> {
    install::checker()?;
    let deny = || {
        let mut deny = std::process::Command::new(place::tools().join("bin/cargo-deny"));
        deny.current_dir(place::root());
        deny
    };
    process::run(deny().args(["check", "bans", "licenses", "sources"]))?;
    if let Err(what) = process::run(deny().args(["fetch", "db"])) {
        println!("advisories not checked: their database cannot be fetched ({what})");
        return Ok(());
    }
    process::run(deny().args(["--offline", "check", "advisories"]))
}
