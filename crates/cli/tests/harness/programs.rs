//! Running other programs: found or missed with a remedy, never for longer than a limit.

use super::stuck::Lookout;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

/// Seconds after which a program and its children are killed. Less than the watchdog of a mount
/// has, so that the suite names the program that hangs.
const LIMIT_S: u64 = 240;
/// How long before that it is told what everybody waits in.
const EARLIER_S: u64 = 10;

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Said {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Said {
    /// Whether it ended with status 0.
    pub fn success(&self) -> bool {
        self.status.success()
    }
}

/// Every suite mounts by itself.
pub fn demand_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "the suites mount volumes: run them as root (sudo cargo xtask test)"
    );
    let device = File::options().read(true).write(true).open("/dev/fuse");
    if let Err(error) = device {
        panic!(
            "/dev/fuse: {error}; do: modprobe fuse, or start the container with \
             --device /dev/fuse --cap-add SYS_ADMIN"
        );
    }
}

/// A program of a Debian package, killed with its children when it takes too long.
pub fn program(name: &str) -> Command {
    limited(&installed(name))
}

/// A program that `cargo xtask test` installs from the registry.
pub fn registry_tool(name: &str) -> Command {
    limited(&tool(name))
}

/// A program that `cargo xtask test` puts into `target/tools`.
pub fn tool(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin");
    let path = root.join(name);
    assert!(
        path.is_file(),
        "{} is missing; cargo xtask test installs it",
        path.display()
    );
    path
}

/// A script, ended by the first command that fails.
pub fn shell(directory: &Path, script: &str) -> Command {
    let mut bash = program("bash");
    bash.env("LC_ALL", "C")
        .args(["-euo", "pipefail", "-c", script]);
    bash.current_dir(directory);
    bash
}

/// Runs a program to its end, or kills it a little after the limit. Its standard error is followed
/// by what all were waiting in when it came near its limit.
pub fn said(command: &mut Command) -> Said {
    let (before, behind) = (LIMIT_S - EARLIER_S, 2 * EARLIER_S);
    let lookout = Lookout::start(Duration::from_secs(before), Duration::from_secs(behind));
    let output = command.output();
    let seen = lookout.end();
    let Output {
        status,
        stdout,
        stderr,
    } = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Said {
        status,
        out: String::from_utf8_lossy(&stdout).into_owned(),
        err: String::from_utf8_lossy(&stderr).into_owned() + &seen,
    }
}

/// Runs a program that has to work; what it printed.
pub fn succeed(command: &mut Command) -> String {
    let said = said(command);
    let Said { status, out, err } = &said;
    assert!(
        said.success(),
        "{command:?}: {status}\n{}{}",
        end_of(out),
        end_of(err)
    );
    said.out
}

/// git with settings of its own, whoever runs the suites, and without work in the background.
pub fn git(directory: &Path) -> Command {
    let mut git = program("git");
    git.current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "suite")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "suite@localhost")))
        .args(["-c", "gc.autoDetach=false", "-c", "maintenance.auto=false"])
        .args(["-c", "init.defaultBranch=main", "-c", "safe.directory=*"]);
    git
}

fn limited(path: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args([OsStr::new("-s"), OsStr::new("KILL")]);
    command.arg(LIMIT_S.to_string()).arg(path);
    command
}

fn installed(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is missing; cargo xtask test installs it"))
}

/// The last lines, which say why.
fn end_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(200);
    lines[first..].join("\n") + "\n"
}
