//! The checks on machines made of files.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A machine on which everything is well; tests break one thing.
struct Made {
    root: PathBuf,
    right: MountRight,
}

impl Made {
    fn new(name: &str) -> Made {
        let directory = format!("hearth-doctor-{}-{name}", std::process::id());
        let made = Made {
            root: std::env::temp_dir().join(directory),
            right: MountRight::Own,
        };
        made.file("proc/filesystems", "nodev\tfuse\n\text4\n");
        made.file("proc/sys/kernel/io_uring_disabled", "0\n");
        made.file("proc/sys/kernel/osrelease", "6.9.0-1-amd64\n");
        made.file("sys/module/fuse/parameters/enable_uring", "Y\n");
        made.file("dev/fuse", "");
        made.file("etc/fuse.conf", "# user_allow_other\n");
        made.file("sbin/mount.hearth", "");
        made.file("sbin/mount.fuse.hearth", "");
        made
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }

    fn gone(&self, path: &str) {
        fs::remove_file(self.root.join(path)).unwrap();
    }

    fn fusermount(&self, mode: u32) {
        self.file("usr/bin/fusermount3", "");
        let path = self.root.join("usr/bin/fusermount3");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn machine(&self) -> Machine {
        Machine::at(&self.root, self.right)
    }

    /// Checks that are not `ok`, with their remedies.
    fn found(&self) -> Vec<(&'static str, Status, String)> {
        all(&self.machine())
            .into_iter()
            .filter(|check| check.status != Status::Ok)
            .map(|check| (check.name, check.status, check.remedy.unwrap_or_default()))
            .collect()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).unwrap();
    }
}

#[test]
fn a_good_machine_mounts_over_uring() {
    let made = Made::new("good");
    assert_eq!(made.found(), []);
    assert_eq!(transport(&made.machine()), "uring");
}

#[test]
fn the_switch_of_uring_is_named_when_it_is_off() {
    let made = Made::new("off");
    made.file("sys/module/fuse/parameters/enable_uring", "N\n");
    let found = made.found();
    assert_eq!((found[0].0, found[0].1), ("io_uring", Status::Note));
    assert!(
        found[0]
            .2
            .contains("echo Y > /sys/module/fuse/parameters/enable_uring")
    );
    assert_eq!(transport(&made.machine()), "dev");
}

#[test]
fn a_kernel_without_fuse_cannot_mount() {
    let made = Made::new("nofuse");
    made.file("proc/filesystems", "nodev\tfuseblk\n");
    made.gone("dev/fuse");
    let names: Vec<_> = made.found().iter().map(|found| found.0).collect();
    assert_eq!(names, ["kernel", "/dev/fuse"]);
    assert!(!can_mount(&all(&made.machine())));
}

#[test]
fn a_user_needs_a_setuid_fusermount() {
    let mut made = Made::new("user");
    made.right = MountRight::Helper;
    made.fusermount(0o755);
    let found = made.found();
    assert_eq!((found[0].0, found[0].1), ("privilege", Status::Fail));
    assert!(found[0].2.contains("apt-get install fuse3"), "{found:?}");
    made.fusermount(0o4755);
    assert!(can_mount(&all(&made.machine())));
    let names: Vec<_> = made.found().iter().map(|found| found.0).collect();
    assert_eq!(names, ["passthrough", "allow_other"]);
}

#[test]
fn passthrough_needs_a_kernel_and_a_right() {
    let mut made = Made::new("passthrough");
    made.file("proc/sys/kernel/osrelease", "6.8.12\n");
    let found = made.found();
    assert_eq!((found[0].0, found[0].1), ("passthrough", Status::Note));
    assert!(found[0].2.contains("Linux 6.9"), "{found:?}");
    made.file("proc/sys/kernel/osrelease", "6.18.44\n");
    made.fusermount(0o4755);
    made.right = MountRight::Helper;
    assert!(made.found()[0].2.contains("as root"));
}

#[test]
fn a_disabled_io_uring_falls_back_to_the_device() {
    let made = Made::new("disabled");
    made.file("proc/sys/kernel/io_uring_disabled", "1\n");
    assert_eq!(transport(&made.machine()), "uring", "privileged");
    made.file("proc/sys/kernel/io_uring_disabled", "2\n");
    assert_eq!(transport(&made.machine()), "dev");
    assert!(made.found()[0].2.contains("io_uring_disabled=0"));
}

#[test]
fn a_helper_that_cannot_have_the_capability_is_no_way_to_mount() {
    let mut made = Made::new("contained");
    made.right = MountRight::Nobody;
    made.fusermount(0o4755);
    let found = made.found();
    assert_eq!((found[0].0, found[0].1), ("privilege", Status::Fail));
    assert!(found[0].2.contains("--cap-add SYS_ADMIN"), "{found:?}");
}

#[test]
fn a_remount_needs_the_helper_of_the_type_in_the_table_of_mounts() {
    let made = Made::new("helpers");
    made.gone("sbin/mount.fuse.hearth");
    let found = made.found();
    assert_eq!((found[0].0, found[0].1), ("mount.hearth", Status::Note));
    assert!(found[0].2.contains("/sbin/mount.fuse.hearth"), "{found:?}");
    made.gone("sbin/mount.hearth");
    assert!(made.found()[0].2.contains("for t in hearth fuse.hearth"));
}

#[test]
fn tools_that_ask_by_quotactl_are_named_where_they_are_installed() {
    let made = Made::new("quotas");
    let said = || {
        let checks = all(&made.machine());
        let check = checks.into_iter().find(|check| check.name == "quota tools");
        check.unwrap().finding
    };
    assert!(said().contains("quotactl(2) does not reach FUSE; use 'hearth quota'"));
    made.file("usr/sbin/repquota", "");
    made.file("usr/sbin/xfs_quota", "");
    assert!(
        said().contains(": repquota, xfs_quota do not see mounts; use"),
        "{}",
        said()
    );
}
