//! Mounts and processes, as the kernel lists them. Nothing here asks a mount for anything.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Mount points at or below `path`, which has no space in it.
pub fn mounts_below(path: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_to_string("/proc/self/mountinfo").expect("the mounts are listed");
    list.lines()
        .filter_map(|line| line.split(' ').nth(4).map(PathBuf::from))
        .filter(|mount| mount.starts_with(path))
        .collect()
}

/// Living processes `hearth mount` that have `path` as an argument.
pub fn pids_naming(path: &Path) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("the processes are listed");
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| names(*pid, path))
        .collect()
}

/// A zombie has no arguments any more, so it does not count.
fn names(pid: u32, path: &Path) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    let serves = program.ends_with(b"/hearth") || program.ends_with(b"/exe");
    serves && words.any(|word| word == path.as_os_str().as_bytes())
}
