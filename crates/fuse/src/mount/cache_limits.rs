//! What the kernel's page cache may do for a mount: `/sys/class/bdi/MAJOR:MINOR`.
//!
//! The kernel trusts no daemon of FUSE with much. A mount may have a hundredth of the memory that
//! may be dirty, 48 MB on a machine with 24 GB, so a program that writes more is delayed as if the
//! disk were slow; and it reads 128 KiB ahead. Who may change that, which is root, is trusted with
//! more. What a mount has dirty stays bounded by its own limit, so it does not delay writers of
//! other filesystems.

use std::fs;
use std::path::PathBuf;

/// Percent of the memory that may be dirty on the machine.
const DIRTY_PERCENT: u32 = 25;
/// KiB that are read ahead of a sequential reader: a request of the largest size.
const READ_AHEAD_KIB: u32 = 1024;

/// Raises the limits of the mount with this minor device number. Where that is not allowed they
/// stay; so does what is larger already.
pub(super) fn raise(minor: u32) {
    let folder = PathBuf::from(format!("/sys/class/bdi/0:{minor}"));
    for (name, wanted) in [
        ("max_ratio", DIRTY_PERCENT),
        ("read_ahead_kb", READ_AHEAD_KIB),
    ] {
        let file = folder.join(name);
        let now = fs::read_to_string(&file).ok();
        let now = now.and_then(|now| now.trim().parse::<u32>().ok());
        if now.is_some_and(|now| now < wanted) {
            // A user who mounts through the helper may not.
            let _ = fs::write(&file, wanted.to_string());
        }
    }
}
