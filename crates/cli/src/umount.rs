//! `hearth umount`.

use crate::accounts::Accounts;
use crate::args::UmountArgs;
use crate::failure::Failure;
use crate::{config, control_file, inquiry, last_sync, mounts, output};
use hearth_sync::primitive::thread;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Unmounts a volume.
pub fn run(args: &UmountArgs) -> Result<(), Failure> {
    let mountpoint = &match (&args.config, &args.mountpoint) {
        (Some(file), _) => config::mountpoint(file)?,
        (None, place) => place.clone().unwrap_or_default(),
    };
    let failed = |what: &str| Failure::at(mountpoint, what);
    // Before anything else is asked of it.
    let facts = inquiry::ask(mountpoint);
    if facts.is_none() && !args.lazy {
        return Err(failed(&last_sync::silent(mountpoint)));
    }
    let place = match facts {
        Some(_) => mounts::resolved(mountpoint),
        None => mounts::resolved_around(mountpoint),
    };
    if let Some(file) = &args.config {
        check_unit(file, &place, facts.is_some())?;
    }
    let device = match mounts::on(&place) {
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
    let Some(facts) = facts.filter(|_| !args.lazy) else {
        return detach(&place, true).map_err(|what| failed(&what));
    };
    last_sync::run(&place, &facts).map_err(|what| failed(&what))?;
    let (daemon, filesystem) = (Daemon::of(&place), Filesystem::of(device));
    detach(&place, false).map_err(|what| failed(&what))?;
    // Something else may have been below it: an automount, or a directory that was bound.
    if !filesystem.is_at(&place) {
        daemon.wait(mountpoint, &filesystem);
    }
    Ok(())
}

/// In a unit of systemd only the unit's own mount goes: the file may have changed since.
fn check_unit(file: &Path, place: &Path, answers: bool) -> Result<(), Failure> {
    let Ok(unit) = std::env::var("MAINPID") else {
        return Ok(());
    };
    if !answers {
        let what = format!(
            "does not answer, so nobody can tell whether this unit ({unit}) serves it; \
             'hearth umount --lazy {}' detaches it all the same",
            place.display()
        );
        return Err(Failure::at(place, what));
    }
    match control_file::read(place, "pid") {
        Ok(daemon) if daemon.trim() != unit.trim() => {
            let what = format!(
                "is served by another process ({}), not by this unit ({unit}); {} has changed",
                daemon.trim(),
                file.display()
            );
            Err(Failure::at(place, what))
        }
        _ => Ok(()),
    }
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

    /// Whether it is what shows at `place`, because it was mounted there more than once.
    fn is_at(&self, place: &Path) -> bool {
        let mounted = mounts::on(place).ok().flatten();
        let is_device = mounted.is_some_and(|mounted| mounted.device == self.device);
        is_device && connection(self.device) == self.connection
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

/// How long a mount that is in use is tried again, and how often: `hearth mount` and `hearth
/// metrics` look into all mounts, and use each for a moment.
const LOOKERS: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(5);

/// Takes the topmost mount off `place`: with the system call for root, with `fusermount3` for
/// others. The error says what to do.
pub fn detach(place: &Path, lazy: bool) -> Result<(), String> {
    let flags = if lazy {
        UnmountFlags::DETACH
    } else {
        UnmountFlags::empty()
    };
    let end = Instant::now() + LOOKERS;
    loop {
        match unmount(place, flags) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) if Instant::now() < end => thread::sleep(LOOK),
            Err(Errno::BUSY) => return Err(busy(place)),
            Err(Errno::PERM) => return by_fusermount(place, lazy),
            Err(error) => return Err(format!("cannot be unmounted: {error}")),
        }
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
