//! What serves a directory, and the ways in which it fails.

use crate::disk::SlowDisk;
use crate::forgetting::Forgetting;
use crate::place::mounts_below;
use crate::random::Random;
use rustix::mount::{UnmountFlags, unmount};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Something that serves a directory and can be made to fail.
pub trait Service {
    /// The directory.
    fn path(&self) -> &Path;

    /// Serves it, at first or again.
    fn start(&mut self) -> Result<(), String>;

    /// Fails in the middle of everything.
    fn fail(&mut self, random: &mut Random) -> Result<(), String>;

    /// Ends in order.
    fn stop(&mut self) -> Result<(), String>;
}

/// What starts the daemon.
type StartCommand = dyn Fn() -> Command + Send + Sync;

/// A daemon that is killed.
pub struct Daemon {
    command: Box<StartCommand>,
    path: PathBuf,
    child: Option<Child>,
}

/// A daemon on a disk that loses its power.
pub struct Cut<D> {
    /// Killed at about the time of the cut.
    pub daemon: Daemon,
    /// What it keeps its files on.
    pub disk: D,
}

/// What a power cut can be tried on.
pub trait Disk {
    /// What was not synced is lost, but for a part by the seed.
    fn cut(&mut self, seed: Option<u64>) -> Result<(), String>;

    /// It can be used again.
    fn switch_on(&mut self) -> Result<(), String>;
}

/// How long a daemon may take to mount and to end.
const WAIT: Duration = Duration::from_secs(60);

impl Daemon {
    /// What `command` starts has to stay in the foreground and mount `path`.
    pub fn new(path: &Path, command: impl Fn() -> Command + Send + Sync + 'static) -> Daemon {
        Daemon {
            command: Box::new(command),
            path: path.to_owned(),
            child: None,
        }
    }

    /// The process, while it serves.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// SIGKILL, and the mount is taken away.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that has ended by itself is found out when it starts again.
            let _ = child.kill();
            let _ = child.wait();
        }
        while mounts_below(&self.path).contains(&self.path)
            && unmount(&self.path, UnmountFlags::DETACH).is_ok()
        {}
    }
}

impl Service for Daemon {
    fn path(&self) -> &Path {
        &self.path
    }

    fn start(&mut self) -> Result<(), String> {
        let mut command = (self.command)();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn();
        let mut child = child.map_err(|error| format!("{command:?}: {error}"))?;
        let end = Instant::now() + WAIT;
        while !mounts_below(&self.path).contains(&self.path) {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(format!("{command:?}: {status}"));
            }
            if Instant::now() > end {
                let _ = child.kill();
                return Err(format!("{command:?}: it does not mount"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.child = Some(child);
        Ok(())
    }

    fn fail(&mut self, _: &mut Random) -> Result<(), String> {
        self.kill();
        Ok(())
    }

    fn stop(&mut self) -> Result<(), String> {
        let end = Instant::now() + WAIT;
        while let Err(error) = unmount(&self.path, UnmountFlags::empty()) {
            if Instant::now() > end {
                return Err(format!("{}: {error}", self.path.display()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("the daemon ended with {status}")),
                _ if Instant::now() > end => {
                    let _ = child.kill();
                    return Err("the daemon does not end with its mount".into());
                }
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

impl<D: Disk> Service for Cut<D> {
    fn path(&self) -> &Path {
        self.daemon.path()
    }

    fn start(&mut self) -> Result<(), String> {
        self.daemon.start()
    }

    fn fail(&mut self, random: &mut Random) -> Result<(), String> {
        let seed = (random.below(3) > 0).then(|| random.draw());
        // Half of the times the daemon lives to see its disk fail, and must not promise anything
        // from then on.
        if random.below(2) == 0 {
            self.daemon.kill();
        }
        self.disk.cut(seed)?;
        self.daemon.kill();
        self.disk.switch_on()
    }

    fn stop(&mut self) -> Result<(), String> {
        self.daemon.stop()
    }
}

impl Disk for Forgetting {
    fn cut(&mut self, seed: Option<u64>) -> Result<(), String> {
        Forgetting::cut(self, seed).map_err(|error| format!("a power cut: {error}"))
    }

    fn switch_on(&mut self) -> Result<(), String> {
        Ok(())
    }
}

impl Disk for SlowDisk {
    fn cut(&mut self, seed: Option<u64>) -> Result<(), String> {
        SlowDisk::cut(self, seed)
    }

    fn switch_on(&mut self) -> Result<(), String> {
        SlowDisk::switch_on(self)
    }
}

/// The disk itself: what ext4 gives after a power cut is the measure of the others.
impl Service for SlowDisk {
    fn path(&self) -> &Path {
        SlowDisk::path(self)
    }

    fn start(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn fail(&mut self, random: &mut Random) -> Result<(), String> {
        let seed = (random.below(3) > 0).then(|| random.draw());
        SlowDisk::cut(self, seed)?;
        SlowDisk::switch_on(self)
    }

    fn stop(&mut self) -> Result<(), String> {
        Ok(())
    }
}
