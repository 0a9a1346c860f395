//! `cargo xtask check`: everything that needs no running program.

use crate::{layers, place, process, tidy};

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

fn licences() -> Result<(), String> {
    let local = place::tools().join("bin/cargo-deny");
    if process::installed("cargo-deny").is_none() && !local.is_file() {
        println!("cargo-deny is not installed: licences not checked (cargo install cargo-deny)");
        return Ok(());
    }
    let mut deny = if local.is_file() {
        let mut deny = std::process::Command::new(local);
        deny.current_dir(place::root());
        deny
    } else {
        std::process::Command::new("cargo-deny")
    };
    process::run(deny.args(["--offline", "check", "bans", "licenses", "sources"]))
}
