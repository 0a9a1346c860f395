//! A real mount, served by another process, for the length of one test.
//!
//! Client and daemon must not be one process: what the client waits for inside the kernel could
//! then never be killed. A watchdog kills the daemon and detaches the mount when a test takes too
//! long, which turns a hang into a failure.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, thread};

/// After this time the watchdog ends a test.
const PATIENCE: Duration = Duration::from_secs(60);
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// A mounted volume in memory. Dropping it unmounts.
pub struct Mounted {
    path: PathBuf,
    daemon: Arc<Mutex<Child>>,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Dropped at the end of the test: the watchdog lies down.
    _end: Sender<()>,
    barked: Arc<AtomicBool>,
    /// What the daemon says of its own accord.
    log: PathBuf,
}

impl Mounted {
    /// Mounts with these options (`transport=dev`, ...).
    pub fn start(options: &str) -> Mounted {
        Mounted::start_with(options, &[])
    }

    /// Mounts a volume with a backend that returns objects slowly.
    pub fn start_slow(options: &str) -> Mounted {
        Mounted::start_with(options, &["--slow"])
    }

    /// Mounts a volume that has neither such a backend nor threads of its own.
    pub fn start_without_workers(options: &str) -> Mounted {
        Mounted::start_with(options, &["--no-workers"])
    }

    /// Mounts a volume that its program built with room for 1 MiB.
    pub fn start_small(options: &str) -> Mounted {
        Mounted::start_with(options, &["--small"])
    }

    /// Mounts the filesystem behind another FUSE implementation.
    pub fn start_peer(options: &str) -> Mounted {
        Mounted::start_program("fuser_peer", options, &[])
    }

    /// Names of the daemon's threads.
    pub fn threads(&self) -> Vec<String> {
        let pid = self.daemon.lock().unwrap().id();
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let names =
            tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.map(|name| name.trim_end().to_owned()).collect()
    }

    fn start_with(options: &str, more: &[&str]) -> Mounted {
        Mounted::start_program("serve", options, more)
    }

    fn start_program(name: &str, options: &str, more: &[&str]) -> Mounted {
        let path = fresh_directory();
        let switch = options.contains("transport=uring").then(Switch::on);
        let log = path.with_extension("log");
        let mut child = Command::new(example(name))
            .arg(&path)
            .args(["-o", options])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .expect("the daemon starts");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        drop(switch);
        assert!(
            line.starts_with("ready"),
            "the daemon said {line:?}; run this test as root"
        );

        let daemon = Arc::new(Mutex::new(child));
        let barked = Arc::new(AtomicBool::new(false));
        let (end, ended) = channel::<()>();
        let dog = (path.clone(), Arc::clone(&daemon), Arc::clone(&barked));
        thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                dog.2.store(true, Ordering::SeqCst);
                eprintln!("watchdog: the test takes too long, killing the daemon");
                let _ = dog.1.lock().unwrap().kill();
                detach(&dog.0);
            }
        });
        Mounted {
            path,
            daemon,
            input,
            output,
            _end: end,
            barked,
            log,
        }
    }

    /// What the daemon has said on its standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes the volume through the library inside the daemon.
    pub fn command(&mut self, line: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        let answer = answer.trim_end();
        answer
            .strip_prefix("ok")
            .unwrap_or_else(|| panic!("{line}: {answer}"))
            .trim()
            .to_owned()
    }

    /// Kills the daemon with SIGKILL.
    pub fn kill(&self) {
        let mut daemon = self.daemon.lock().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Has the daemon unmount and end; its exit status.
    pub fn end(&mut self) -> Option<i32> {
        self.input = None;
        self.daemon.lock().unwrap().wait().unwrap().code()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The end of its input has the daemon unmount.
        self.input = None;
        for _ in 0..100 {
            if self.daemon.lock().unwrap().try_wait().unwrap().is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.daemon.lock().unwrap().kill();
        let _ = self.daemon.lock().unwrap().wait();
        detach(&self.path);
        let removed = fs::remove_dir(&self.path);
        if thread::panicking() {
            eprintln!("log of the daemon:\n{}", self.log());
        }
        let _ = fs::remove_file(&self.log);
        if !thread::panicking() {
            assert!(
                !self.barked.load(Ordering::SeqCst),
                "the test took too long"
            );
            removed.expect("nothing is left mounted");
        }
    }
}

/// The kernel's switch for FUSE over io_uring, on for as long as this lives; tests of all programs
/// take turns.
struct Switch {
    before: String,
    _turn: fs::File,
}

impl Switch {
    fn on() -> Switch {
        let turn = fs::File::create(std::env::temp_dir().join("hearth-enable-uring.lock")).unwrap();
        turn.lock().unwrap();
        let before = fs::read_to_string(SWITCH)
            .expect("FUSE over io_uring is there (Linux 6.14 or later, modprobe fuse)");
        fs::write(SWITCH, "Y").expect("root may switch FUSE over io_uring on");
        Switch {
            before,
            _turn: turn,
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, self.before.trim());
    }
}

/// The example `serve`.
pub fn daemon() -> PathBuf {
    example("serve")
}

/// An example, which cargo builds beside the tests.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("examples")
        .join(name);
    assert!(
        program.exists(),
        "{} is missing: cargo build -p hearth-fuse --examples",
        program.display()
    );
    program
}

/// An empty directory of its own for each test.
pub fn fresh_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("hearth-fuse-{}-{count}", std::process::id()));
    fs::create_dir(&path).unwrap();
    path
}

fn detach(path: &Path) {
    // Fails where nothing is mounted any more, which is as well.
    let _ = Command::new("umount")
        .arg("-l")
        .arg(path)
        .stderr(Stdio::null())
        .status();
}

/// Declares a test that runs on both transports.
#[macro_export]
macro_rules! on_both_transports {
    ($($(#[$meta:meta])* fn $name:ident($mounted:ident, $options:literal) $body:block)*) => {
        mod dev {
            use super::*;
            $($(#[$meta])* #[test] fn $name() {
                #[allow(unused_mut)]
                let mut $mounted = harness::Mounted::start(concat!("transport=dev,", $options));
                $body
            })*
        }
        mod uring {
            use super::*;
            $($(#[$meta])* #[test] fn $name() {
                #[allow(unused_mut)]
                let mut $mounted = harness::Mounted::start(concat!("transport=uring,", $options));
                $body
            })*
        }
    };
}
