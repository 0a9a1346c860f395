//! A daemon in a container: what it does not see is said, and nobody waits for it.

use crate::harness::{Mounted, Private, Transport, hearth, program, said, succeed, until};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

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

/// The kernel would only say that an argument is invalid, and `hearth doctor` that all is well.
#[test]
fn a_masked_device_is_named_by_the_mount_by_run_and_by_the_doctor() {
    let private = Private::new();
    private.directory("mnt");
    let mask = "mount --bind /dev/null /dev/fuse";
    for verb in ["mount memory: mnt", "run -- true"] {
        let refused = said(&mut without_sys(
            &private,
            &format!("{mask}; \"$HEARTH\" {verb}"),
        ));
        let (line, rest) = refused.err.split_once('\n').expect("a line");
        assert!(!refused.success() && rest.is_empty(), "{refused:?}");
        let words = ["/dev/fuse is not the device of FUSE", "--device /dev/fuse"];
        assert!(words.iter().all(|word| line.contains(word)), "{refused:?}");
    }
    let doctor = said(&mut without_sys(
        &private,
        &format!("{mask}; \"$HEARTH\" doctor"),
    ));
    assert!(!doctor.success(), "{doctor:?}");
    assert!(
        doctor
            .out
            .contains("cannot be opened: it is another device"),
        "{doctor:?}"
    );
}

/// An unmount that waits for others, and what it has said of them.
struct Waiting {
    unmount: Child,
    said: String,
}

impl Waiting {
    /// Begins to unmount. Returns when a line was said, or the unmount is over.
    fn begin(mounted: &Mounted) -> Waiting {
        let mut unmount = hearth();
        unmount.arg("umount").arg(mounted.path());
        let mut unmount = unmount.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let errors = unmount.stderr.take().unwrap();
        BufReader::new(errors).read_line(&mut said).unwrap();
        Waiting { unmount, said }
    }

    /// Checks that it waits, lets the others go, and returns what was said.
    fn end(mut self, others_go: impl FnOnce()) -> String {
        let early = self.unmount.try_wait().unwrap();
        others_go();
        assert!(early.is_none(), "{early:?}: {}", self.said);
        assert!(self.unmount.wait().unwrap().success(), "{}", self.said);
        self.said
    }
}

/// Containers get copies of all mounts. Once, `hearth umount` waited for them without a word.
#[test]
fn an_unmount_says_who_has_a_copy_of_the_mount_and_waits_for_it() {
    let mounted = Mounted::new(Transport::Dev, "");
    // Its own process, so that its number is known; a test that fails leaves it for a minute.
    let mut container = Command::new("unshare");
    container.args(["--mount", "--propagation", "private", "sleep", "60"]);
    let mut container = container.spawn().expect("unshare");
    let is_inside = || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", container.id()));
        name.is_ok_and(|name| name == "sleep\n")
    };
    until("the container runs", is_inside);
    let process = format!("process {} (sleep)", container.id());
    let said = Waiting::begin(&mounted).end(|| {
        container.kill().expect("it runs");
        container.wait().expect("it ends");
    });
    for word in [
        "still mounted in the mount namespace of",
        &process,
        "serves it",
    ] {
        assert!(said.contains(word), "{said}");
    }
}

/// Binds the volume to a directory beside it, which is returned.
fn bind_of(mounted: &Mounted) -> PathBuf {
    let bind = mounted.outside("bind");
    let mut mount = program("mount");
    succeed(mount.arg("--bind").arg(mounted.path()).arg(&bind));
    bind
}

/// Once, a script with an unmount stood still until a container of somebody else
/// ended.
#[test]
fn an_unmount_ends_although_others_keep_the_mount() {
    let mounted = Mounted::new(Transport::Dev, "");
    let bind = bind_of(&mounted);
    let unmounted = said(hearth().arg("umount").arg(mounted.path()));
    let still = std::fs::write(bind.join("file"), "served");
    succeed(program("umount").arg(&bind));
    assert!(unmounted.success(), "{unmounted:?}");
    assert!(unmounted.err.contains("still mounted on"), "{unmounted:?}");
    still.expect("the daemon serves it");
}

#[test]
fn an_unmount_says_where_a_bind_of_the_mount_is() {
    let mounted = Mounted::new(Transport::Dev, "");
    let bind = bind_of(&mounted);
    let said = Waiting::begin(&mounted).end(|| {
        succeed(program("umount").arg(&bind));
    });
    let place = format!("still mounted on {}", bind.display());
    assert!(said.contains(&place), "{said}");
}
