//! Limits and protections that mount options set, on a real mount, on both transports.

#![allow(clippy::unwrap_used)]

mod harness;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A write lock of the open file description on one byte.
fn lock(file: &File, byte: i64) -> Result<(), i32> {
    let lock = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: fcntl reads the lock, which lives through the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

/// Whether nobody (65534) can link a file of root that has this mode.
fn is_linked_by_others(mount: &Path, name: &str, mode: u32) -> bool {
    let directory = mount.join("shared");
    let _ = fs::create_dir(&directory);
    fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
    let file = directory.join(name);
    File::create(&file).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    let mut link = Command::new("ln");
    link.arg("--physical")
        .arg(&file)
        .arg(directory.join(format!("{name}-other")));
    let link = link.uid(65534).gid(65534).stderr(Stdio::null());
    link.status().unwrap().success()
}

/// The kernel refuses by itself, before it asks the mount.
fn kernel_protects() -> bool {
    fs::read_to_string("/proc/sys/fs/protected_hardlinks").is_ok_and(|set| set.trim() != "0")
}

on_both_transports! {
    fn a_file_has_no_more_names_than_the_option_allows(mounted, "links_max=2") {
        let at = |name: &str| mounted.path().join(name);
        File::create(at("one")).unwrap();
        fs::hard_link(at("one"), at("two")).unwrap();
        let third = fs::hard_link(at("one"), at("three")).unwrap_err();
        assert_eq!(third.raw_os_error(), Some(libc::EMLINK));
        fs::remove_file(at("two")).unwrap();
        fs::hard_link(at("one"), at("three")).unwrap();
    }

    fn an_open_file_locks_no_more_ranges_than_the_option_allows(mounted, "lock_ranges=2") {
        let mut open = OpenOptions::new();
        let file = open.read(true).write(true).create(true).truncate(false);
        let file = file.open(mounted.path().join("locked")).unwrap();
        // The first of the file does not count.
        assert_eq!([0, 10, 20].map(|at| lock(&file, at)), [Ok(()); 3]);
        assert_eq!(lock(&file, 30), Err(libc::ENOLCK));
    }

    /// Once, a range of more than 64 MiB that did not fit was tried for ever, and a hole took as
    /// many steps as its range is long.
    fn a_long_range_that_cannot_fit_is_refused_and_a_hole_ends_however_long(mounted, "size=32M") {
        let file = File::create(mounted.path().join("long")).unwrap();
        let call = |mode: i32, at: i64, len: i64| {
            // SAFETY: no memory is passed.
            match unsafe { libc::fallocate(file.as_raw_fd(), mode, at, len) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
            }
        };
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        for len in [40 << 20, 65 << 20, 1 << 40, 1 << 62] {
            assert_eq!(call(0, 0, len), Err(libc::ENOSPC), "{len}");
            assert_eq!(call(keep, 1, len), Err(libc::ENOSPC), "{len}");
            assert_eq!(call(libc::FALLOC_FL_ZERO_RANGE, 0, len), Err(libc::ENOSPC), "{len}");
        }
        assert_eq!((file.metadata().unwrap().len(), file.metadata().unwrap().blocks()), (0, 0));
        assert_eq!(call(0, 0, 20 << 20), Ok(()));
        assert_eq!(file.metadata().unwrap().blocks(), (20 << 20) / 512);
        assert_eq!(call(libc::FALLOC_FL_PUNCH_HOLE | keep, 0, 1 << 62), Ok(()));
        assert_eq!(file.metadata().unwrap().blocks(), 0);
    }

    fn files_of_others_are_linked_by_who_may_write_them(mounted, "protected_hardlinks") {
        assert!(!is_linked_by_others(mounted.path(), "unwritable", 0o644));
        assert!(!is_linked_by_others(mounted.path(), "setuid", 0o4666));
        assert!(is_linked_by_others(mounted.path(), "writable", 0o666));
    }

    fn without_the_option_the_kernel_alone_protects_links(mounted, "") {
        let is_linked = is_linked_by_others(mounted.path(), "unwritable", 0o644);
        assert_eq!(is_linked, !kernel_protects());
    }
}

/// The size is the volume's: the options of the mount do not name it.
#[test]
fn a_full_volume_that_was_built_with_a_size_refuses_the_write_and_not_the_fsync() {
    for transport in ["transport=dev", "transport=uring"] {
        let mounted = harness::Mounted::start_small(transport);
        let mut file = File::create_new(mounted.path().join("f")).unwrap();
        let mut written = 0;
        let refused = loop {
            match file.write(&[1; 4096]) {
                Ok(bytes) => written += bytes as u64,
                Err(error) => break error,
            }
            assert!(written <= 1 << 20, "{transport}: acknowledged without room");
        };
        assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC), "{transport}");
        assert_eq!(written, 1 << 20, "{transport}");
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().blocks() * 512, written);
    }
}

/// Regression: each close of a file that may be limited had a thread of its own for 131 ms, so that
/// many closes took the threads of those who wait for locks.
#[test]
fn closes_of_limited_files_share_one_thread() {
    let mounted = harness::Mounted::start_small("transport=dev");
    let path = |number| mounted.path().join(format!("f{number}"));
    for number in 0..100 {
        File::create_new(path(number)).unwrap();
    }
    // What is written later has another time than the kernel believes.
    std::thread::sleep(Duration::from_millis(50));
    for number in 0..100 {
        let mut file = File::options().write(true).open(path(number)).unwrap();
        file.write_all(b"x").unwrap();
    }
    let threads = mounted.threads();
    let waits = threads.iter().filter(|name| *name == "hearth-wait");
    assert!(waits.count() <= 2, "{threads:?}");
}
