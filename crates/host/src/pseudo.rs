//! Pseudo filesystems, whose files the kernel makes up while they are read: they take no room, and
//! nobody can say how many there are.

use rustix::fd::AsFd;
use rustix::fs::fstatfs;

/// By `f_type`, and as mountinfo(5) calls them.
const PSEUDO: [(u64, &str); 8] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x6265_6570, "configfs"),
];

/// What such a filesystem is called, if `fd` is on one. It may be of `O_PATH`.
pub fn pseudo_filesystem(fd: impl AsFd) -> Option<&'static str> {
    let found = fstatfs(fd).ok()?;
    let mut all = PSEUDO.iter();
    let (_, name) = all.find(|(kind, _)| found.f_type as u64 == *kind)?;
    Some(name)
}

/// Whether mountinfo(5) calls such a filesystem so.
pub(crate) fn is_pseudo_type(kind: &[u8]) -> bool {
    PSEUDO.iter().any(|(_, name)| name.as_bytes() == kind)
}
