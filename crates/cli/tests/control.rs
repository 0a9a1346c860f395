//! `MOUNT/.hearth`: found, not listed, readable and writable by ordinary programs.

mod harness;

use harness::{Mount, TRANSPORTS, hearth};
use std::fs;
use std::process::Command;

#[test]
fn the_control_directory_is_found_and_not_listed() {
    let mount = Mount::start("dev", &[]);
    assert_eq!(mount.shell(10, "ls -A"), "");
    assert_eq!(mount.shell(10, "ls .hearth"), "stats\nsys\nversion\n");
    let version = fs::read_to_string(mount.path().join(".hearth/version")).unwrap();
    assert_eq!(version, concat!("hearth ", env!("CARGO_PKG_VERSION"), "\n"));
    mount.shell(
        10,
        "! touch .hearth/new 2> /dev/null; ! rm .hearth/stats 2> /dev/null
         ! mv .hearth other 2> /dev/null; ! mkdir .hearth 2> /dev/null
         ! rmdir .hearth 2> /dev/null; test -f .hearth/stats",
    );
    mount.finish();
}

#[test]
fn statistics_count_what_is_done_and_name_the_transport() {
    for transport in TRANSPORTS {
        let mount = Mount::start(transport, &[]);
        let inodes = mount.stat("hearth_inodes ");
        mount.shell(30, "mkdir d; for i in $(seq 1 50); do : > d/f$i; done; ! stat none 2> /dev/null");
        assert_eq!(mount.stat("hearth_inodes ") - inodes, 51.0);
        assert_eq!(mount.stat("hearth_op_seconds_count{op=\"mkdir\"} "), 1.0);
        assert_eq!(mount.stat("hearth_op_seconds_count{op=\"create\"} "), 50.0);
        assert!(mount.stat("hearth_op_errors_total{op=\"lookup\"} ") >= 1.0);
        let text = fs::read_to_string(mount.path().join(".hearth/stats")).unwrap();
        assert!(text.contains(&format!("transport=\"{transport}\"")), "{text}");
        mount.finish();
    }
}

#[test]
fn a_tunable_takes_sense_and_refuses_nonsense() {
    let mount = Mount::start("uring", &[]);
    let sys = mount.path().join(".hearth/sys/fs");
    let before = fs::read_to_string(sys.join("memory-budget")).unwrap();
    fs::write(sys.join("memory-budget"), "1048576\n").unwrap();
    assert_eq!(fs::read_to_string(sys.join("memory-budget")).unwrap(), "1048576\n");
    fs::write(sys.join("memory-budget"), &before).unwrap();
    for (file, nonsense) in [
        ("memory-budget", "-1"),
        ("memory-budget", "much"),
        ("memory-budget", "1"),
        ("memory-budget", "99999999999999999999999"),
        ("atime", "sometimes"),
        ("read-only", "2"),
        ("read-only", ""),
    ] {
        let path = sys.join(file);
        let old = fs::read_to_string(&path).unwrap();
        let error = fs::write(&path, format!("{nonsense}\n")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(22), "{file}: {nonsense}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), old, "{file}: {nonsense}");
    }
    mount.finish();
}

#[test]
fn a_volume_is_made_read_only_and_writable_again_while_mounted() {
    let mount = Mount::start("uring", &[]);
    mount.shell(
        10,
        "echo 1 > .hearth/sys/fs/read-only
         ! touch f 2> /dev/null",
    );
    let error = fs::write(mount.path().join("g"), "x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(30), "{error}");
    mount.shell(10, "echo 0 > .hearth/sys/fs/read-only; echo x > g; cat g");
    mount.finish();
}

#[test]
fn the_verb_stats_shows_a_table_and_json() {
    let mount = Mount::start("dev", &[]);
    mount.shell(10, "mkdir a; : > a/b; cat a/b; ls a");
    let place = mount.path();
    let place = place.to_str().unwrap();
    let (status, out, err) = hearth(&["stats", place]);
    assert_eq!((status, &*err), (0, ""));
    assert!(out.lines().any(|line| line.starts_with("create ")), "{out}");
    assert!(!out.contains('\x1b'), "colour is for terminals");
    let (status, out, err) = hearth(&["stats", "--json", place]);
    assert_eq!((status, &*err), (0, ""));
    assert!(out.starts_with("{\"") && out.contains("\"hearth_inodes\":"), "{out}");
    let watch = Command::new("timeout")
        .args(["2.5", env!("CARGO_BIN_EXE_hearth"), "stats", "--json", "--watch", place])
        .output()
        .unwrap();
    let lines = String::from_utf8_lossy(&watch.stdout).lines().count();
    assert!((1..=3).contains(&lines), "{lines} lines in 2.5 seconds");
    mount.finish();
}

#[test]
fn the_verb_stats_names_a_place_without_a_mount() {
    let (status, out, err) = hearth(&["stats", "/proc"]);
    assert_eq!((status, &*out), (1, ""));
    assert!(err.starts_with("hearth: /proc: no statistics") && err.lines().count() == 1, "{err}");
}
