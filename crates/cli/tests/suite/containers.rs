//! A daemon in a container: what it does not see is said, and nobody waits for it.

use crate::harness::{Private, hearth, program, said, succeed};
use std::process::Command;

/// A script in mount and PID namespaces of its own without `/sys`, where `$HEARTH` is the program
/// and `mnt` a directory.
fn without_sys(private: &Private, script: &str) -> Command {
    let mut command = program("unshare");
    command.args(["--mount", "--pid", "--fork", "--mount-proc", "bash", "-c"]);
    command.arg(format!("set -e; mount -t tmpfs none /sys; {script}"));
    command.env("HEARTH", hearth().get_program());
    command.current_dir(private.path());
    command
}

/// The kernel handles no request before a queue is there for each CPU that may come, and `/sys`
/// alone says how many those are. Once, the mount was there and every call waited.
#[test]
fn a_daemon_that_sees_no_sys_reads_the_device() {
    let private = Private::new();
    private.directory("mnt");
    let script = "\"$HEARTH\" mount memory: mnt; trap '\"$HEARTH\" umount mnt' EXIT; \
                  echo text > mnt/f; cat mnt/f";
    let out = succeed(&mut without_sys(&private, script));
    assert!(out.contains("transport dev\n"), "{out}");
    assert!(out.ends_with("text\n"), "{out}");
}

#[test]
fn rings_that_nobody_can_count_are_refused_by_name() {
    let private = Private::new();
    private.directory("mnt");
    let script = "\"$HEARTH\" mount -o transport=uring memory: mnt";
    let refused = said(&mut without_sys(&private, script));
    assert!(!refused.success(), "{refused:?}");
    for word in [
        "transport=uring",
        "/sys/devices/system/cpu/possible",
        "transport=auto",
    ] {
        assert!(refused.err.contains(word), "{word}: {refused:?}");
    }
}
