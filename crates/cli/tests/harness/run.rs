//! Running programs against a mount, with a time limit.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a bash script in `dir`; fails unless it succeeds within `limit` seconds. Gives what it
/// printed.
pub fn shell(dir: &Path, limit: u32, script: &str) -> String {
    let mut bash = Command::new("timeout");
    bash.args(["-k", "10", &limit.to_string()])
        .args(["bash", "-euo", "pipefail", "-c", script])
        .env("LC_ALL", "C")
        .current_dir(dir);
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{script}\n{}", shown(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `hearth` with `args`: exit status, standard output, standard error.
pub fn hearth(args: &[&str]) -> (i32, String, String) {
    let output = Command::new("timeout")
        .args(["-k", "10", "60", env!("CARGO_BIN_EXE_hearth")])
        .args(args)
        .output()
        .unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// A test program that `cargo xtask install-tools` installs.
pub fn tool(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("target/tools/bin").join(name);
    assert!(path.is_file(), "no {name}; run: cargo xtask install-tools");
    path
}

/// The end of what a program printed, and how it ended.
fn shown(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(80)..];
    format!("{}\n{}", last.join("\n"), output.status)
}
