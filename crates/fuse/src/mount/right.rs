//! How the calling thread may mount. `hearth doctor` asks the same function as the mount.

use rustix::thread::{CapabilitySet, capabilities, capability_is_in_bounding_set, no_new_privs};

/// How the calling thread may mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountRight {
    /// By mount(2): `CAP_SYS_ADMIN` is in effect, whatever the user id is.
    Own,
    /// Through a setuid `fusermount3`, to which the kernel gives the capability.
    Helper,
    /// Not at all: no program that this thread starts gets the capability. A container was started
    /// without it, or a supervisor has set `no_new_privs`.
    Nobody,
}

/// How the calling thread may mount.
pub fn mount_right() -> MountRight {
    let admin = CapabilitySet::SYS_ADMIN;
    if capabilities(None).is_ok_and(|sets| sets.effective.contains(admin)) {
        return MountRight::Own;
    }
    let in_reach = capability_is_in_bounding_set(admin).unwrap_or(true);
    if in_reach && !no_new_privs().unwrap_or(false) {
        MountRight::Helper
    } else {
        MountRight::Nobody
    }
}
