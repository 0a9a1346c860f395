//! `hearth umount`.

use crate::accounts::Accounts;
use crate::args::UmountArgs;
use crate::failure::Failure;
use crate::{config, control_file, mounts, output};
use hearth_sync::primitive::thread;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Unmounts a volume.
pub fn run(args: &UmountArgs) -> Result<(), Failure> {
    let mountpoint = &match (&args.config, &args.mountpoint) {
        (Some(file), _) => of_unit(file)?,
        (None, place) => place.clone().unwrap_or_default(),
    };
    let failed = |what: &str| Failure::at(mountpoint, what);
    let answers = answers(mountpoint);
    if !answers && !args.lazy {
        let place = mountpoint.display();
        return Err(failed(&format!(
            "does not answer: its daemon is stopped, or waits for a disk; let that go on, or \
             detach it with 'hearth umount --lazy {place}'"
        )));
    }
    let place = match answers {
        true => mounts::resolved(mountpoint),
        false => mounts::resolved_around(mountpoint),
    };
    let device = match mounts::at(&place) {
        Ok(Some(mounted)) if mounted.is_ours() => mounted.device,
        Ok(Some(mounted)) => {
            return Err(failed(&format!(
                "is a mount of {}, not of Hearth; use 'umount {}'",
                mounted.kind,
                place.display()
            )));
        }
        Ok(None) => {
            return Err(failed(
                "nothing is mounted here; 'findmnt -t fuse.hearth' lists the volumes",
            ));
        }
        Err(error) => return Err(Failure::at(Path::new("/proc/self/mountinfo"), error)),
    };
    if !answers {
        return detach(&place, true).map_err(|what| failed(&what));
    }
    // Most of what is to be written is written before, while the mount can still be used.
    if let Ok(directory) = std::fs::File::open(&place) {
        let _ = rustix::fs::syncfs(&directory);
    }
    let (daemon, filesystem) = (Daemon::of(&place), Filesystem::of(device));
    detach(&place, args.lazy).map_err(|what| failed(&what))?;
    if !args.lazy && mounts::at(&place).is_ok_and(|mounted| mounted.is_none()) {
        daemon.wait(mountpoint, &filesystem);
    }
    Ok(())
}

/// The mount point that a file names. In a unit of systemd only the unit's own mount: the file may
/// have changed since.
fn of_unit(file: &Path) -> Result<PathBuf, Failure> {
    let place = config::mountpoint(file)?;
    let unit = std::env::var("MAINPID").ok();
    let daemon = control_file::read(&place, "pid").ok();
    match unit.zip(daemon) {
        Some((unit, daemon)) if unit.trim() != daemon.trim() => {
            let what = format!(
                "is served by another process ({}), not by this unit ({unit}); {} has changed",
                daemon.trim(),
                file.display()
            );
            Err(Failure::at(&place, what))
        }
        _ => Ok(place),
    }
}

/// How long a mount may take to say anything at all.
const PATIENCE: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(2);

/// Whether what is mounted at `place` answers, if only by an error. The question is one that the
/// kernel passes on; whoever waits for the answer goes with this process.
fn answers(place: &Path) -> bool {
    let asked = place.to_owned();
    let question = thread::spawn(move || rustix::fs::statfs(&asked).is_ok());
    let end = Instant::now() + PATIENCE;
    while !question.is_finished() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

/// The daemon of a mount. A volume is durable, and free for others, when its daemon has ended; the
/// kernel does not wait for that.
struct Daemon(Option<(Pid, OwnedFd)>);

/// After this it is said for what the daemon waits, if that is known.
const NOTICE: Duration = Duration::from_secs(2);
/// So long after the notice an unmount still waits for others: they may stay for days.
const OTHERS: Duration = Duration::from_secs(30);

impl Daemon {
    /// The daemon that serves `place`, if it is a `hearth mount`.
    fn of(place: &Path) -> Daemon {
        let pid = control_file::read(place, "pid").ok();
        let pid = pid.and_then(|text| Pid::from_raw(text.trim().parse().ok()?));
        let is_daemon = |pid: &Pid| {
            let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid()));
            line.is_ok_and(|line| line.split(|&byte| byte == 0).nth(1) == Some(b"mount"))
        };
        let pid = pid.filter(is_daemon);
        Daemon(pid.and_then(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?))))
    }

    /// Returns when it has ended. It does not while others have its filesystem mounted:
    /// programs in containers and of `hearth run` get copies of all mounts, and where `/` is
    /// private what is unmounted here stays there. Those are waited for as long as [`OTHERS`]: what
    /// was written is durable by then, and who uses the volume next is told by whom it is held.
    fn wait(self, mountpoint: &Path, filesystem: &Filesystem) {
        let Some((pid, daemon)) = self.0 else { return };
        let mut said: Option<Instant> = None;
        while !has_ended(&daemon) {
            let others = filesystem.others();
            if others.is_empty() {
                // It has much to write.
                continue;
            }
            match said {
                Some(begun) if begun.elapsed() > OTHERS => return,
                Some(_) => continue,
                None => said = Some(Instant::now()),
            }
            let who = others.join(", ");
            let what = format!(
                "is unmounted here and still mounted {who}; process {} serves it until that ends",
                pid.as_raw_pid()
            );
            output::say(format_args!("{}: {what}", mountpoint.display()));
        }
    }
}

