//! The servers of a directory, and how a command is run in what they serve.

use crate::children::output;
use crate::daemons::program;
use crate::failure::Context;
use crate::mounted::Mounted;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTarget {
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

/// Without quotas and heat, where the daemon sees all bytes, as it does with them.
pub const SEEN: &str = "hearth, seen";

/// With quotas, which are known before the mount answers.
pub const QUOTA: &str = "hearth quota";

/// All, in the order of the table.
pub const ALL: &[HostTarget] = &[
    HostTarget::Directory,
    HostTarget::Hearth("hearth", ""),
    HostTarget::Hearth(SEEN, ",passthrough=off"),
    HostTarget::Hearth(QUOTA, ",quota=wait"),
    HostTarget::Hearth("hearth heat", ",hot_track"),
    HostTarget::Run,
    HostTarget::Bindfs,
    HostTarget::FuseOverlayfs,
    HostTarget::Mergerfs,
];

/// A directory that is served for as long as this lives.
pub struct ServedDirectory {
    directory: PathBuf,
    _mount: Option<Mounted>,
    runs_inside: bool,
    state: PathBuf,
}

impl HostTarget {
    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            HostTarget::Directory => "directory",
            HostTarget::Hearth(name, _) => name,
            HostTarget::Run => "hearth run",
            HostTarget::Bindfs => "bindfs",
            HostTarget::FuseOverlayfs => "fuse-overlayfs",
            HostTarget::Mergerfs => "mergerfs",
        }
    }

    /// Serves `below`. What has to be kept beside lies in `state`.
    pub fn serve(self, below: &Path, state: &Path) -> Result<ServedDirectory, String> {
        let mount = match self {
            HostTarget::Directory | HostTarget::Run => None,
            HostTarget::Hearth(_, more) => {
                let mut daemon = Command::new(program());
                let options = format!("state={}{more}", state.display());
                daemon.args(["mount", "-f", "-o", &options]).arg(below);
                Some(Mounted::served("hearth", daemon)?)
            }
            HostTarget::Bindfs => Some(peer("bindfs", &["-f"], Some(below))?),
            HostTarget::FuseOverlayfs => Some(overlay(below, state)?),
            HostTarget::Mergerfs => Some(peer("mergerfs", &["-f"], Some(below))?),
        };
        let directory = mount.as_ref().map_or(below, Mounted::directory).to_owned();
        Ok(ServedDirectory {
            directory,
            _mount: mount,
            runs_inside: self == HostTarget::Run,
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
        std::fs::create_dir_all(path).at(path)?;
    }
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        below.display(),
        work.display()
    );
    peer("fuse-overlayfs", &["-f", "-o", &layers], None)
}

impl ServedDirectory {
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
