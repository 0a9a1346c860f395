//! kill -9 of the daemon: nobody hangs, and the next mount on the same place works.

mod harness;

use harness::{Mount, TRANSPORTS, hearth, is_mounted};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Clients that use the mount in different ways until something fails.
const CLIENTS: &[&str] = &[
    "while true; do ls -l . > /dev/null; done",
    "while true; do echo text > f1; cat f1 > /dev/null; rm f1; done",
    "while true; do dd if=/dev/zero of=f2 bs=128k count=64 conv=fsync 2> /dev/null; done",
    "while true; do mkdir d; mv d e; rmdir e; done",
    "exec 9> lock; flock 9; echo waited too short >&2; exit 0",
    "exec 9< held; while read -r -N 1 -u 9 c; do sleep 0.01; done; cat held",
];

#[test]
fn a_killed_daemon_leaves_no_hung_process_and_the_next_mount_cleans_up() {
    for transport in TRANSPORTS {
        let mut mount = Mount::start(transport, &[]);
        mount.shell(10, "seq 1 100000 > held");
        let holder = client(&mount, "exec 9> lock; flock 9; sleep 600");
        let clients: Vec<Child> = CLIENTS.iter().map(|line| client(&mount, line)).collect();
        std::thread::sleep(Duration::from_millis(700));
        mount.kill();
        let start = Instant::now();
        for (mut child, line) in clients.into_iter().zip(CLIENTS) {
            gone(&mut child, line, start);
        }
        stop(holder);
        let place = mount.path();
        assert!(is_mounted(&place), "the kernel keeps a dead mount");
        let place = place.to_str().unwrap();
        let (status, out, err) = hearth(&["mount", place]);
        assert_eq!(status, 0, "{out}{err}");
        assert!(out.contains(place) && out.contains("daemon of an earlier mount is gone"), "{out}");
        assert!(out.contains("transport "), "{out}");
        mount.shell(10, "echo alive > f; cat f; test ! -e held");
        assert_eq!(hearth(&["umount", place]), (0, String::new(), String::new()));
        assert!(!is_mounted(&mount.path()), "something is left on the mount point");
    }
}

#[test]
fn umount_takes_a_dead_mount_away() {
    let mut mount = Mount::start("dev", &[]);
    mount.kill();
    let place = mount.path();
    let (status, out, err) = hearth(&["umount", place.to_str().unwrap()]);
    assert_eq!((status, out + &err), (0, String::new()));
    assert!(!is_mounted(&place));
}

fn client(mount: &Mount, line: &str) -> Child {
    Command::new("bash")
        .args(["-euc", line])
        .current_dir(mount.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A client ends by itself when its filesystem is gone, or can at least be killed.
fn gone(child: &mut Child, line: &str, start: Instant) {
    while child.try_wait().unwrap().is_none() {
        let waited = start.elapsed();
        if waited > Duration::from_secs(5) {
            child.kill().unwrap();
        }
        assert!(waited < Duration::from_secs(15), "hangs: {line}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