/// Whether the process ends within [`NOTICE`].
fn has_ended(process: &OwnedFd) -> bool {
    let notice = NOTICE.try_into().ok();
    let mut asked = [PollFd::new(process, PollFlags::IN)];
    poll(&mut asked, notice.as_ref()).is_ok_and(|ready| ready > 0)
}

/// A mounted filesystem: its device, which another one may get when it is gone, and the inode of
/// its connection in the kernel's list of them, which is no other's, if there is such a list.
struct Filesystem {
    device: (u32, u32),
    connection: Option<u64>,
}

impl Filesystem {
    fn of(device: (u32, u32)) -> Filesystem {
        Filesystem {
            device,
            connection: connection(device),
        }
    }

    /// Where it is still mounted.
    fn others(&self) -> Vec<String> {
        if connection(self.device) != self.connection {
            return Vec::new();
        }
        let mut seen = mounts::places(self.device);
        if seen.is_empty() && self.connection.is_some() {
            seen.push("where only root sees it".to_owned());
        }
        seen
    }
}

/// The inode of a connection in the kernel's list, where it is named by the minor number.
fn connection((_, minor): (u32, u32)) -> Option<u64> {
    let directory = Path::new("/sys/fs/fuse/connections").join(minor.to_string());
    Some(std::fs::metadata(directory).ok()?.ino())
}

/// Takes the topmost mount off `place`: with the system call for root, with `fusermount3` for
/// others. The error says what to do.
pub fn detach(place: &Path, lazy: bool) -> Result<(), String> {
    let flags = if lazy {
        UnmountFlags::DETACH
    } else {
        UnmountFlags::empty()
    };
    match unmount(place, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(busy(place)),
        Err(Errno::PERM) => by_fusermount(place, lazy),
        Err(error) => Err(format!("cannot be unmounted: {error}")),
    }
}

fn by_fusermount(place: &Path, lazy: bool) -> Result<(), String> {
    let owner = mounts::owner(place).ok().flatten();
    if let Some(owner) = owner.filter(|&owner| owner != geteuid().as_raw()) {
        let name = Accounts::Users.name(owner);
        let name = name.unwrap_or_else(|| owner.to_string());
        return Err(match owner {
            0 => "was mounted by root; unmount it as root".to_owned(),
            _ => format!("was mounted by {name}; unmount it as {name} or as root"),
        });
    }
    let mut command = Command::new("fusermount3");
    command
        .arg(if lazy { "-uz" } else { "-u" })
        .arg("--")
        .arg(place);
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains("busy") {
                return Err(busy(place));
            }
            let said = said.lines().next().unwrap_or("fusermount3 failed");
            Err(format!(
                "{said}; unmount it as root or as the user who mounted it"
            ))
        }
        Err(_) => Err("only root unmounts without fusermount3; apt-get install fuse3".to_owned()),
    }
}

fn busy(place: &Path) -> String {
    let place = place.display();
    format!("is in use; 'fuser -vm {place}' shows by whom, --lazy detaches it anyway")
}
