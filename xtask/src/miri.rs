//! `cargo xtask miri`: the unit tests of `hearth-sync`, where the unsafe code lies, under Miri. It
//! reports undefined behaviour: references that alias, memory used before or after its time, data
//! races, leaks. It comes with nightly compilers only.

use crate::{place, process};
use std::process::{Command, Stdio};

const INSTALL: &str = "rustup toolchain install nightly --component miri,rust-src";

/// `miri [FILTER...]`: those tests whose names contain one of the filters, or all.
pub fn run(filters: &[String]) -> Result<(), String> {
    let asked = miri(&["--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !asked.is_ok_and(|status| status.success()) {
        return Err(format!("there is no Miri here; `{INSTALL}` installs it"));
    }
    let mut tests = miri(&["test", "--package", "hearth-sync", "--lib", "--"]);
    // Clocks tell the time, as waits have limits.
    tests
        .args(filters)
        .env("MIRIFLAGS", "-Zmiri-disable-isolation");
    process::run(&mut tests)
}

fn miri(args: &[&str]) -> Command {
    let mut rustup = Command::new("rustup");
    rustup
        .current_dir(place::root())
        .args(["run", "nightly", "cargo", "miri"])
        .args(args);
    rustup
}
