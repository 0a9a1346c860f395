//! A mounted volume for a test, served by the real program in a process of its own.
//!
//! A client of a FUSE mount that waits for a daemon that does not answer cannot be killed. So the
//! daemon is never this process, and a watchdog kills it and detaches the mount when a test takes
//! too long: every waiting client then gets an error and the test fails instead of hanging.

// Each test file compiles this module for itself and uses a part of it.
#![allow(dead_code)]

mod place;
mod run;
mod uring;

pub use place::Place;
pub use run::{hearth, shell, tool};
pub use uring::UringOn;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Both ways requests can travel.
pub const TRANSPORTS: [&str; 2] = ["dev", "uring"];

/// How long a daemon may take to mount, and to end.
const PROMPT: Duration = Duration::from_secs(20);

/// How long a test may use a mount.
const LIMIT: Duration = Duration::from_secs(900);

/// A mounted volume; dropping it kills the daemon and leaves nothing behind.
pub struct Mount {
    place: Place,
    daemon: Child,
    watchdog: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Mount {
    /// Mounts a memory volume over `transport` with further options.
    pub fn start(transport: &str, options: &[&str]) -> Mount {
        let place = Place::new();
        let uring = (transport == "uring").then(UringOn::new);
        let mut all = vec![format!("transport={transport}")];
        all.extend(options.iter().map(|option| (*option).to_owned()));
        let log = fs::File::create(place.log()).unwrap();
        let daemon = Command::new(env!("CARGO_BIN_EXE_hearth"))
            .args(["mount", "-f", "-o", &all.join(",")])
            .args([Path::new("memory:"), &place.mount()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut mount = Mount {
            place,
            daemon,
            watchdog: None,
        };
        mount.wait_until_mounted();
        mount.watchdog = Some(watchdog(mount.pid(), mount.path()));
        // Answered by the daemon, so the handshake, for which the switch counts, is over.
        fs::metadata(mount.path()).unwrap();
        drop(uring);
        let log = mount.log();
        assert!(log.contains(&format!("transport {transport}")), "{log}");
        mount
    }

    /// Where the volume is mounted.
    pub fn path(&self) -> PathBuf {
        self.place.mount()
    }

    /// The directory that holds the mount point: a place for files beside the mount.
    pub fn outside(&self) -> &Path {
        self.place.root()
    }

    /// What the daemon has printed so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.place.log()).unwrap_or_default()
    }

    /// The daemon's process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.daemon)
    }

    /// Runs a bash script in the root of the mount; fails unless it succeeds within `limit`
    /// seconds. Gives what it printed.
    pub fn shell(&self, limit: u32, script: &str) -> String {
        shell(&self.path(), limit, script)
    }

    /// One number of `.hearth/stats`.
    pub fn stat(&self, name: &str) -> f64 {
        let text = fs::read_to_string(self.path().join(".hearth/stats")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        line.trim().parse().unwrap()
    }

    /// Kills the daemon as nothing else does: it cannot clean up.
    pub fn kill(&mut self) -> ExitStatus {
        kill_process(self.pid(), Signal::KILL).unwrap();
        self.ended("killed")
    }

    /// Ends the daemon as an administrator would, and checks that it ends cleanly, leaves no mount
    /// and has not panicked.
    pub fn finish(mut self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
        let status = self.ended("asked to end");
        let log = self.log();
        assert!(status.success(), "the daemon ended with {status}:\n{log}");
        assert!(!is_mounted(&self.path()), "still mounted:\n{log}");
        assert!(!log.contains("panicked"), "{log}");
    }

    /// Waits for the end of the daemon.
    pub fn ended(&mut self, why: &str) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.daemon.try_wait().unwrap() {
                return status;
            }
            let log = self.log();
            assert!(start.elapsed() < PROMPT, "{why}, the daemon goes on:\n{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_until_mounted(&mut self) {
        let start = Instant::now();
        while !self.log().contains("transport ") {
            let status = self.daemon.try_wait().unwrap();
            let log = self.log();
            assert!(status.is_none(), "the daemon ended with {status:?}:\n{log}");
            assert!(start.elapsed() < PROMPT, "not mounted in time:\n{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Ok(None) = self.daemon.try_wait() {
            if std::thread::panicking() {
                eprintln!("the daemon said:\n{}", self.log());
            }
            // Killed first: detaching the mount of a daemon that hangs would wait for it.
            let _ = self.daemon.kill();
            let _ = self.daemon.wait();
        }
        self.place.detach();
        if let Some((stop, thread)) = self.watchdog.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Kills the daemon and detaches its mount unless the sender is dropped in time.
fn watchdog(daemon: Pid, mount: PathBuf) -> (Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = channel();
    let thread = std::thread::spawn(move || {
        if stopped.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("watchdog: {} took too long", mount.display());
            let _ = kill_process(daemon, Signal::KILL);
            let _ = unmount(&mount, UnmountFlags::DETACH);
        }
    });
    (stop, thread)
}

/// Whether something is mounted exactly here.
pub fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let place = path.to_string_lossy().into_owned();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(&*place))
}

/// The seed of this run: 1, or what `HEARTH_SEED` says.
pub fn seed() -> u64 {
    match std::env::var("HEARTH_SEED") {
        Ok(text) => text.parse().expect("HEARTH_SEED is a number"),
        Err(_) => 1,
    }
}
