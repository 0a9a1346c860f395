//! The kernel's switch for FUSE over io_uring. Read, never written.

use std::fs;

/// Whether FUSE over io_uring can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UringSwitch {
    /// The kernel is too old, or FUSE is not loaded.
    Absent,
    /// It is there and switched off.
    Off,
    /// It is there and switched on for mounts made from now on.
    On,
}

/// Reads `/sys/module/fuse/parameters/enable_uring`.
pub fn uring_switch() -> UringSwitch {
    match fs::read("/sys/module/fuse/parameters/enable_uring").as_deref() {
        Ok([b'Y' | b'1', ..]) => UringSwitch::On,
        Ok(_) => UringSwitch::Off,
        Err(_) => UringSwitch::Absent,
    }
}
