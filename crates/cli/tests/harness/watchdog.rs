//! Ends what takes too long.

use super::pids_naming;
use super::stuck::threads_of;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long one mount may be in use. Programs on it have less, see `programs`.
pub const PATIENCE: Duration = Duration::from_secs(300);

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

/// SIGKILL, whether or not the process is still there.
pub fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Takes all mounts off `mount`, in use or not.
pub fn detach(mount: &Path) {
    let mut umount = Command::new("umount");
    umount.arg("-l").arg(mount).stderr(Stdio::null());
    while umount.status().is_ok_and(|status| status.success()) {}
}
