//! Who serves a directory, and how a command is run in it.

use crate::daemons::{output, program};
use crate::mounted::Mounted;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Who serves the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nobody: programs use it as it is.
    Directory,
    /// `hearth mount` with these options more.
    Hearth(&'static str, &'static str),
    /// `hearth run`.
    Run,
    Bindfs,
    FuseOverlayfs,
    Mergerfs,
}

/// All, in the order of the table.
pub const ALL: &[Target] = &[
    Target::Directory,
    Target::Hearth("hearth", ""),
    Target::Hearth("hearth quota", ",quota=wait"),
    Target::Hearth("hearth heat", ",hot_track"),
    Target::Run,
    Target::Bindfs,
    Target::FuseOverlayfs,
    Target::Mergerfs,
];

/// A directory that is served for as long as this lives.
pub struct Served {
    directory: PathBuf,
    mount: Option<Mounted>,
    runs_inside: bool,
    state: PathBuf,
}

impl Target {
    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Target::Directory => "directory",
            Target::Hearth(name, _) => name,
            Target::Run => "hearth run",
            Target::Bindfs => "bindfs",
            Target::FuseOverlayfs => "fuse-overlayfs",
            Target::Mergerfs => "mergerfs",
        }
    }

    /// Serves `below`. What has to be kept beside lies in `state`.
    pub fn serve(self, below: &Path, state: &Path) -> Result<Served, String> {
        let mount = match self {
            Target::Directory | Target::Run => None,
            Target::Hearth(_, more) => {
                let mut daemon = Command::new(program());
                let options = format!("state={}{more}", state.display());
                daemon.args(["mount", "-f", "-o", &options]).arg(below);
                Some(Mounted::served("hearth", daemon)?)
            }
            Target::Bindfs => Some(peer("bindfs", &["-f"], Some(below))?),
            Target::FuseOverlayfs => Some(overlay(below, state)?),
            Target::Mergerfs => Some(peer("mergerfs", &["-f"], Some(below))?),
        };
        let directory = mount.as_ref().map_or(below, Mounted::directory).to_owned();
        Ok(Served {
            directory,
            mount,
            runs_inside: self == Target::Run,
            state: state.to_owned(),
        })
    }
}

/// A program that serves `below`, if it is installed.
fn peer(name: &str, arguments: &[&str], below: Option<&Path>) -> Result<Mounted, String> {
    let is_there = Command::new("sh")
        .args(["-c", &format!("command -v {name}")])
        .output();
    if !is_there.is_ok_and(|found| found.status.success()) {
        return Err(format!("{name} is not installed: apt-get install {name}"));
    }
    let mut daemon = Command::new(name);
    daemon.args(arguments).args(below);
    Mounted::served(name, daemon)
}

/// With `below` as the upper layer, so that it serves what is there and writes there.
fn overlay(below: &Path, state: &Path) -> Result<Mounted, String> {
    let (lower, work) = (state.join("lower"), state.join("work"));
    for path in [&lower, &work] {
        std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        below.display(),
        work.display()
    );
    peer("fuse-overlayfs", &["-f", "-o", &layers], None)
}

impl Served {
    /// Runs a command in the directory to its end.
    pub fn shell(&self, line: &str) -> Result<(), String> {
        let mut command = match self.runs_inside {
            true => {
                let mut run = Command::new(program());
                run.args(["run", "--", "sh", "-c", line]);
                run.env("STATE_DIRECTORY", &self.state);
                run
            }
            false => {
                let mut shell = Command::new("sh");
                shell.args(["-c", line]);
                shell
            }
        };
        output(command.current_dir(&self.directory)).map(drop)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Before the directory below is removed.
        drop(self.mount.take());
    }
}
