//! Namespaces of a program and of what serves it.

use crate::failure::{Failure, reason};
use nix::sched::{CloneFlags, unshare};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, fsconfig_create,
    fsmount, fsopen, mount, mount_change,
};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, capabilities, clear_ambient_capability_set, configure_capability_in_ambient_set,
    set_capabilities,
};
use std::path::Path;

/// Mounts of this process and its children that nobody else sees. A user other than root gets a
/// user namespace in which he may mount.
pub fn enter_mounts() -> Result<(), Failure> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        take(CloneFlags::CLONE_NEWNS, "mount namespaces")?;
    } else {
        let both = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS;
        take(both, "user namespaces")?;
        // A group map may be written once groups cannot be left any more.
        write("/proc/self/setgroups", "deny")?;
        write("/proc/self/uid_map", &format!("{0} {0} 1", user.as_raw()))?;
        write("/proc/self/gid_map", &format!("{0} {0} 1", group.as_raw()))?;
        keep_right_to_mount()?;
    }
    // What is mounted outside is seen here, and nothing the other way round.
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(|error| Failure::at(Path::new("/"), error))
}

/// Makes the next child process 1 of a PID namespace.
pub fn enter_pids() -> Result<(), Failure> {
    take(CloneFlags::CLONE_NEWPID, "PID namespaces")
}

/// For process 1: a `/proc` of its namespace. Where the machine hides parts of `/proc`, nobody may
/// mount another, and the one from outside stays.
pub fn mount_proc() -> Result<(), Failure> {
    take(CloneFlags::CLONE_NEWNS, "mount namespaces")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let _ = mount("proc", "/proc", "proc", flags, None);
    Ok(())
}

/// A directory in memory that has no name, and ends with this process.
pub fn private_directory() -> Result<OwnedFd, Failure> {
    let made = || {
        let tmpfs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(tmpfs.as_fd())?;
        let flags = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
        fsmount(tmpfs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)
    };
    made().map_err(|error: Errno| Failure::refused(format!("a tmpfs for its state: {error}")))
}

/// What is started from here on has the rights of its user.
pub fn give_up_rights() -> Result<(), Failure> {
    clear_ambient_capability_set().map_err(|error| Failure::refused(format!("rights: {error}")))
}

/// A program that is started would lose what its user may do in a namespace of his own.
fn keep_right_to_mount() -> Result<(), Failure> {
    let refused = |error| Failure::refused(format!("rights in a user namespace: {error}"));
    let mut sets = capabilities(None).map_err(refused)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets).map_err(refused)?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true).map_err(refused)
}

fn take(flags: CloneFlags, what: &str) -> Result<(), Failure> {
    unshare(flags).map_err(|error| {
        let why = reason(&error.into());
        Failure::refused(format!(
            "{what} are closed on this machine ({why}); run as root, or see \
             user.max_user_namespaces and kernel.unprivileged_userns_clone of sysctl(8)"
        ))
    })
}

fn write(file: &str, text: &str) -> Result<(), Failure> {
    let written = std::fs::write(file, text);
    written.map_err(|error| Failure::at(Path::new(file), reason(&error)))
}
