//! Options of SELinux, which the kernel itself takes at the mount.

use std::fs;

/// `context=` and its kin, see mount(8).
pub(super) const NAMES: [&str; 4] = ["context", "fscontext", "defcontext", "rootcontext"];

/// What the kernel is given of these options, as they were typed. Nothing where it has no SELinux:
/// it would refuse the mount, and mount(8) leaves them out there too.
pub(super) fn handed_over(options: &[String]) -> &[String] {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    match has_selinux(&known) {
        true => options,
        false => &[],
    }
}

fn has_selinux(filesystems: &str) -> bool {
    let mut kinds = filesystems.split_whitespace();
    kinds.any(|kind| kind == "selinuxfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selinux_is_known_by_its_filesystem() {
        assert!(has_selinux("nodev\tproc\nnodev\tselinuxfs\n\text4\n"));
        assert!(!has_selinux("nodev\tproc\n\text4\n"));
    }
}
