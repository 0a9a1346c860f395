//! `cargo xtask check`: everything that needs no running program.

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

fn clippy() -> Result<(), String> {
    let mut clippy = process::cargo();
    clippy.args(["clippy", "--workspace", "--all-targets", "--quiet"]);
    process::run(clippy.args(["--", "-D", "warnings"]))
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

/// Licences, sources and duplicates need no more than the packages. Known faults need the database
/// of advisories: where it cannot be fetched, that is said.
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
