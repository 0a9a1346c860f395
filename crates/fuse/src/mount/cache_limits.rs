//! What the kernel's page cache may do for a mount: `/sys/class/bdi/MAJOR:MINOR`.
//!
//! The kernel reads 128 KiB ahead for a daemon of FUSE. Who may change that, which is root, is
//! trusted with more.
//!
//! It keeps a hundredth of the memory that may be dirty on the machine for a mount, 48 MB on one of
//! 24 GB, and passes unwritten pages on in one queue, the oldest first. An fsync of another file
//! waits behind all of them. So the bound is lowered to what keeps the kernel busy while the daemon
//! handles a request: a writer is held up a little earlier, and is as fast, because the daemon
//! takes the pages meanwhile and not afterwards.

use std::fs;
use std::path::PathBuf;

/// Bytes that may be dirty.
const DIRTY_BYTES: u64 = 8 << 20;
/// KiB that are read ahead of a sequential reader: a request of the largest size.
const READ_AHEAD_KIB: u64 = 1024;

/// Sets the limits of the mount with this minor device number. Where that is not allowed, to a user
/// who mounts through the helper, or on a kernel that has no such limit (before Linux 6.2), they
/// stay; so does what is better already. The page cache `collects` what programs write or not.
pub(super) fn set(minor: u32, collects: bool) {
    let folder = PathBuf::from(format!("/sys/class/bdi/0:{minor}"));
    let change = |name: &str, is_worse: fn(u64) -> bool, wanted: u64| {
        let file = folder.join(name);
        let now = fs::read_to_string(&file).ok();
        let now = now.and_then(|now| now.trim().parse::<u64>().ok());
        if now.is_some_and(is_worse) {
            let _ = fs::write(&file, wanted.to_string());
        }
    };
    change("read_ahead_kb", |now| now < READ_AHEAD_KIB, READ_AHEAD_KIB);
    if collects {
        change("max_bytes", |now| now > DIRTY_BYTES, DIRTY_BYTES);
    }
}
