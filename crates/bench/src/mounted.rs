//! Mounts that a benchmark makes, and takes away whatever happens.
//!
//! Every mount stands in a registry from before it is made until it is gone. It is taken away when
//! its owner is dropped; by [`watch`] when the program is told to end, or when nothing moves any
//! more.

use crate::children::output;
use crate::failure::Context;
use crate::target::{Fresh, HostDir, Target};
use crate::uring_switch;
use crate::watchdog::{beat, is_lost};
use hearth_testing::disk;
use rustix::mount::{UnmountFlags, unmount};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a mount may take, and a daemon to end.
const WAIT: Duration = Duration::from_secs(20);

/// A mounted filesystem, empty at first.
pub struct Mounted {
    number: u64,
    directory: PathBuf,
    host: HostDir,
}

/// What has to be taken away.
struct LiveMount {
    number: u64,
    /// Holds the mount point, and the image of a loop mount.
    base: PathBuf,
    daemon: Option<Child>,
}

static MOUNTS: Mutex<Vec<LiveMount>> = Mutex::new(Vec::new());
static NUMBERS: AtomicU64 = AtomicU64::new(1);
/// Held by [`watch`] from when it takes the mounts down until the program ends.
static ENDING: Mutex<()> = Mutex::new(());

impl Mounted {
    /// The kernel's tmpfs.
    pub fn tmpfs() -> Result<Mounted, String> {
        Mounted::tmpfs_of(4 << 30)
    }

    /// One with room for so many bytes.
    pub fn tmpfs_of(bytes: u64) -> Result<Mounted, String> {
        Mounted::with("tmpfs", |_, mountpoint| {
            let size = format!("size={bytes}");
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]);
            output(mount.arg(mountpoint))?;
            Ok(None)
        })
    }

    /// ext4 on a file of 4 GiB, of which only what is written takes room, for many small files.
    pub fn ext4() -> Result<Mounted, String> {
        Mounted::with("ext4", |base, mountpoint| {
            let image = base.join("image");
            let made = std::fs::File::create(&image).and_then(|file| file.set_len(4 << 30));
            made.at(&image)?;
            // As many inodes as the workloads may need; by its size it would have 65,536.
            let make = ["-q", "-F", "-N", "400000"];
            output(Command::new("mkfs.ext4").args(make).arg(&image))?;
            let mut mount = Command::new("mount");
            mount.args(["-t", "ext4", "-o", "loop"]).arg(&image);
            output(mount.arg(mountpoint))?;
            Ok(None)
        })
    }

    /// ext4 of so many bytes on a loop device of its own, whose file was written over before and
    /// whose statistics count nobody else.
    pub fn disk(bytes: u64) -> Result<Mounted, String> {
        Mounted::with("disk", |base, mountpoint| {
            let image = base.join("image");
            disk::make_image(&image, bytes, true)?;
            disk::attach(&image, mountpoint, true)?;
            Ok(None)
        })
    }

    /// A mount that `daemon` serves until it is unmounted; its last argument is the mount point.
    pub fn served(name: &str, daemon: Command) -> Result<Mounted, String> {
        Mounted::served_with(name, daemon, &[])
    }

    /// A mount that `daemon` serves, with `more` arguments behind the mount point.
    pub fn served_with(name: &str, mut daemon: Command, more: &[&str]) -> Result<Mounted, String> {
        Mounted::with(name, |_, mountpoint| {
            daemon.arg(mountpoint).args(more);
            // A daemon may end with its standard input, as the peer does; it is open as long as
            // this program lives.
            daemon.stdin(Stdio::piped()).stdout(Stdio::null());
            let program = daemon.get_program().to_owned();
            let child = daemon
                .spawn()
                .map_err(|error| format!("{program:?}: {error}"))?;
            Ok(Some(child))
        })
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The process that serves it; none where the kernel does itself.
    pub fn daemon(&self) -> Option<u32> {
        let live = live();
        let own = live.iter().find(|live| live.number == self.number)?;
        own.daemon.as_ref().map(Child::id)
    }

    fn with(
        name: &str,
        mount: impl FnOnce(&Path, &Path) -> Result<Option<Child>, String>,
    ) -> Result<Mounted, String> {
        beat();
        // Relaxed: a number by itself.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let unique = format!("hearth-test-{}-bench-{name}-{number}", std::process::id());
        let base = std::env::temp_dir().join(unique);
        let directory = base.join("mnt");
        std::fs::create_dir_all(&directory).at(&directory)?;
        live().push(LiveMount {
            number,
            base: base.clone(),
            daemon: None,
        });
        let made = mount(&base, &directory).and_then(|daemon| {
            if let Some(daemon) = daemon {
                let mut live = live();
                let own = live.iter_mut().find(|live| live.number == number);
                own.expect("it was put there above").daemon = Some(daemon);
            }
            let mut has_ended = false;
            wait_until("the mount", || {
                has_ended = daemon_has_ended(number);
                has_ended || is_mounted(&directory)
            })?;
            if has_ended {
                Err("the daemon ended".into())
            } else {
                HostDir::new(&directory)
            }
        });
        match made {
            Ok(host) => Ok(Mounted {
                number,
                directory,
                host,
            }),
            Err(what) => {
                take_down(number);
                Err(format!("{name}: {what}"))
            }
        }
    }
}

