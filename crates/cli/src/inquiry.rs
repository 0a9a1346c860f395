//! Questions to mounts that may never answer.
//!
//! A call on a mount whose daemon is stopped may be one that not even SIGKILL ends: the kernel
//! waits for a request that the daemon has taken, as it has every one over a ring. A program that
//! makes such a call can be left without an answer, and cannot end. So another process looks into
//! the mount and tells what it has seen, and is left behind if need be.

use crate::failure::{Failure, reason};
use crate::{mounted_info, output};
use hearth_sync::primitive::thread;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::statfs;
use rustix::io::Errno;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a mount may take to say anything at all.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// How long the end of a killed process is waited for, and how often it is looked at.
const ENDING: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(1);

/// What a mount says of itself, as `hearth info` shows it. Empty if it says nothing, or not to this
/// user; without a `version` if a tree of the host hides its control files.
pub type Facts = BTreeMap<String, String>;

/// The fact which filesystem has answered: another may have been mounted over the one that was
/// meant.
pub const DEVICE: &str = "device";

/// Prints what the mount says whose place comes by the standard input: a process that names a mount
/// point among its arguments is taken for the daemon. Does not return if the mount does not answer.
pub fn answer() -> Result<(), Failure> {
    let mut place = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut place);
    read.map_err(|error| Failure::refused(format!("no mount point: {}", reason(&error))))?;
    let place = PathBuf::from(OsString::from_vec(place));
    // This the kernel passes on whatever it has cached. An error is an answer too.
    let _ = statfs(&place);
    let mounted = mounted_info::at(&place);
    let facts = mounted.map_or_else(Facts::new, |mounted| {
        let mut facts = mounted_info::facts(&mounted).unwrap_or_default();
        facts.insert(DEVICE.to_owned(), device(mounted.device));
        facts
    });
    output::print(&format!("{}\n", json!(facts)))
}

/// A device as [`DEVICE`] has it.
pub fn device((major, minor): (u32, u32)) -> String {
    format!("{major}:{minor}")
}

/// Asks what is mounted at `place`. `None` if it does not answer in time.
pub fn ask(place: &Path) -> Option<Facts> {
    match Inquiry::begin(place) {
        Ok(inquiry) => inquiry.wait(Instant::now() + PATIENCE),
        // The machine has no room for another process: nobody knows.
        Err(_) => Some(Facts::new()),
    }
}

/// A process that looks into a mount.
pub struct Inquiry {
    child: Child,
    said: ChildStdout,
}

impl Inquiry {
    /// Begins to ask.
    ///
    /// # Errors
    /// The machine refuses another process.
    pub fn begin(place: &Path) -> std::io::Result<Inquiry> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("inquire");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // It may outlive this process, whose log ends with it.
        let mut child = command.stderr(Stdio::null()).spawn()?;
        if let Some(mut asked) = child.stdin.take() {
            asked.write_all(place.as_os_str().as_bytes())?;
        }
        let said = child.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
        Ok(Inquiry { child, said })
    }

    /// What it has seen, if it has by then.
    pub fn wait(mut self, until: Instant) -> Option<Facts> {
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = left.try_into().ok();
            let mut fds = [PollFd::new(&self.said, PollFlags::IN)];
            match poll(&mut fds, left.as_ref()) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return None,
            }
            match self.said.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => text.extend_from_slice(&piece[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // Its output is closed, so it has ended, and uses the mount no longer.
        let _ = self.child.wait();
        Some(serde_json::from_slice(&text).unwrap_or_default())
    }
}

impl Drop for Inquiry {
    /// Nothing is left of it, but for what waits in the kernel for a mount.
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

/// Kills a process that looks into a mount, and waits a moment for its end: it may be stuck there.
pub fn kill(child: &mut Child) {
    // It may have ended.
    let _ = child.kill();
    let end = Instant::now() + ENDING;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
        thread::sleep(LOOK);
    }
}
