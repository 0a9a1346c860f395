//! The daemon dies under its users.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::{
    Lookout, Mounted, Transport, Watchdog, hearth, mounts_below, program, said, shell, until,
};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::Error;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

harness::on_both_transports!(
    a_killed_daemon_leaves_no_process_hanging,
    the_next_mount_clears_what_a_killed_daemon_left,
    an_unmount_takes_away_what_a_killed_daemon_left,
    a_daemon_asked_to_end_unmounts,
    who_waits_for_a_stopped_daemon_is_freed_by_the_watchdog,
);

/// Each works on the volume until something fails. The word says what it leaves as proof of life.
const CLIENTS: [(&str, &str); 6] = [
    ("appending", "while echo x >> appending; do :; done"),
    (
        "reading",
        "while cat data > /dev/null && touch reading; do :; done",
    ),
    (
        "renaming",
        "while touch a && mv a renaming && ls -l > /dev/null; do :; done",
    ),
    (
        "syncing",
        "while dd if=/dev/zero of=syncing bs=64k count=16 conv=fsync; do :; done",
    ),
    (
        "listing",
        "mkdir d; while ls -R . > /dev/null && touch d/f listing && rm d/f; do :; done",
    ),
    ("waiting", "touch waiting; flock lock true"),
];

fn a_killed_daemon_leaves_no_process_hanging(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    std::fs::write(mounted.at("data"), vec![7; 1 << 20]).unwrap();
    let lock = File::create(mounted.at("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let mut clients = CLIENTS.map(|(name, script)| (name, client(&mounted, script)));
    for (name, _) in &clients {
        until(name, || mounted.at(name).exists());
    }

    mounted.kill();

    // Requests on their way when it died end with other errors, and those after it with this one.
    let gone = Errno::NOTCONN.raw_os_error();
    let code = |result: Result<(), Error>| result.err().and_then(|error| error.raw_os_error());
    until("the end of the connection", || {
        code(std::fs::read_dir(mounted.path()).map(drop)) == Some(gone)
    });
    let refused = [
        code(std::fs::metadata(mounted.path()).map(drop)),
        code(std::fs::metadata(mounted.at("data")).map(drop)),
        code(std::fs::write(mounted.at("new"), "x")),
        code(std::fs::read_dir(mounted.path()).map(drop)),
        code(std::fs::create_dir(mounted.at("newer"))),
    ];
    assert_eq!(refused, [Some(gone); 5]);
    for (name, client) in &mut clients {
        until(name, || client.try_wait().unwrap().is_some());
        let status = client.wait().unwrap();
        assert!(!status.success(), "{name} saw no error: {status}");
    }
}

fn client(mounted: &Mounted, script: &str) -> Child {
    // A loop ends with success when its condition fails.
    let mut client = shell(mounted.path(), &format!("{script}; exit 9"));
    client.stdout(Stdio::null()).stderr(Stdio::null());
    client.spawn().unwrap()
}

fn the_next_mount_clears_what_a_killed_daemon_left(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    std::fs::write(mounted.at("old"), "x").unwrap();
    mounted.kill();
    let said = mounted.mount_again(transport, "");
    let cleared = format!(
        "hearth: {}: the daemon of an earlier mount",
        mounted.path().display()
    );
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with(&cleared),
        "{said:?}"
    );
    assert!(lines[0].contains("unmounted"), "{said:?}");
    assert!(!mounted.at("old").exists());
    std::fs::write(mounted.at("new"), "y").unwrap();
    assert_eq!(mounts_below(mounted.path()).len(), 1);

    // Also if nobody reads what it says.
    mounted.kill();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut mount = hearth();
    mount
        .args(["mount", "-o", "transport=dev"])
        .arg(mounted.path());
    assert!(mount.stdout(writer).status().unwrap().success());
    assert_eq!(mounts_below(mounted.path()).len(), 1);
    assert!(!mounted.at("new").exists());
}

fn an_unmount_takes_away_what_a_killed_daemon_left(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    mounted.kill();
    assert_eq!(mounts_below(mounted.path()).len(), 1);
    mounted.unmount();
    assert!(mounts_below(mounted.path()).is_empty());
    std::fs::create_dir(mounted.at("an ordinary directory again")).unwrap();
}

fn a_daemon_asked_to_end_unmounts(transport: Transport) {
    for signal in ["TERM", "INT", "HUP"] {
        let mounted = Mounted::new(transport, "");
        std::fs::write(mounted.at("file"), "x").unwrap();
        let pid = mounted.daemon().to_string();
        assert!(said(program("kill").args(["-s", signal, &pid])).success());
        if signal == "HUP" && is_hangup_ignored() {
            // As it was started: with `nohup`, by way of these tests.
            assert!(std::fs::read(mounted.at("file")).is_ok());
            mounted.unmount();
            continue;
        }
        until(signal, || mounts_below(mounted.path()).is_empty());
        until(signal, || harness::pids_naming(mounted.path()).is_empty());
        let said = said(hearth().arg("umount").arg(mounted.path()));
        assert_eq!(said.status.code(), Some(1), "{said:?}");
    }
}

fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap() & 1 != 0
}

/// Once it ended in the middle, and left a mount that answered nobody.
#[test]
fn a_daemon_whose_starter_is_gone_serves_all_the_same() {
    let mounted = Mounted::new(Transport::Dev, "");
    mounted.unmount();
    let mut mount = hearth();
    mount.args(["mount", "--detach", "memory:"]);
    mount.arg(mounted.path()).args(["-o", "transport=dev"]);
    let mut daemon = mount.stdout(Stdio::piped()).spawn().unwrap();
    drop(daemon.stdout.take());
    until("it mounts", || !mounts_below(mounted.path()).is_empty());
    until("it serves", || std::fs::write(mounted.at("f"), "x").is_ok());
    mounted.unmount();
    assert!(daemon.wait().unwrap().success());
}

/// What the suites rely on: no program of theirs runs for ever.
#[test]
fn a_program_that_takes_too_long_is_killed() {
    let lookout = Lookout::start(Duration::from_millis(50), Duration::from_millis(50));
    let mut sleep = Command::new("sleep");
    let ended = sleep.arg("100").status().unwrap();
    assert!(!ended.success());
    assert!(lookout.end().contains(" sleep: "));
}

/// What the suites rely on: nothing they do can wait for ever.
fn who_waits_for_a_stopped_daemon_is_freed_by_the_watchdog(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let daemon = mounted.daemon().to_string();
    assert!(said(program("kill").args(["-s", "STOP", &daemon])).success());
    let watchdog = Watchdog::start(mounted.path(), Duration::from_secs(2));
    let lookout = Lookout::start(Duration::from_secs(1), Duration::from_secs(300));
    assert!(!said(program("mkdir").arg(mounted.at("dir"))).success());
    assert!(watchdog.has_barked());
    // Before that everybody was named, with what he waited in.
    let seen = lookout.end();
    let client = seen.lines().find(|line| line.contains(" mkdir: "));
    assert!(client.is_some_and(|line| line.contains("fuse")), "{seen}");
    let mut daemons = seen.lines().filter(|line| line.starts_with(&daemon));
    assert!(daemons.any(|line| line.contains(": T")), "{seen}");
    until("the mount is taken away", || {
        mounts_below(mounted.path()).is_empty()
    });
}
