//! What each finding means, and its remedy.

use super::machine::{Device, Machine};
use hearth_fuse::MountRight;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// As it should be.
    Ok,
    /// Mounting works, something could be better.
    Note,
    /// Mounting does not work.
    Fail,
}

impl Status {
    /// The word that is printed.
    pub fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Note => "note",
            Status::Fail => "FAIL",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How bad it is.
    pub status: Status,
    /// What is the case.
    pub finding: String,
    /// The exact thing to do, unless all is well.
    pub remedy: Option<String>,
}

/// All checks, in the order in which one would repair.
pub fn all(machine: &Machine) -> Vec<Check> {
    let mut checks = vec![
        kernel(machine),
        device(machine),
        privilege(machine),
        uring(machine),
        passthrough(machine),
    ];
    if machine.right() != MountRight::Own {
        checks.push(allow_other(machine));
    }
    checks.push(helper(machine));
    checks.push(quota_tools(machine));
    checks
}

/// Whether nothing stands against a mount.
pub fn can_mount(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.status != Status::Fail)
}

/// The transport that `-o transport=auto` takes here.
pub fn transport(machine: &Machine) -> &'static str {
    let allowed = match machine.uring_disabled() {
        0 => true,
        1 => machine.right() == MountRight::Own,
        _ => false,
    };
    if machine.uring_switch() == Some(true) && allowed {
        "uring"
    } else {
        "dev"
    }
}

fn ok(name: &'static str, finding: impl Into<String>) -> Check {
    Check {
        name,
        status: Status::Ok,
        finding: finding.into(),
        remedy: None,
    }
}

fn note(name: &'static str, finding: impl Into<String>, remedy: &str) -> Check {
    Check {
        name,
        status: Status::Note,
        finding: finding.into(),
        remedy: Some(remedy.to_owned()),
    }
}

fn fail(name: &'static str, finding: impl Into<String>, remedy: &str) -> Check {
    Check {
        status: Status::Fail,
        ..note(name, finding, remedy)
    }
}

fn kernel(machine: &Machine) -> Check {
    if machine.has_fuse() {
        ok("kernel", "has FUSE")
    } else {
        fail("kernel", "FUSE is not loaded", "modprobe fuse (as root)")
    }
}

fn device(machine: &Machine) -> Check {
    match machine.device() {
        Device::Open => ok("/dev/fuse", "can be opened"),
        Device::Missing => fail(
            "/dev/fuse",
            "is not there",
            "modprobe fuse (as root); in a container, start it with --device /dev/fuse",
        ),
        Device::Denied => fail(
            "/dev/fuse",
            "may not be opened by this user",
            "chmod 666 /dev/fuse (as root), or run hearth as root",
        ),
        Device::Broken(why) => fail(
            "/dev/fuse",
            format!("cannot be opened: {why}"),
            "rmmod fuse; modprobe fuse (as root); in a container, allow the device",
        ),
    }
}

fn privilege(machine: &Machine) -> Check {
    let name = "privilege";
    match (machine.right(), machine.fusermount()) {
        (MountRight::Own, _) => ok(name, "may mount by itself"),
        (MountRight::Helper, Some(path)) => ok(name, format!("mounts through {}", path.display())),
        (MountRight::Helper, None) => fail(
            name,
            "no CAP_SYS_ADMIN, and no setuid fusermount3",
            "apt-get install fuse3 (as root), or run hearth as root",
        ),
        (MountRight::Nobody, _) => fail(
            name,
            "no program started from here can have CAP_SYS_ADMIN",
            "start the container with --cap-add SYS_ADMIN and without no-new-privileges",
        ),
    }
}

fn uring(machine: &Machine) -> Check {
    let name = "io_uring";
    match (machine.uring_switch(), transport(machine)) {
        (Some(true), "uring") => ok(name, "FUSE over io_uring is on"),
        (Some(true), _) => note(
            name,
            "io_uring is disabled for this user; /dev/fuse is used instead",
            "sysctl kernel.io_uring_disabled=0 (as root)",
        ),
        (Some(false), _) => note(
            name,
            "FUSE over io_uring is off; /dev/fuse is used instead",
            "echo Y > /sys/module/fuse/parameters/enable_uring (as root, before the mount)",
        ),
        (None, _) => note(
            name,
            "this kernel has no FUSE over io_uring; /dev/fuse is used instead",
            "boot Linux 6.14 or newer with CONFIG_FUSE_IO_URING",
        ),
    }
}

/// The first Linux with FUSE passthrough.
const PASSTHROUGH: (u32, u32) = (6, 9);

fn passthrough(machine: &Machine) -> Check {
    let name = "passthrough";
    match (machine.release(), machine.right()) {
        (Some(release), MountRight::Own) if release >= PASSTHROUGH => ok(
            name,
            "files of host directories are read and written by the kernel",
        ),
        (Some(release), _) if release >= PASSTHROUGH => note(
            name,
            "no CAP_SYS_ADMIN; data of host directories takes the way through the daemon",
            "run hearth as root",
        ),
        _ => note(
            name,
            "this kernel has no FUSE passthrough; data of host directories takes the way through \
             the daemon",
            "boot Linux 6.9 or newer with CONFIG_FUSE_PASSTHROUGH",
        ),
    }
}

fn allow_other(machine: &Machine) -> Check {
    if machine.user_allow_other() {
        ok("allow_other", "is allowed to every user")
    } else {
        note(
            "allow_other",
            "is for root alone, so only you can use your mounts",
            "echo user_allow_other >> /etc/fuse.conf (as root)",
        )
    }
}

fn helper(machine: &Machine) -> Check {
    match (machine.has_helper(), machine.has_typed_helper()) {
        (true, true) => ok(
            "mount.hearth",
            "'mount -t hearth', fstab and 'mount -o remount' work",
        ),
        (true, false) => note(
            "mount.hearth",
            "works for fstab; 'mount -o remount' needs mount.fuse.hearth, which is not there",
            "ln -s \"$(command -v hearth)\" /sbin/mount.fuse.hearth (as root)",
        ),
        (false, _) => note(
            "mount.hearth",
            "is not installed: no 'mount -t hearth', no fstab",
            "for t in hearth fuse.hearth; do ln -s \"$(command -v hearth)\" /sbin/mount.$t; done \
             (as root)",
        ),
    }
}

/// Nothing that could be repaired: the kernel passes the call on to no FUSE filesystem.
fn quota_tools(machine: &Machine) -> Check {
    let tools = machine.quota_tools();
    let whose = match tools.is_empty() {
        true => String::new(),
        false => format!(": {} do not see mounts", tools.join(", ")),
    };
    ok(
        "quota tools",
        format!("quotactl(2) does not reach FUSE{whose}; use 'hearth quota'"),
    )
}

#[cfg(test)]
mod tests;