impl Fresh for Mounted {
    fn target(&self) -> &dyn Target {
        &self.host
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        take_down(self.number);
    }
}

/// Watches over the mounts from now on; to be called before the first thread is started. SIGINT,
/// SIGTERM and a benchmark that no longer moves take all mounts down and end the program.
pub fn watch() {
    beat();
    // SAFETY: the set is made by sigemptyset before it is used; the calls keep no pointer.
    let signals = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    };
    std::thread::spawn(move || {
        let second = libc::timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        loop {
            // SAFETY: both structures live throughout the call.
            let signal = unsafe {
                libc::sigtimedwait(&raw const signals, std::ptr::null_mut(), &raw const second)
            };
            let is_stuck = is_lost();
            if signal > 0 || is_stuck {
                let why = if is_stuck {
                    "nothing moves any more"
                } else {
                    "told to end"
                };
                let _ending = ENDING.lock();
                eprintln!("hearth-bench: {why}; taking the mounts down");
                // A function of its own, so that the list is not locked while one is taken down.
                let next = || live().first().map(|live| live.number);
                while let Some(number) = next() {
                    take_down(number);
                }
                uring_switch::restore();
                std::process::exit(if is_stuck { 124 } else { 130 });
            }
        }
    });
}

/// Does not come back while [`watch`] takes the mounts down: a benchmark whose mounts vanish fails,
/// and must not end the program before the last of them is gone.
pub fn let_watch_end() {
    drop(ENDING.lock());
}

fn live() -> std::sync::MutexGuard<'static, Vec<LiveMount>> {
    MOUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn daemon_has_ended(number: u64) -> bool {
    let mut live = live();
    let own = live.iter_mut().find(|live| live.number == number);
    let daemon = own.and_then(|live| live.daemon.as_mut());
    daemon.is_some_and(|daemon| matches!(daemon.try_wait(), Ok(Some(_))))
}

/// Unmounts, ends the daemon and removes the directory. A daemon that does not end with its mount
/// is killed, by its number, and the mount is detached.
fn take_down(number: u64) {
    let mut list = live();
    let Some(at) = list.iter().position(|live| live.number == number) else {
        return;
    };
    let mut gone = list.remove(at);
    drop(list);
    let mountpoint = gone.base.join("mnt");
    let busy = Instant::now() + Duration::from_secs(2);
    while is_mounted(&mountpoint)
        && unmount(&mountpoint, UnmountFlags::empty()).is_err()
        && Instant::now() < busy
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    if let Some(daemon) = &mut gone.daemon {
        drop(daemon.stdin.take());
        let mut ended = || matches!(daemon.try_wait(), Ok(Some(_)));
        if wait_until("the daemon", &mut ended).is_err() {
            eprintln!("hearth-bench: daemon {} does not end: killed", daemon.id());
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
    if is_mounted(&mountpoint) {
        let _ = unmount(&mountpoint, UnmountFlags::DETACH);
    }
    if !is_mounted(&mountpoint) {
        let _ = std::fs::remove_dir_all(&gone.base);
    }
}

/// Asked of the kernel's table, not of the mount: one that is stuck would not answer.
fn is_mounted(mountpoint: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let place = mountpoint.to_string_lossy();
    table
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(&*place))
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), String> {
    let end = Instant::now() + WAIT;
    while !holds() {
        if Instant::now() > end {
            return Err(format!("{what} takes longer than {} s", WAIT.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
