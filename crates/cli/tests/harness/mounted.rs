//! A mounted volume in memory.

use super::watchdog::{Watchdog, detach, kill, patience};
use super::{Private, Said, Turn, demand_root, mounts_below, pids_naming, said, shell, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The way requests travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Rings of the kernel.
    Uring,
    /// Descriptors of `/dev/fuse`.
    Dev,
}

impl Transport {
    /// As it is typed after `transport=`.
    pub fn word(self) -> &'static str {
        match self {
            Transport::Uring => "uring",
            Transport::Dev => "dev",
        }
    }
}

/// A volume mounted by `hearth mount`; dropping it unmounts and checks that nothing is left.
pub struct Mounted {
    // Dropped in this order: the watchdog lies down before the directories go.
    watchdog: Watchdog,
    path: PathBuf,
    log: PathBuf,
    /// What is typed as the source, if the options do not say it.
    source: Option<String>,
    private: Private,
}

impl Mounted {
    /// Mounts `memory:` over `transport` with more options (`"a,b=c"`, or none). With `create`
    /// among them it is a volume in a directory, which [`Mounted::mount_again`] mounts again.
    pub fn new(transport: Transport, options: &str) -> Mounted {
        Mounted::of(transport, options, None)
    }

    /// Mounts a directory as it is, over `transport` with more options.
    pub fn over(transport: Transport, below: &Path, options: &str) -> Mounted {
        let source = format!("host:{}", below.display());
        Mounted::of(transport, options, Some(source))
    }

    /// Mounts the volume in `directory`, over `transport` with more options.
    pub fn stored_in(transport: Transport, directory: &Path, options: &str) -> Mounted {
        let source = format!("store:{}", directory.display());
        Mounted::of(transport, options, Some(source))
    }

    fn of(transport: Transport, options: &str, source: Option<String>) -> Mounted {
        demand_root();
        let private = Private::new();
        let path = private.directory("mnt");
        let log = private.path().join("log");
        let watchdog = Watchdog::start(&path, patience());
        let mounted = Mounted {
            watchdog,
            path,
            log,
            source,
            private,
        };
        let said = mounted.mount_again(transport, options);
        let report = format!("transport {}\n", transport.word());
        assert!(said.out.ends_with(&report), "hearth mount: {said:?}");
        mounted
    }

    /// Runs `hearth mount` on the mount point; it has to work.
    pub fn mount_again(&self, transport: Transport, options: &str) -> Said {
        let turn = (transport == Transport::Uring).then(Turn::with_uring);
        let transport = format!("transport={}", transport.word());
        let mut mount = hearth();
        let is_stored = options.split(',').any(|option| option == "create");
        let source = match (&self.source, is_stored) {
            (Some(source), _) => source.clone(),
            (None, true) => format!("store:{}", self.private.path().join("volume").display()),
            (None, false) => "memory:".to_owned(),
        };
        mount.args(["mount", &source]).arg(&self.path);
        mount.args(["-o", &transport]).arg("--log").arg(&self.log);
        if !options.is_empty() {
            mount.args(["-o", options]);
        }
        let said = said(&mut mount);
        drop(turn);
        assert!(said.success(), "hearth mount: {said:?}\n{}", self.log());
        said
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path on the volume.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path.join(path)
    }

    /// A new directory beside the volume, on the machine's own filesystem.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.private.directory(name)
    }

    /// Runs a bash script in the root of the volume; it has to work. What it printed.
    pub fn shell(&self, script: &str) -> String {
        succeed(&mut shell(&self.path, script))
    }

    /// One number of `.hearth/stats`, 0 for what has not happened.
    pub fn stat(&self, key: &str) -> f64 {
        let text = std::fs::read_to_string(self.at(".hearth/stats")).expect("statistics");
        let mut values = text
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        values
            .next()
            .map_or(0.0, |value| value.parse().expect("a number"))
    }

    /// What the daemon has written to its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The process that serves the volume.
    pub fn daemon(&self) -> u32 {
        match pids_naming(&self.path)[..] {
            [pid] => pid,
            ref pids => panic!("the daemon is one of {pids:?}\n{}", self.log()),
        }
    }

    /// Kills the daemon with SIGKILL.
    pub fn kill(&self) {
        kill(self.daemon());
        self.until_gone();
    }

    /// `hearth umount`: it has to work, and the daemon has to end.
    pub fn unmount(&self) {
        // A program that another test starts right now holds what this test had open until it is
        // executed, so that the volume is in use for a moment longer.
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let said = said(hearth().arg("umount").arg(&self.path));
            if said.success() {
                break;
            }
            let again = said.err.contains("is in use") && Instant::now() < end;
            assert!(again, "hearth umount: {said:?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.until_gone();
    }

    /// Waits for the end of the daemon.
    pub fn unmount_has_ended(&self) {
        self.until_gone();
    }

    fn until_gone(&self) {
        let end = Instant::now() + Duration::from_secs(30);
        while !pids_naming(&self.path).is_empty() {
            assert!(Instant::now() < end, "the daemon lives on\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the daemon:\n{}", self.log());
        } else {
            assert!(!self.watchdog.has_barked(), "the suite took too long");
            if !mounts_below(&self.path).is_empty() {
                self.unmount();
            }
            let log = self.log();
            assert!(!log.contains("panicked"), "the daemon panicked:\n{log}");
        }
        for pid in pids_naming(&self.path) {
            kill(pid);
        }
        if !mounts_below(&self.path).is_empty() {
            detach(&self.path);
        }
    }
}

/// The program under test.
pub fn hearth() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hearth"))
}
