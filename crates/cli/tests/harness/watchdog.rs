//! Ends what takes too long.

use super::pids_naming;
use super::stuck::threads_of;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long one mount may be in use, beside what is asked for. Programs on it have less, see
/// `programs`. Half a minute alone became five where two busy processors ran the other parts too:
/// each request waits for its turn twice.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long a killed process may take to end.
const ENDING: Duration = Duration::from_secs(30);

/// How long one mount may be in use: longer where `HEARTH_SECONDS` makes tests longer.
pub fn patience() -> Duration {
    let asked = std::env::var("HEARTH_SECONDS").ok();
    PATIENCE + Duration::from_secs(asked.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Watches over one mount point for as long as it lives.
pub struct Watchdog {
    /// Gone at the end of the test, which the watching thread sees.
    _end: Sender<()>,
    barked: Arc<AtomicBool>,
}

impl Watchdog {
    /// Kills the daemon of `mount` and takes the mount away when the time is over.
    pub fn start(mount: &Path, patience: Duration) -> Watchdog {
        let barked = Arc::new(AtomicBool::new(false));
        let (end, ended) = channel();
        let (mount, bark) = (mount.to_owned(), Arc::clone(&barked));
        std::thread::spawn(move || {
            if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                // Release: who sees it in `has_barked` knows why its programs failed.
                bark.store(true, Ordering::Release);
                eprintln!(
                    "watchdog: too long; killing the daemon of {}",
                    mount.display()
                );
                let daemons = pids_naming(&mount);
                daemons
                    .iter()
                    .for_each(|&pid| eprint!("{}", threads_of(pid)));
                daemons.into_iter().for_each(kill);
                detach(&mount);
            }
        });
        Watchdog { _end: end, barked }
    }

    /// Whether the time was over.
    pub fn has_barked(&self) -> bool {
        // Acquire pairs with the Release in `start`.
        self.barked.load(Ordering::Acquire)
    }
}

/// SIGKILL, whether or not the process is still there. Returns when it has closed its files: what
/// it had locked is free.
pub fn kill(pid: u32) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    let process = pidfd_open(pid, PidfdFlags::empty());
    let _ = kill_process(pid, Signal::KILL);
    if let Ok(process) = process {
        let most = ENDING.try_into().ok();
        let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], most.as_ref());
    }
}

/// Takes all mounts off `mount`, in use or not.
pub fn detach(mount: &Path) {
    let mut umount = Command::new("umount");
    umount.arg("-l").arg(mount).stderr(Stdio::null());
    while umount.status().is_ok_and(|status| status.success()) {}
}
